//! What is wrong with a job, or with the arguments that say one.

use std::{fmt, path::Path};

use crate::payload::PayloadError;

/// A field of a job that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// Its name, as in SageMaker's API.
    pub field: &'static str,
    /// What was expected and what was given.
    pub problem: String,
}

/// What is wrong with an argument of the command line, or with a file that it names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ArgumentError {
    /// The option or file, what was expected and what was given.
    text: String,
}

impl ArgumentError {
    pub(crate) fn new(text: impl Into<String>) -> ArgumentError {
        ArgumentError { text: text.into() }
    }

    /// In a file.
    pub(crate) fn file(file: &Path, problem: impl fmt::Display) -> ArgumentError {
        ArgumentError { text: format!("{}: {problem}", file.display()) }
    }
}

impl From<PayloadError> for ArgumentError {
    fn from(error: PayloadError) -> ArgumentError {
        ArgumentError { text: error.to_string() }
    }
}

impl From<loadgen::Error> for ArgumentError {
    fn from(error: loadgen::Error) -> ArgumentError {
        ArgumentError { text: error.to_string() }
    }
}

impl Invalid {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Invalid {
        Invalid { field, problem: problem.into() }
    }
}
