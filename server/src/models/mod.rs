//! Models: their configuration.

pub mod pbtxt;
pub mod raw;
