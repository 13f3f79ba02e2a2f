//! What clients may do beside sending requests one by one, and what they are told of the server's health.

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};
use inference::access::Origins;

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::boolean("allow-websocket", "true", "Take WebSockets at /invocations-bidirectional-stream"),
    Flag::boolean("health-bodies", "true", "Answer /v2/health/live and /v2/health/ready with {\"live\":true} and {\"ready\":true}, which clients of KServe read. With false a healthy server answers with the status alone, as Triton does; the default of tritonserver"),
    Flag::boolean("server-timing", "true", "Say in the header Server-Timing of each reply over HTTP how long its request waited, ran and took in all"),
    Flag::value("cors-allow-origin", "", "Pages of other sites that may read replies over HTTP: origins such as https://app.example, with commas between them, or * for all pages. Default: none").named("ORIGINS"),
    Flag::boolean("allow-client-shm", "false", "Let clients register shared memory objects of this machine, from which inputs are read and into which outputs are written. For clients that are trusted: any of them can name any object that the server may open"),
];

/// What clients may do beside sending requests one by one, and what they are told of the server's health.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSettings {
    /// `--allow-websocket`: may they talk over WebSockets?
    pub websocket: bool,
    /// `--health-bodies`: has the answer about a healthy server a body?
    pub health_bodies: bool,
    /// `--server-timing`: do replies say where the time went?
    pub server_timing: bool,
    /// `--cors-allow-origin`: the pages of other sites that may read replies.
    pub origins: Origins,
    /// `--allow-client-shm`: may they register shared memory?
    pub shared_memory: bool,
}

/// Reads it.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> ClientSettings {
    let origins = sources.read("cors-allow-origin", origins, problems).unwrap_or_default();
    let mut is_allowed = |name| sources.read(name, value::boolean, problems);
    ClientSettings {
        websocket: is_allowed("allow-websocket").unwrap_or(true),
        health_bodies: is_allowed("health-bodies").unwrap_or(true),
        server_timing: is_allowed("server-timing").unwrap_or(true),
        origins,
        shared_memory: is_allowed("allow-client-shm").unwrap_or(false),
    }
}

fn origins(text: &str) -> Parse<Origins> {
    Origins::parse(text).map_err(|it| it.to_string())
}
