//! Fuzz targets: one function for each decoder of bytes that clients or operators send, with the same checks however
//! its inputs are made. The program of this package mutates examples on a stable compiler; `guided` is for cargo-fuzz.
//!
//! A target fails by a panic. [`oracle`] panics where a decoder takes more memory or time than is promised for it.
#![forbid(unsafe_code)]

pub mod mutate;
pub mod oracle;
mod pipelines;
mod requests;
pub mod seen;
mod signatures;
pub mod targets;
