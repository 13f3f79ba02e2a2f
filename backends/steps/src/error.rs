//! What can be wrong with a folder, and what can be wrong with one input.

use backend::BackendError;

/// Why a folder is not served: which file, which key in it, what is wrong and what mends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderError {
    /// The file, relative to the folder.
    pub file: String,
    /// The key in the file, for example `id2label.3`. Empty where the file as a whole is meant.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to do. Empty where the problem says it.
    pub remedy: String,
}

impl FolderError {
    /// A problem with a file as a whole.
    pub fn file(file: impl Into<String>, problem: impl Into<String>) -> FolderError {
        FolderError {
            file: file.into(),
            key: String::new(),
            problem: problem.into(),
            remedy: String::new(),
        }
    }

    /// A problem with one key of a file.
    pub fn key(
        file: impl Into<String>,
        key: impl Into<String>,
        problem: impl Into<String>,
    ) -> FolderError {
        FolderError { key: key.into(), ..FolderError::file(file, problem) }
    }

    /// The same problem with what mends it.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> FolderError {
        FolderError { remedy: remedy.into(), ..self }
    }
}

impl std::fmt::Display for FolderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for FolderError {}

impl From<FolderError> for BackendError {
    fn from(error: FolderError) -> BackendError {
        BackendError::Load(error.to_string())
    }
}

/// Why no ensemble of steps does what a pipeline does: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoEnsemble(String);

impl NoEnsemble {
    pub(crate) fn new(reason: impl Into<String>) -> NoEnsemble {
        NoEnsemble(reason.into())
    }
}

/// Why a graph has no pipeline, so that it is served with tensors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoPipeline(String);

impl NoPipeline {
    pub(crate) fn new(reason: impl Into<String>) -> NoPipeline {
        NoPipeline(reason.into())
    }
}

/// As much of a client's own text as an error repeats to it.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

/// Characters of a text that are shown.
const LONGEST_SHOWN: usize = 100;

/// Why one input has no answer. Other inputs of the same request or run are not concerned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The text has more bytes than the server takes.
    #[error("the text has {given} bytes, at most {allowed} are taken")]
    TooManyBytes {
        /// Bytes of the text.
        given: usize,
        /// The bound.
        allowed: usize,
    },
    /// More characters than the longest input can have, and truncation was not asked for.
    #[error(
        "the text has {given} characters, an input of {tokens} tokens is read up to {allowed}; \
         set truncation to true to have it cut"
    )]
    TooManyCharacters {
        /// Characters of the text.
        given: usize,
        /// The bound.
        allowed: usize,
        /// Tokens of the longest input.
        tokens: usize,
    },
    /// More tokens than the model takes, and truncation was not asked for.
    #[error(
        "the input has {given} tokens, the model takes {allowed}; set truncation to true to have it cut"
    )]
    TooManyTokens {
        /// Tokens of the input, special ones included.
        given: usize,
        /// Tokens of the longest input.
        allowed: usize,
    },
    /// The limit leaves no room, or the text that may be cut is not the one that is too long.
    #[error("{0}")]
    Truncation(String),
    /// The tokenizer gave up.
    #[error("the tokenizer failed: {0}")]
    Tokenizer(String),
    /// A token id that the tokenizer does not have.
    #[error(
        "token id {id} is beyond the vocabulary of {size} tokens; with LangChain set check_embedding_ctx_length=False, \
         since its ids are those of another tokenizer"
    )]
    UnknownId {
        /// The id.
        id: u32,
        /// Ids of the vocabulary.
        size: usize,
    },
    /// No prompt has this name.
    #[error("no prompt is called '{name}'{known}")]
    UnknownPrompt {
        /// The name that was given.
        name: String,
        /// The names that there are, as the end of the sentence.
        known: String,
    },
    /// A parameter's value is outside of what it may be.
    #[error("parameter '{name}': {problem}")]
    Parameter {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The input is not of the form that the task takes.
    #[error("{0}")]
    Input(String),
    /// It was given up, since nobody waits for its answer any more.
    #[error("the input is not wanted any more")]
    Stopped,
    /// The model does not do this task.
    #[error("the model does not do {asked}; it does {known}")]
    Task {
        /// The task that was asked for.
        asked: &'static str,
        /// The tasks that it does, with commas.
        known: String,
    },
    /// One text of a list cannot be taken.
    #[error("{what} {number}: {problem}")]
    InList {
        /// What the list is of.
        what: &'static str,
        /// Its place, from 1 on.
        number: usize,
        /// What is wrong with it.
        problem: Box<RowError>,
    },
    /// The graph gave something that is no number.
    #[error("the model's output '{output}' is not a number at position {position}")]
    NotANumber {
        /// The output.
        output: String,
        /// Index of the value in the row.
        position: usize,
    },
    /// The graph's output has not the shape or type that the task needs.
    #[error("the model's output '{output}': {problem}")]
    Output {
        /// The output.
        output: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl RowError {
    /// The same of one text in a list of `of`: with its place, where there are several.
    #[must_use]
    pub(crate) fn in_list(self, what: &'static str, at: usize, of: usize) -> RowError {
        match of {
            1 => self,
            _ => RowError::InList { what, number: at + 1, problem: Box::new(self) },
        }
    }

    /// Is the model at fault rather than the input?
    pub fn is_of_the_model(&self) -> bool {
        match self {
            RowError::NotANumber { .. } | RowError::Output { .. } => true,
            RowError::InList { problem, .. } => problem.is_of_the_model(),
            RowError::TooManyBytes { .. }
            | RowError::TooManyCharacters { .. }
            | RowError::TooManyTokens { .. }
            | RowError::Truncation(_)
            | RowError::Tokenizer(_)
            | RowError::UnknownId { .. }
            | RowError::UnknownPrompt { .. }
            | RowError::Parameter { .. }
            | RowError::Input(_)
            | RowError::Stopped
            | RowError::Task { .. } => false,
        }
    }
}

impl From<RowError> for BackendError {
    fn from(error: RowError) -> BackendError {
        match error.is_of_the_model() {
            true => BackendError::Execute(error.to_string()),
            false => BackendError::InvalidInput(error.to_string()),
        }
    }
}
