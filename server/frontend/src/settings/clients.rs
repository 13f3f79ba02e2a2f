//! What clients may do beside sending requests one by one, and what they are told of the server's health.

use configuration::{Flag, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("allow-websocket", "true", "Take WebSockets at /invocations-bidirectional-stream"),
    Flag::boolean("health-bodies", "true", "Answer /v2/health/live and /v2/health/ready with {\"live\":true} and {\"ready\":true}, which clients of KServe read. With false a healthy server answers with the status alone, as Triton does; the default of tritonserver"),
    Flag::boolean("allow-client-shm", "false", "Let clients register shared memory objects of this machine, from which inputs are read and into which outputs are written. For clients that are trusted: any of them can name any object that the server may open"),
];

/// What clients may do beside sending requests one by one, and what they are told of the server's health.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSettings {
    /// `--allow-websocket`: may they talk over WebSockets?
    pub websocket: bool,
    /// `--health-bodies`: has the answer about a healthy server a body?
    pub health_bodies: bool,
    /// `--allow-client-shm`: may they register shared memory?
    pub shared_memory: bool,
}

/// Reads it.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> ClientSettings {
    let mut is_allowed = |name| sources.read(name, value::boolean, problems);
    ClientSettings {
        websocket: is_allowed("allow-websocket").unwrap_or(true),
        health_bodies: is_allowed("health-bodies").unwrap_or(true),
        shared_memory: is_allowed("allow-client-shm").unwrap_or(false),
    }
}
