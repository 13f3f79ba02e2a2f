//! The server as a whole: settings.

use super::{Setting, value};

const SECTION: &str = "Server";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "id", "triton", "Name of the server in its metadata. Clients of Triton may look for its name, hence the default"),
    value(SECTION, "exit-on-error", "false", "End the start when a model fails to load. Triton's default is true; here what loaded is served, and readiness tells"),
    value(SECTION, "strict-readiness", "true", "Ready only when every model asked for at the start is"),
    value(SECTION, "exit-timeout-secs", "25", "Time from SIGTERM to the end, all steps together. Platforms kill after 30 s, so the default is less than Triton's 30"),
    value(SECTION, "drain-delay-secs", "2", "Time after SIGTERM in which requests are still taken, while readiness says no; part of the exit timeout"),
];
