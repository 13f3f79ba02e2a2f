//! What is wrong with a job.

/// A field of a job that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// Its name, as in SageMaker's API.
    pub field: &'static str,
    /// What was expected and what was given.
    pub problem: String,
}

impl Invalid {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Invalid {
        Invalid { field, problem: problem.into() }
    }
}
