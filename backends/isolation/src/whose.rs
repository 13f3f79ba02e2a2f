//! Which model version a worker is of, for the log and for errors.

/// A model version.
#[derive(Debug, Clone)]
pub(crate) struct Whose {
    pub(crate) model: String,
    pub(crate) version: u64,
}
