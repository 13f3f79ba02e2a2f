//! What the configuration has to say: problems that forbid a start, and notices for the log.

use std::fmt;

use crate::given::COMMAND_LINE;

/// Everything that is wrong with the command line and the environment. Its text is meant for the
/// operator and names each setting, where it came from, what was given and what is allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigError {
    /// What cannot be done: `muster cannot start`.
    failed: &'static str,
    problems: Vec<String>,
    /// Is the command line wrong, rather than what it is about?
    is_usage: bool,
}

impl ConfigError {
    /// `problems` is not empty.
    pub fn new(problems: Vec<String>) -> ConfigError {
        ConfigError::that("muster cannot start", problems)
    }

    /// Of `muster health`. `problems` is not empty.
    pub fn of_health(problems: Vec<String>) -> ConfigError {
        ConfigError::that("the server cannot be asked", problems)
    }

    /// Of `muster explain`. `problems` is not empty.
    pub fn of_explain(problems: Vec<String>) -> ConfigError {
        ConfigError::that("nothing can be explained", problems)
    }

    /// Of `muster check`. `problems` is not empty. Its exit code 1 is about models.
    pub fn of_check(problems: Vec<String>) -> ConfigError {
        ConfigError::that("nothing can be checked", problems).of_usage()
    }

    /// Of `muster pull`. `problems` is not empty.
    pub fn of_pull(problems: Vec<String>) -> ConfigError {
        ConfigError::that("nothing can be fetched", problems)
    }

    /// Of `muster env`. `problems` is not empty.
    pub fn of_env(problems: Vec<String>) -> ConfigError {
        ConfigError::that("muster could not start", problems)
    }

    fn that(failed: &'static str, problems: Vec<String>) -> ConfigError {
        let is_usage = problems.iter().any(|it| it.contains(COMMAND_LINE));
        ConfigError { failed, problems, is_usage }
    }

    /// The same, where words of the command line could not be understood.
    pub fn of_usage(self) -> ConfigError {
        ConfigError { is_usage: true, ..self }
    }

    /// Is the command line wrong, rather than what it is about?
    pub fn is_usage(&self) -> bool {
        self.is_usage
    }

    /// One text for each problem.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.problems {
            [problem] => write!(f, "{}: {problem}", self.failed),
            problems => {
                write!(f, "{}, {} settings are wrong:", self.failed, problems.len())?;
                problems.iter().try_for_each(|it| write!(f, "\n  {it}"))
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// A line for the log, once there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// How loud.
    pub level: NoticeLevel,
    /// The line.
    pub text: String,
}

/// How loud a [`Notice`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// Useful in the search for a cause.
    Debug,
    /// What was decided.
    Info,
    /// Something that was asked for is not done.
    Warning,
}

impl Notice {
    /// Useful in the search for a cause.
    pub fn debug(text: String) -> Notice {
        Notice { level: NoticeLevel::Debug, text }
    }

    /// What was decided.
    pub fn info(text: String) -> Notice {
        Notice { level: NoticeLevel::Info, text }
    }

    /// Something that was asked for is not done.
    pub fn warning(text: String) -> Notice {
        Notice { level: NoticeLevel::Warning, text }
    }

    /// Writes the line to the log.
    pub fn log(&self) {
        match self.level {
            NoticeLevel::Debug => tracing::debug!("{}", self.text),
            NoticeLevel::Info => tracing::info!("{}", self.text),
            NoticeLevel::Warning => tracing::warn!("{}", self.text),
        }
    }
}
