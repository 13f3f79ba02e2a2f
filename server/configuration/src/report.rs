//! What the configuration has to say: problems that forbid a start, and notices for the log.

use std::fmt;

/// Everything that is wrong with the command line and the environment. Its text is meant for the
/// operator and names each setting, where it came from, what was given and what is allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigError {
    /// What cannot be done: `muster cannot start`.
    failed: &'static str,
    problems: Vec<String>,
}

impl ConfigError {
    /// `problems` is not empty.
    pub fn new(problems: Vec<String>) -> ConfigError {
        ConfigError { failed: "muster cannot start", problems }
    }

    /// Of `muster health`. `problems` is not empty.
    pub fn of_health(problems: Vec<String>) -> ConfigError {
        ConfigError { failed: "the server cannot be asked", problems }
    }

    /// Of `muster explain`. `problems` is not empty.
    pub fn of_explain(problems: Vec<String>) -> ConfigError {
        ConfigError { failed: "nothing can be explained", problems }
    }

    /// Of `muster env`. `problems` is not empty.
    pub fn of_env(problems: Vec<String>) -> ConfigError {
        ConfigError { failed: "muster could not start", problems }
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
