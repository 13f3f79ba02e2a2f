//! Models: their configuration.

mod check;
pub mod choose;
pub mod complete;
pub mod config;
mod fit;
mod mode;
pub mod pbtxt;
pub mod raw;
