//! The program that a process of a model's own becomes, where an engine is not of this program.

use std::{ffi::OsString, path::PathBuf};

/// A program that speaks the messages of a worker, in JSON, and what it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerProgram {
    /// The program.
    pub path: PathBuf,
    /// What follows its name.
    pub args: Vec<OsString>,
    /// The name of the variable that says which open file has [`WorkerProgram::given`].
    pub given_in: &'static str,
    /// A JSON object. The number of the control socket is added to it, as `control`.
    pub given: String,
}
