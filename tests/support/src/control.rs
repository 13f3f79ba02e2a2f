//! Loading and unloading by request.

use serde_json::Value;

use super::{Reply, Server, wait_for};

/// Nothing is loaded but what is asked for.
pub const EXPLICIT: &str = "--model-control-mode=explicit";

/// Asks for a load; `body` may be empty.
pub fn load(server: &Server, model: &str, body: &str) -> Reply {
    server.post(&format!("/v2/repository/models/{model}/load"), body)
}

/// Asks for an unload.
pub fn unload(server: &Server, model: &str) -> Reply {
    server.post(&format!("/v2/repository/models/{model}/unload"), "")
}

/// The index as `name`, `name:version state` or `name:version state (reason)`.
pub fn index(server: &Server) -> Vec<String> {
    let index = server.post("/v2/repository/index", "").expect(200).json();
    let line = |it: &Value| {
        let text = |key: &str| it[key].as_str().map(str::to_owned);
        let version = text("version").map(|it| format!(":{it}")).unwrap_or_default();
        let state = text("state").map(|it| format!(" {it}")).unwrap_or_default();
        let reason = text("reason").map(|it| format!(" ({it})")).unwrap_or_default();
        format!("{}{version}{state}{reason}", it["name"].as_str().unwrap())
    };
    index.as_array().unwrap().iter().map(line).collect()
}

/// Waits until the index is this.
#[track_caller]
pub fn wait_for_index(server: &Server, lines: &[&str]) {
    wait_for(&format!("the index {lines:?}; it is {:?}", index(server)), || {
        (index(server) == lines).then_some(())
    });
}
