//! Vectors of texts in replies: as numbers, or as base64 of their bytes; and what their texts have taken.

use backend::{NamedTensor, Tensor};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::json::write;
use inference::{
    error::Error,
    request::InferenceResponse,
    task::{EMBEDDING, TOKENS},
};

/// The vectors of a response: one for each row, of 32-bit floating-point numbers.
#[derive(Debug)]
pub struct Vectors<'a> {
    tensor: &'a Tensor,
    rows: usize,
}

impl<'a> Vectors<'a> {
    /// Those of a response.
    ///
    /// # Errors
    /// When it has none, or one of them is not a number.
    pub fn of(response: &'a InferenceResponse) -> Result<Vectors<'a>, Error> {
        let tensor = output(response, EMBEDDING)?;
        let rows = tensor.shape().rows().unwrap_or(0);
        let vectors = Vectors { tensor, rows };
        for (row, bytes) in vectors.rows().enumerate() {
            if let Some(at) = numbers(&bytes).position(|it| !it.is_finite()) {
                let problem = format!("the vector of text {row} is not a number at position {at}");
                return Err(Error::Backend(backend::BackendError::Execute(problem)));
            }
        }
        Ok(vectors)
    }

    /// The bytes of each vector.
    pub fn rows(&self) -> impl Iterator<Item = bytes::Bytes> {
        (0..self.rows).filter_map(|at| Some(self.tensor.slice_rows(at, 1)?.to_bytes()))
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(size_of::<f32>()).map(bytemuck::pod_read_unaligned)
}

/// A vector as a list of numbers.
pub fn write_list(out: &mut Vec<u8>, vector: &[u8]) {
    write::numbers_of(out, numbers(vector));
}

/// A vector as the base64 of its bytes, between quotes.
pub fn write_base64(out: &mut Vec<u8>, vector: &[u8]) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + vector.len().div_ceil(3) * 4, 0);
    let written = out.get_mut(start..).and_then(|it| STANDARD.encode_slice(vector, it).ok());
    out.truncate(start + written.unwrap_or(0));
    out.push(b'"');
}

/// Tokens of all texts of a response, special ones included.
///
/// # Errors
/// When it does not say.
pub fn tokens(response: &InferenceResponse) -> Result<u64, Error> {
    let counts = output(response, TOKENS)?.to_bytes();
    let counts = counts.chunks_exact(size_of::<i64>()).map(bytemuck::pod_read_unaligned::<i64>);
    Ok(counts.map(|it| u64::try_from(it).unwrap_or(0)).sum())
}

/// The output of that name.
///
/// # Errors
/// When the response has none.
pub fn output<'a>(response: &'a InferenceResponse, name: &str) -> Result<&'a Tensor, Error> {
    let mut outputs = response.outputs.iter();
    let found = outputs.find(|NamedTensor { name: it, .. }| **it == *name);
    let missing = || Error::Internal(format!("the reply has no output '{name}'"));
    found.map(|it| &it.tensor).ok_or_else(missing)
}
