//! Why a model could not be fetched, in words for the operator, without secrets.

use std::{io, path::Path};

use archives::ArchiveError;
use stores::StoreError;

use crate::choose::ChoiceError;

/// Why a model could not be fetched.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch {name}: {problem}")]
pub struct SourceError {
    /// The model's whole name.
    pub name: String,
    /// What is wrong.
    pub problem: SourceProblem,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum SourceProblem {
    /// The other side was asked and refused.
    #[error("{url} answered {status}{said}{hint}")]
    Refused {
        /// The address, without its query.
        url: String,
        /// The status of HTTP.
        status: u16,
        /// What the other side said; begins with `: `, or is empty.
        said: String,
        /// What to do; begins with `; `, or is empty.
        hint: &'static str,
    },
    /// The other side could not be asked, or broke off each time.
    #[error("{url}: {reason}")]
    Away {
        /// The address, without its query.
        url: String,
        /// What happened.
        reason: String,
    },
    /// What came is not what the other side has announced.
    #[error("{url}: {problem}")]
    Answer {
        /// The address, without its query.
        url: String,
        /// What was expected, and what came.
        problem: String,
    },
    /// The content is another one.
    #[error("{file}: its content has {found}, expected {expected}; it was removed")]
    Digest {
        /// The file, or its address.
        file: String,
        /// The digest that was expected.
        expected: String,
        /// The digest of what came.
        found: String,
    },
    /// The disk is too small.
    #[error("{dir} has room for {free} bytes, and {needed} are to be fetched")]
    Room {
        /// The directory.
        dir: String,
        /// Bytes that are free.
        free: u64,
        /// Bytes that were announced.
        needed: u64,
    },
    /// The disk could not be written or read.
    #[error("cannot {doing} {path}: {reason}")]
    Disk {
        /// As `write`.
        doing: &'static str,
        /// The file or directory.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// There is no directory to fetch into.
    #[error("there is no directory for it: name one with --hub-cache-dir or HF_HOME")]
    NoCache,
    /// It is not here, and nothing may be asked.
    #[error(
        "it is not in {dir}, and --hub-offline (HF_HUB_OFFLINE) keeps the hub from being asked"
    )]
    Offline {
        /// Where it would be.
        dir: String,
    },
    /// No server of MLflow's is known.
    #[error(
        "set MLFLOW_TRACKING_URI to the http[s]://<host>[:<port>] of a server of MLflow's{}",
        .given.as_ref().map(|it| format!(", it is '{it}'")).unwrap_or_default()
    )]
    NoRegistry {
        /// What is set instead.
        given: Option<String>,
    },
    /// The artifacts of a version lie where nothing is fetched from.
    #[error(
        "its artifacts lie at '{uri}'{}: start MLflow's server with --artifacts-destination and without \
         --no-serve-artifacts, or fetch them with 'mlflow artifacts download --artifact-uri {name} --dst-path DIR' and \
         serve DIR",
        .why
    )]
    Elsewhere {
        /// Where they lie.
        uri: String,
        /// Why they are not fetched; begins with a comma, or is empty.
        why: &'static str,
        /// The model's whole name.
        name: String,
    },
    /// A store cannot be asked for artifacts.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A layer of an image cannot be unpacked.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// None of its files can be served, or several.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The lock file does not allow it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The system refused a resource.
    #[error("cannot start: {0}")]
    System(io::Error),
}

/// What is wrong with a lock file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// It cannot be read, or holds something else.
    #[error("--lock-file '{path}': {problem}")]
    Content {
        /// The file.
        path: String,
        /// What was expected, and what is there.
        problem: String,
    },
    /// It has no such model.
    #[error(
        "--lock-file '{path}' has no such model: 'muster pull {name} --lock-file={path}' adds it"
    )]
    Missing {
        /// The file.
        path: String,
        /// The model.
        name: String,
    },
    /// What is there is not what it was.
    #[error(
        "--lock-file: its file '{file}' has {found}, and {expected} in the lock file; 'muster pull --update' takes it as \
         it is now"
    )]
    Changed {
        /// The file.
        file: String,
        /// The digest of the lock file.
        expected: String,
        /// The digest that it has.
        found: String,
    },
}

impl SourceProblem {
    /// What the system said when a file or a directory was touched.
    pub(crate) fn disk(doing: &'static str, path: &Path, error: &io::Error) -> SourceProblem {
        SourceProblem::Disk { doing, path: path.display().to_string(), reason: error.to_string() }
    }
}
