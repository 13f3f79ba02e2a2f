//! muster: a model server.
#![forbid(unsafe_code)]

pub mod app;
pub mod config;
pub mod engines;
pub mod explain;
pub mod health;
