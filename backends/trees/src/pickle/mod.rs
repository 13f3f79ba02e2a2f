//! Pickles, read as data. A pickle is a program that builds Python objects; the machine here follows it and builds
//! inert values instead.
//!
//! A class or a function is nothing but its name, and a call is a value with the name of what Python would have called
//! and the arguments. Nothing is imported, looked up or run. Readers of models compare the values with what the
//! libraries write.

pub mod array;
mod cursor;
mod frame;
mod keeper;
mod literal;
mod machine;
mod text;
pub mod value;

pub use machine::read;
