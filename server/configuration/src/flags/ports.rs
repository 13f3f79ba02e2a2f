//! Where to listen: settings.

use super::{Setting, value};

const SECTION: &str = "Ports";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "allow-http", "", "Serve KServe v2 and TensorFlow Serving requests over HTTP. Default: true, but false where a hosting platform starts `serve`, unless --http-port is given"),
    value(SECTION, "http-address", "0.0.0.0", "Address of the HTTP port, and of the others that have none of their own"),
    value(SECTION, "http-port", "8000", "The HTTP port; 0 takes any free one"),
    value(SECTION, "reuse-http-port", "false", "Let several processes share the HTTP port"),
    value(SECTION, "http-thread-count", "auto", "Threads that serve sockets, of all HTTP ports together"),
    value(SECTION, "allow-metrics", "", "Serve /metrics on a port of its own; the SageMaker port has it in any case. Default: as --allow-http"),
    value(SECTION, "metrics-address", "", "Address of the metrics port. Default: the HTTP address"),
    value(SECTION, "metrics-port", "8002", "The metrics port"),
    value(SECTION, "metrics-interval-ms", "2000", "How often gauges of the machine are read"),
    value(SECTION, "allow-gpu-metrics", "true", "Show the use of GPUs among the metrics"),
];
