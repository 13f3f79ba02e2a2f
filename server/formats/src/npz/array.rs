//! One array of an archive.

use backend::Tensor;

use super::zip::File;
use crate::{expansion::Allowance, npy};
use inference::{error::Error, grant::Grant, signature::Port};

/// The array in a file. What it takes as a tensor of the input's type is taken off `allowance`.
pub(super) fn array(
    port: &Port,
    file: &File,
    allowance: &mut Allowance,
    grant: &Grant,
) -> Result<Tensor, Error> {
    allowance.take(npy::length(port, &file.data)?)?;
    npy::decode(port, &file.data, grant)
}
