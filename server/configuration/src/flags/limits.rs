//! What a client may use up: settings.

use super::{Setting, value};

const SECTION: &str = "Limits";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "http-max-input-size", "1GiB", "Largest body in bytes, without the raw tensors behind JSON, which --max-inflight-bytes bounds. Lowered to --max-inflight-bytes where that is less and this is not given"),
    value(SECTION, "max-inflight-bytes", "", "Bytes of all bodies and replies in memory at one time. Default: a quarter of the memory of the machine or container"),
    value(SECTION, "max-connections", "", "Open connections, all ports together. Default: by the limit of open files, at most 65536"),
    value(SECTION, "header-timeout-secs", "10", "Time for the headers of a request"),
    value(SECTION, "idle-timeout-secs", "75", "Time that a connection may be idle between requests"),
    value(SECTION, "body-grace-secs", "10", "Time that every body has to arrive"),
    value(SECTION, "body-min-rate", "1KiB", "Bytes per second: a body gets a further second for each such amount that has arrived; 0 for no limit of time"),
    value(SECTION, "http-compression", "true", "Take bodies in gzip and deflate, and send replies so to clients that ask for it"),
];
