//! What the references say of tiny folders: tokens, classes, rankings, vectors, boxes and speech. The rows are fed
//! with the outputs that the reference had, so that no engine is needed.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod bank;
mod boxes;
mod classes;
mod fixture;
mod spans;
mod speech;
mod tokens;
mod vectors;
