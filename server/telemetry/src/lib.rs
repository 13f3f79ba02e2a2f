//! What operators see of the server: counters for Prometheus, lines of the log, and invocations that are kept.
#![forbid(unsafe_code)]

pub mod capture;
pub mod logging;
pub mod metrics;
pub mod trace_settings;
