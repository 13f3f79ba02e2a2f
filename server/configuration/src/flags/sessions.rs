//! Stateful sessions and WebSockets on SageMaker's addresses: settings.

use super::{Setting, Takes, value};

const SECTION: &str = "Sessions and WebSockets";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    Setting { name: "sessions", takes: Takes::Switch, default: "false", help: "Take stateful sessions on /invocations (X-Amzn-SageMaker-Session-Id)", section: SECTION },
    value(SECTION, "session-ttl", "1200", "Seconds from the opening of a session to its end"),
    value(SECTION, "max-sessions", "10000", "Sessions open at once"),
    value(SECTION, "allow-websocket", "true", "Take WebSockets at /invocations-bidirectional-stream"),
];
