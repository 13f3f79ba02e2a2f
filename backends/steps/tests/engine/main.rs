//! The engine `steps`: each step on small tensors, and what is wrong with one that does not load.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod empty;
mod fixture;
mod pictures;
mod sounds;
mod text;
