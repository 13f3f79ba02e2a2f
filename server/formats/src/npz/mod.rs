//! NumPy's `.npz`: arrays by name in a ZIP archive, each an input; or one of SciPy's sparse matrices, as dense rows of
//! the only input.

mod array;
mod sparse;
mod zip;

use backend::{NamedTensor, Tensor};
use bytes::Bytes;

use crate::{
    expansion::{Allowance, OMITTED},
    inputs,
    number::Excerpt,
    shapes,
};
use array::array;
use inference::{
    error::Error,
    grant::Grant,
    signature::{Port, Signature},
};
use zip::File;

/// The inputs in an archive. `limit`: most bytes of its files together.
///
/// Arrays without names (`arr_0`, `arr_1`) are the inputs in their order, and a lone array is the only input whatever
/// its name.
///
/// # Errors
/// When the archive is damaged, or much larger than what was sent; when an array is no input, or does not fit it.
pub fn decode(
    signature: &Signature,
    body: &Bytes,
    limit: Option<u64>,
    grant: &Grant,
) -> Result<Vec<NamedTensor>, Error> {
    let mut files = zip::files(body, limit, grant)?;
    if files.is_empty() {
        return Err(Error::InvalidRequest("npz: the archive has no arrays".to_owned()));
    }
    for file in &mut files {
        file.name.truncate(file.name.strip_suffix(".npy").unwrap_or(&file.name).len());
    }
    if sparse::is_sparse(|name| files.iter().any(|it| it.name == name)) {
        let port = inputs::only_input(signature).ok_or_else(|| {
            let names = inputs::names_of(signature);
            Error::InvalidRequest(format!(
                "npz: a sparse matrix is one input, the model has {names}"
            ))
        })?;
        let tensor = sparse::decode(port, &files, body.len(), limit, grant)?;
        return Ok(vec![input(signature, port, tensor)]);
    }
    if let ([only], Some(port)) = (files.as_slice(), inputs::only_input(signature)) {
        let tensor = array(port, only, &mut Allowance::of(OMITTED, body.len()), grant)?;
        return Ok(vec![input(signature, port, tensor)]);
    }
    let mut allowance = Allowance::of(OMITTED, body.len());
    let named = files.iter().map(|file| {
        let port = port_of(signature, file)?;
        Ok(input(signature, port, array(port, file, &mut allowance, grant)?))
    });
    named.collect()
}

fn port_of<'s>(signature: &'s Signature, file: &File) -> Result<&'s Port, Error> {
    let unnamed = file.name.strip_prefix("arr_").and_then(|it| it.parse::<usize>().ok());
    let port =
        signature.input(&file.name).or_else(|| unnamed.and_then(|at| signature.inputs.get(at)));
    port.ok_or_else(|| {
        let (name, names) = (Excerpt(&file.name), inputs::names_of(signature));
        Error::InvalidRequest(format!(
            "npz: the array '{name}' is not an input; the model's inputs are {names}"
        ))
    })
}

fn input(signature: &Signature, port: &Port, tensor: Tensor) -> NamedTensor {
    let tensor = match signature.inputs.as_slice() {
        [_] => shapes::as_rows_or_one(signature, port, tensor),
        _ => shapes::as_rows(signature, port, tensor),
    };
    NamedTensor { name: port.name.clone(), tensor }
}

#[cfg(test)]
mod tests;
