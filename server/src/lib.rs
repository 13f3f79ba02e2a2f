//! muster: a model server.
#![forbid(unsafe_code)]

pub mod app;
pub mod config;
pub mod engines;
pub mod explain;
pub mod health;
pub mod tools;

/// This process's program, also where its file has been replaced or removed since.
pub const OWN_PROGRAM: &str = "/proc/self/exe";
