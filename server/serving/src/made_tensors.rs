//! Tensors that the server makes because a configuration says their sizes: samples for warming up, states at the
//! beginning. No configuration makes it take memory that it has not.

use std::sync::Arc;

use backend::{DataType, NamedTensor, Shape, Tensor};

use inference::{request::InferenceRequest, signature::Signature};
use machine::{Machine, bytes_text};

/// A tensor of more bytes is taken for a mistake.
const MOST: u64 = 1 << 30;

/// One of no more is no matter of how much memory there is.
const ALWAYS: u64 = 64 << 10;

/// Such a tensor takes one part of so many of the memory at most.
const PARTS: u64 = 8;

/// Why a tensor is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MadeTensorError {
    /// It would take more memory than is there for it.
    #[error(
        "{what} would be {}; expected at most {}, which is 1 GiB or an eighth of the memory, as the server makes it",
        .bytes.map_or("more bytes than there are".to_owned(), bytes_text),
        bytes_text(*.most)
    )]
    TooLarge {
        /// Its type and shape, or its rows.
        what: String,
        /// What it would take, where that is a number.
        bytes: Option<u64>,
        /// What it may take.
        most: u64,
    },
    /// There is no such tensor, as this says.
    #[error("{0}")]
    Tensor(String),
}

/// One request of zeros that the model must be able to run: what warming up uses. Free dimensions are 1. `None` where
/// it is not known how many there are, and where they would be too large.
pub fn request_of_zeros(signature: &Signature, rows: usize) -> Option<InferenceRequest> {
    let batch = signature.batches().then_some(rows);
    let required = signature.inputs.iter().filter(|it| !it.optional);
    if required.clone().any(|it| it.any_rank) {
        return None;
    }
    let inputs = required.map(|port| {
        let dims = port.dims.iter().map(|it| it.unwrap_or(1));
        let shape = batch.into_iter().chain(dims).collect();
        let tensor = zeros(port.dtype, &shape).ok()?;
        Some(NamedTensor { name: Arc::clone(&port.name), tensor })
    });
    Some(InferenceRequest { inputs: inputs.collect::<Option<_>>()?, ..InferenceRequest::default() })
}

/// Zeros of that type and shape.
///
/// # Errors
/// The shape, its bytes and how many there may be.
pub fn zeros(dtype: DataType, shape: &Shape) -> Result<Tensor, MadeTensorError> {
    zeros_below(dtype, shape, || most(Machine::read().memory))
}

/// `content`, for so many rows.
///
/// # Errors
/// How many bytes it would be, and how many there may be.
pub fn repeated(content: &[u8], rows: usize) -> Result<Vec<u8>, MadeTensorError> {
    repeated_below(content, rows, || most(Machine::read().memory))
}

fn most(memory: Option<u64>) -> u64 {
    memory.map_or(MOST, |it| MOST.min(it / PARTS))
}

fn zeros_below(
    dtype: DataType,
    shape: &Shape,
    most: impl FnOnce() -> u64,
) -> Result<Tensor, MadeTensorError> {
    let size = dtype.size().unwrap_or(4);
    let bytes = shape.elements().and_then(|it| it.checked_mul(size));
    check(|| format!("{dtype} {shape}"), bytes, most)?;
    Tensor::zeros(dtype, shape.clone()).map_err(|it| MadeTensorError::Tensor(it.to_string()))
}

fn repeated_below(
    content: &[u8],
    rows: usize,
    most: impl FnOnce() -> u64,
) -> Result<Vec<u8>, MadeTensorError> {
    let what = || format!("{rows} rows of {} bytes", content.len());
    check(what, content.len().checked_mul(rows), most)?;
    Ok(content.repeat(rows))
}

/// Bytes that there are on any machine are given without a look at how many there may be: files have to be read for it.
fn check(
    what: impl FnOnce() -> String,
    bytes: Option<usize>,
    most: impl FnOnce() -> u64,
) -> Result<(), MadeTensorError> {
    let bytes = bytes.and_then(|it| u64::try_from(it).ok());
    if bytes.is_some_and(|it| it <= ALWAYS) {
        return Ok(());
    }
    let most = most();
    match bytes.filter(|it| *it <= most) {
        Some(_) => Ok(()),
        None => Err(MadeTensorError::TooLarge { what: what(), bytes, most }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_configuration_has_the_server_make_is_at_most_an_eighth_of_the_memory() {
        assert_eq!(
            (most(None), most(Some(64 << 30)), most(Some(1 << 30))),
            (MOST, MOST, 128 << 20)
        );
        let made = |rows| zeros_below(DataType::Fp32, &Shape::new(&[rows, 256]), || 1 << 20);
        assert_eq!(made(1024).unwrap().byte_len(), 1 << 20);
        let error = made(1025).unwrap_err().to_string();
        assert!(
            error.contains("FP32 [1025,256] would be") && error.contains("at most 1 MiB"),
            "{error}"
        );
        assert!(made(usize::MAX).unwrap_err().to_string().contains("more bytes than there are"));
        let unasked = || -> u64 { panic!("so few bytes are there on any machine") };
        assert_eq!(repeated_below(b"ab", 3, unasked), Ok(b"ababab".to_vec()));
        let long = [0; ALWAYS as usize];
        assert_eq!(repeated_below(&long, 3, || 3 * ALWAYS).unwrap().len(), 3 * long.len());
        repeated_below(&long, 4, || 3 * ALWAYS).unwrap_err().to_string();
        repeated_below(b"ab", usize::MAX, || u64::MAX).unwrap_err().to_string();
    }
}
