//! How requests wait and run: settings.

use super::{Setting, many, value};

const SECTION: &str = "Scheduling";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "max-queue-wait-ms", "auto", "Refuse a request that would have to wait longer: auto (by the model's speed), 0 (never), or milliseconds"),
    value(SECTION, "request-timeout-ms", "none", "Longest time from the headers of a request to its answer"),
    value(SECTION, "caller-runs", "auto", "auto or off: run a small request to an idle model on the thread that read it"),
    value(SECTION, "worker-spin-us", "0", "Microseconds, at most 1000, for which a thread of a model that has run out of work looks for more before it sleeps, if work has lately come as soon as that"),
    value(SECTION, "rate-limit", "off", "off, or execution_count: run instances only when the resources are free that their configuration names"),
    many(SECTION, "rate-limit-resource", "<name>:<count>[:<device>]: how many there are of a resource; else as many as one instance needs at most"),
    value(SECTION, "scheduler-hold", "0", "For tests: begin to batch once so many requests wait"),
];
