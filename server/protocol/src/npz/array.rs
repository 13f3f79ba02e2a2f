//! One array of an archive.

use backend::Tensor;

use super::zip::File;
use crate::{expansion::Room, npy};
use inference::{error::Error, signature::Port};

/// The array in a file. What it takes as a tensor of the input's type is taken off `room`.
pub(super) fn array(port: &Port, file: &File, room: &mut Room) -> Result<Tensor, Error> {
    room.take(npy::length(port, &file.data)?)?;
    npy::decode(port, &file.data)
}
