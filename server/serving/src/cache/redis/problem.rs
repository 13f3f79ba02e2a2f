//! Why Redis did not answer.

use std::{io, time::Duration};

/// Why Redis did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedisError {
    /// All connections are in use: no fault of Redis.
    #[error("all connections are in use")]
    Busy,
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("{0}")]
    Connection(#[from] io::Error),
    #[error("no {what} within {} ms", .limit.as_millis())]
    Timeout { what: &'static str, limit: Duration },
    #[error("it says: {0}")]
    Refused(String),
    #[error("an answer of another kind than asked for")]
    Unexpected,
}
