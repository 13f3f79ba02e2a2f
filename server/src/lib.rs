//! muster: a model server.
#![forbid(unsafe_code)]

pub mod error;
pub mod protocol;
pub mod request;
pub mod signature;
