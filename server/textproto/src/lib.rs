//! Protobuf text format: what operators write down for models, batches and servers, read against its definition.
//!
//! The parser is our own: positions and nearest names in its errors, all errors at once, and
//! `input [ .. ]` without a colon, which nearly every existing file has and reflection libraries refuse.
#![forbid(unsafe_code)]

mod lex;
mod parse;
mod parser;
mod problem;
mod scalars;
pub mod tensorflow;

pub use parse::parse;
pub use problem::{ReadError, TextProblem};
