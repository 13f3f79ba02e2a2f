//! muster: a model server.
#![forbid(unsafe_code)]

pub mod error;
pub mod request;
pub mod signature;

pub mod drain;
pub mod limits;
pub mod metrics;

pub mod schedule;
