//! muster: a model server.
#![forbid(unsafe_code)]

pub mod error;
pub mod models;
pub mod request;
pub mod signature;
