//! Which lines are logged, how, and where to.

use std::path::PathBuf;

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("log-verbose", "0", "0, 1 for debug lines, 2 for debug lines of libraries as well").named("LEVEL"),
    Flag::boolean("log-info", "true", "Log what happens"),
    Flag::boolean("log-warning", "true", "Log what looks wrong"),
    Flag::boolean("log-error", "true", "Log what went wrong"),
    Flag::value("log-format", "text", "text or json, or Triton's default or ISO8601; one line for each event").named("FORMAT"),
    Flag::boolean("log-requests", "false", "Log one line for each inference request: its id, model, rows, status, and where its time went"),
    Flag::value("log-file", "", "Write all lines to this file. Default: standard output, and standard error for warnings and errors").named("FILE"),
];

/// Which lines are logged, how, and where to.
#[derive(Debug, Clone, PartialEq)]
pub struct LogSettings {
    /// `--log-verbose`: 0 nothing, 1 our own debug lines, 2 and more those of libraries.
    pub verbose: u32,
    /// `--log-info`.
    pub info: bool,
    /// `--log-warning`.
    pub warning: bool,
    /// `--log-error`.
    pub error: bool,
    /// `--log-format`.
    pub format: LogFormat,
    /// `--log-requests`: one line for each inference request.
    pub requests: bool,
    /// `--log-file`: takes every line; `None` for standard output, and standard error for warnings and
    /// errors.
    pub file: Option<PathBuf>,
}

impl LogSettings {
    /// Are lines for people to read, on the standard outputs?
    pub fn is_plain(&self) -> bool {
        self.format == LogFormat::Text && self.file.is_none() && self.info
    }
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, message, `name=value`.
    Text,
    /// One JSON object.
    Json,
    /// Triton's: `I0102 03:04:05.678901 123 file.rs:45] "message"`.
    Default,
    /// Triton's other one: `2026-01-02T03:04:05Z I 123 file.rs:45] "message"`.
    Iso8601,
}

impl LogFormat {
    /// All of them.
    pub const ALL: [LogFormat; 4] =
        [LogFormat::Text, LogFormat::Json, LogFormat::Default, LogFormat::Iso8601];

    /// Its name, as operators and clients give it.
    pub const fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
            LogFormat::Default => "default",
            LogFormat::Iso8601 => "ISO8601",
        }
    }

    /// The format of that name, in any case.
    pub fn named(name: &str) -> Option<LogFormat> {
        LogFormat::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }
}

/// Reads them.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> LogSettings {
    LogSettings {
        verbose: sources.read("log-verbose", verbosity, problems).unwrap_or(0),
        info: sources.read("log-info", value::boolean, problems).unwrap_or(true),
        warning: sources.read("log-warning", value::boolean, problems).unwrap_or(true),
        error: sources.read("log-error", value::boolean, problems).unwrap_or(true),
        format: sources.read("log-format", log_format, problems).unwrap_or(LogFormat::Text),
        requests: sources.read("log-requests", value::boolean, problems).unwrap_or(false),
        file: sources.read("log-file", value::path, problems),
    }
}

/// Triton's `--log-verbose`: a number, or a boolean.
fn verbosity(text: &str) -> Parse<u32> {
    let number = text.parse().ok().or_else(|| value::boolean(text).ok().map(u32::from));
    number.ok_or_else(|| "a number from 0, or true or false".to_owned())
}

fn log_format(text: &str) -> Parse<LogFormat> {
    LogFormat::named(text).ok_or_else(|| "text, json, default or ISO8601".to_owned())
}
