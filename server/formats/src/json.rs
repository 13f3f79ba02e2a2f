//! JSON as muster reads and writes it: a pull reader over the body, without a tree, and the few functions
//! that append to a reply.
//!
//! The reader is strict RFC 8259, with one addition: where a number may stand, so may the bare words `NaN`,
//! `Infinity` and `-Infinity`, and they are written the same way. Nesting is bounded, and no function calls
//! itself: the stack does not grow with the input. Every error says where it is, twice: as a path
//! (`inputs[0].shape`) and as an offset in bytes.

mod base64;
mod file;
mod keys;
mod path;
mod plain;
mod reader;
mod skip;
mod tensor;
mod text;
mod token;
pub mod write;

pub use reader::{JsonReader, MAX_DEPTH, Mark, ValueStart};
pub use tensor::BytesForm;
pub use token::Token;

/// Does the body begin as a JSON object or array?
pub fn begins_with_bracket(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

#[cfg(test)]
mod tests;
