//! muster: a model server.
#![forbid(unsafe_code)]

pub mod app;
pub mod health;
