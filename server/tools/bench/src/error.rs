//! Why a run could not be made. What goes wrong with single requests is counted in the report instead.

use std::{io, path::PathBuf};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address of the server cannot be parsed.
    #[error("url '{given}': {problem}")]
    Url {
        /// What was given.
        given: String,
        /// What was expected.
        problem: &'static str,
    },
    /// A setting of the plan makes no sense.
    #[error("{setting}: {problem}")]
    Plan {
        /// Name of the setting.
        setting: &'static str,
        /// What was expected and what was given.
        problem: String,
    },
    /// A path or header that cannot be sent.
    #[error("request: {0}")]
    Request(String),
    /// The data of an input do not fit its type and shape, or cannot be written in that format.
    #[error("input '{name}': {problem}")]
    Input {
        /// Name of the input.
        name: String,
        /// What was expected and what was given.
        problem: String,
    },
    /// The host's name has no address.
    #[error("'{host}' cannot be resolved: {source}")]
    Resolve {
        /// The host as given.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The server cannot be reached at the start of a run.
    #[error("connection {number} of {of} to {address}: {source}")]
    Connect {
        /// Where to.
        address: String,
        /// Which connection, from 1.
        number: usize,
        /// How many were to be opened.
        of: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system refused an event queue, a timer or a thread.
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The server's process cannot be observed.
    #[error("process {pid}: {source}")]
    Process {
        /// The given process id.
        pid: u32,
        /// What the system said.
        source: io::Error,
    },
    /// A question to the server was not answered as it should be.
    #[error("{url}: {problem}")]
    Fetch {
        /// What was asked for, with its method.
        url: String,
        /// What came instead.
        problem: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A comparison of which too little is left.
    #[error("{0}")]
    Compare(String),
}

impl Error {
    /// An [`Error::System`], for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { what, source }
    }

    /// An [`Error::Input`].
    pub(crate) fn input(name: &str, problem: impl Into<String>) -> Error {
        Error::Input { name: name.to_owned(), problem: problem.into() }
    }

    /// An [`Error::Plan`].
    pub(crate) fn plan(setting: &'static str, problem: impl Into<String>) -> Error {
        Error::Plan { setting, problem: problem.into() }
    }
}
