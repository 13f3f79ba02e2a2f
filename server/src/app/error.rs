//! Why a server could not start, or did not stop well.

use std::{io, net::SocketAddr};

use inference::trace::TraceError;
use loading::{NotServed, StartError};

/// Why a server could not start, or did not stop well. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// A port could not be opened.
    #[error("cannot listen on {address} for {service}: {error}")]
    Listen {
        /// What the port is for.
        service: &'static str,
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The file of tokens, a certificate or a key is not valid.
    #[error("cannot start: {0}")]
    File(String),
    /// The system refused a thread or a runtime.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// No model can be served.
    #[error("{0}")]
    Models(String),
    /// None of the models did load, or one did not and `--exit-on-error` is set.
    #[error(transparent)]
    NotServed(#[from] NotServed),
    /// A model that is named cannot be fetched.
    #[error(transparent)]
    Source(#[from] sources::SourceError),
    /// Traces cannot be written to their target.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Requests or runs were left when the time was over.
    #[error(
        "{connections} connections and {threads} model threads were still busy when the time was up"
    )]
    NotDrained {
        /// Connections that were still open.
        connections: usize,
        /// Threads that were still running a model.
        threads: usize,
    },
}

impl From<StartError> for AppError {
    fn from(error: StartError) -> AppError {
        match error {
            StartError::Repository(error) => AppError::Models(error.to_string()),
            StartError::NotServed(error) => AppError::NotServed(error),
        }
    }
}
