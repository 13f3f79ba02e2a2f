//! The log: settings.

use super::{Setting, value};

const SECTION: &str = "Log";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "log-verbose", "0", "0, 1 for debug lines, 2 for those of libraries as well"),
    value(SECTION, "log-info", "true", "Log what happens"),
    value(SECTION, "log-warning", "true", "Log what looks wrong"),
    value(SECTION, "log-error", "true", "Log what went wrong"),
    value(SECTION, "log-format", "text", "text or json, one line for each event"),
    value(SECTION, "log-file", "", "Write all lines to this file. Default: standard output, and standard error for warnings and errors"),
];
