//! What can go wrong between a store and the disk, in words for the operator, without secrets.

use std::fmt::Display;

use crate::store_settings::StoreUrl;

/// Why a model could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The settings or credentials cannot be used.
    #[error("repository '{url}': {problem}")]
    Settings {
        /// The repository.
        url: String,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// The store does not have such a model.
    #[error("there is no model '{model}' in {url}: no object's name begins with {url}/{model}/")]
    NoModel {
        /// The model.
        model: String,
        /// The repository.
        url: String,
    },
    /// The store could not be asked, or refused.
    #[error("{0}")]
    Access(Box<Refusal>),
    /// The local copy could not be written or read.
    #[error(
        "cannot {doing} {path}: {reason}; copies of models need a directory that the server may write to, on a \
         disk with room for them: name one with --model-repository-cache-dir"
    )]
    Cache {
        /// As `write`.
        doing: &'static str,
        /// The file or directory.
        path: String,
        /// What the system said.
        reason: String,
    },
}

/// What a store or the network did not let happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot {doing} {object}: {reason}; endpoint: {endpoint}; credentials: {credentials}{hint}"
)]
pub struct Refusal {
    /// As `read`.
    pub doing: &'static str,
    /// Its address: bucket and key.
    pub object: String,
    /// What the store or the network said.
    pub reason: String,
    /// Who was asked.
    pub endpoint: String,
    /// Where what signs the requests came from.
    pub credentials: String,
    /// What to do; begins with `; `, or is empty.
    pub hint: &'static str,
}

impl StoreError {
    /// Does it come from the store or the way to it, so that it may pass?
    pub fn is_away(&self) -> bool {
        matches!(self, StoreError::Access(_))
    }

    pub(super) fn settings(url: &StoreUrl, problem: impl Display) -> StoreError {
        StoreError::Settings { url: url.text.clone(), problem: problem.to_string() }
    }
}
