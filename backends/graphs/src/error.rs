//! Why there is no graph.

/// A folder whose graph cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A file is damaged or missing.
    #[error("{file}: {problem}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A key of `config.json` is missing or has a value that no graph is made for.
    #[error("config.json: {key}: expected {expected}, given {given}")]
    Config {
        /// The key.
        key: String,
        /// What it may be.
        expected: String,
        /// What it is.
        given: String,
    },
    /// The files have no tensor that the graph needs.
    #[error("the weights have no tensor '{name}' of shape {dims:?}, which config.json asks for")]
    Missing {
        /// Its name.
        name: String,
        /// The shape that it should have.
        dims: Vec<usize>,
    },
    /// A tensor has another shape than the configuration says.
    #[error(
        "the tensor '{name}' has the shape {given:?}, and by config.json it should have {expected:?}"
    )]
    Shape {
        /// Its name.
        name: String,
        /// By the configuration.
        expected: Vec<usize>,
        /// In the file.
        given: Vec<usize>,
    },
    /// The files have a tensor that the graph has no use for.
    #[error(
        "the weights have a tensor '{0}' that no model of this kind has: the graph would not be the whole model"
    )]
    Unexpected(String),
    /// The weights are too many for one file.
    #[error(
        "the weights are {bytes} bytes, and a file of ONNX holds {most}; serve the folder as it is"
    )]
    TooLarge {
        /// Bytes of the weights.
        bytes: u64,
        /// As many as fit.
        most: u64,
    },
}

impl GraphError {
    pub(crate) fn file(file: &str, problem: String) -> GraphError {
        GraphError::File { file: file.to_owned(), problem }
    }
}
