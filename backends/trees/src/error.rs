//! Why the bytes of a file are no model that can be served.

use std::path::Path;

use backend::BackendError;

/// What is wrong, and where in the model. The text does not name the file: the caller knows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FormatError(String);

impl FormatError {
    /// Something about the file as a whole.
    pub fn new(problem: impl Into<String>) -> FormatError {
        FormatError(problem.into())
    }

    /// Something about one tree, counted from zero in the order of the file.
    pub fn of_tree(tree: usize, problem: impl std::fmt::Display) -> FormatError {
        FormatError(format!("tree {tree}: {problem}"))
    }

    /// Something about one node, with its number in the file.
    pub fn of_node(tree: usize, node: usize, problem: impl std::fmt::Display) -> FormatError {
        FormatError(format!("tree {tree}, node {node}: {problem}"))
    }

    /// The file ends, or an array of it does, before the bytes that begin at `offset`.
    pub fn past_the_end(what: impl std::fmt::Display, offset: usize) -> FormatError {
        FormatError(format!("{what} reaches past the end at offset {offset}"))
    }

    /// The load error of a model in that file.
    pub fn in_file(&self, path: &Path) -> BackendError {
        BackendError::Load(format!("{}: {self}", path.display()))
    }
}
