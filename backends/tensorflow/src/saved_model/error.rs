//! What is wrong with a SavedModel: all of it, or a part.

use std::fmt;

/// Why a SavedModel is not served: a sentence that names the file, the graph or the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedModelError(String);

impl SavedModelError {
    pub(crate) fn new(text: impl fmt::Display) -> SavedModelError {
        SavedModelError(text.to_string())
    }

    /// In a file.
    pub(super) fn file(file: impl fmt::Display, problem: impl fmt::Display) -> SavedModelError {
        SavedModelError(format!("{file}: {problem}"))
    }
}

impl fmt::Display for SavedModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SavedModelError {}

/// What is wrong with a part of it, such as a record, an input or a value: what follows the name of the part in a
/// sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Defect(String);

impl Defect {
    pub(crate) fn new(text: impl fmt::Display) -> Defect {
        Defect(text.to_string())
    }

    /// Of the larger part that has this one.
    pub(crate) fn within(self, part: impl fmt::Display) -> Defect {
        Defect(format!("{part} {self}"))
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Defect {}
