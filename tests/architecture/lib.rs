//! The rules of the architecture: tests of what the files of the repository say. They need none of its crates, and so
//! are one of their own: nothing else is built before they run.
#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "mod.rs"]
mod architecture;
