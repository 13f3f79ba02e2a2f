//! Codecs of the bodies and replies of each family. Pure.

#[cfg(test)]
mod bounds_tests;
pub mod cost;
pub mod hub;
pub mod infinity;
pub mod openai;
mod reply_id;
pub mod rerank;
pub mod tei;
pub mod terms;
mod texts;
mod usage;
