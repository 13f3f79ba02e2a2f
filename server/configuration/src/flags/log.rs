//! The log: settings.

use super::{Setting, value};

const SECTION: &str = "Log";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "log-verbose", "0", "0, 1 for debug lines, 2 for those of libraries as well"),
    value(SECTION, "log-info", "true", "Log what happens"),
    value(SECTION, "log-warning", "true", "Log what looks wrong"),
    value(SECTION, "log-error", "true", "Log what went wrong"),
    value(SECTION, "log-format", "text", "text or json, or Triton's default or ISO8601; one line for each event"),
    value(SECTION, "log-requests", "false", "Log one line for each inference request: its id, model, rows, status, and where its time went"),
    value(SECTION, "log-file", "", "Write all lines to this file. Default: standard output, and standard error for warnings and errors"),
];
