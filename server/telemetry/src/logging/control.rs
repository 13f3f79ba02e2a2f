//! The log's settings, as clients read and change them while the server runs.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed},
};

use super::log_settings::{LogFormat, LogSettings};
use inference::{messages, signature::nearest};

pub use inference::log_value::LogValue;

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

/// Reads and changes the log's settings. Clones change the same ones.
#[derive(Debug, Clone)]
pub struct LogControl(Arc<LogState>);

/// What every line is judged by. Read without a lock; a line that is logged while a change is made may see either.
#[derive(Debug)]
pub(super) struct LogState {
    info: AtomicBool,
    warning: AtomicBool,
    error: AtomicBool,
    verbose: AtomicU32,
    /// The place of the format in [`LogFormat::ALL`].
    format: AtomicU8,
    /// Empty for the standard outputs.
    file: String,
}

/// One change, parsed.
enum Change {
    Info(bool),
    Warning(bool),
    Error(bool),
    Verbose(u32),
    Format(LogFormat),
}

const NAMES: [&str; 6] =
    ["log_file", "log_info", "log_warning", "log_error", "log_verbose_level", "log_format"];

impl LogControl {
    /// The settings with which a log starts.
    pub fn new(config: &LogSettings) -> LogControl {
        let file = config.file.as_ref().map_or(String::new(), |it| it.display().to_string());
        let control = LogControl(Arc::new(LogState {
            info: config.info.into(),
            warning: config.warning.into(),
            error: config.error.into(),
            verbose: config.verbose.into(),
            format: AtomicU8::new(0),
            file,
        }));
        control.0.apply(&Change::Format(config.format));
        control
    }

    /// All settings: `log_file`, `log_info`, `log_warning`, `log_error`, `log_verbose_level`, `log_format`.
    pub fn settings(&self) -> Vec<(&'static str, LogValue)> {
        let it = &*self.0;
        let values = [
            LogValue::Text(it.file.clone()),
            LogValue::Bool(it.info()),
            LogValue::Bool(it.warning()),
            LogValue::Bool(it.error()),
            LogValue::Number(it.verbose()),
            LogValue::Text(it.format().name().to_owned()),
        ];
        NAMES.into_iter().zip(values).collect()
    }

    /// Changes these settings, all or none.
    ///
    /// # Errors
    /// For an unknown name, a value of another type, and one that cannot be changed.
    pub fn update(&self, changes: &[(String, LogValue)]) -> Result<(), LogChangeError> {
        let changes: Vec<Change> =
            changes.iter().map(|(name, value)| change(name, value)).collect::<Result<_, _>>()?;
        if changes.is_empty() {
            return Ok(());
        }
        changes.iter().for_each(|it| self.0.apply(it));
        // Which lines are wanted at all is remembered where they are said.
        tracing::callsite::rebuild_interest_cache();
        Ok(())
    }

    pub(super) fn shared(&self) -> Arc<LogState> {
        self.0.clone()
    }
}

impl LogState {
    pub(super) fn info(&self) -> bool {
        self.info.load(Relaxed)
    }

    pub(super) fn warning(&self) -> bool {
        self.warning.load(Relaxed)
    }

    pub(super) fn error(&self) -> bool {
        self.error.load(Relaxed)
    }

    pub(super) fn verbose(&self) -> u32 {
        self.verbose.load(Relaxed)
    }

    pub(super) fn format(&self) -> LogFormat {
        let place = usize::from(self.format.load(Relaxed));
        LogFormat::ALL.get(place).copied().unwrap_or(LogFormat::Text)
    }

    fn apply(&self, change: &Change) {
        match change {
            Change::Info(on) => self.info.store(*on, Relaxed),
            Change::Warning(on) => self.warning.store(*on, Relaxed),
            Change::Error(on) => self.error.store(*on, Relaxed),
            Change::Verbose(level) => self.verbose.store(*level, Relaxed),
            Change::Format(format) => {
                let place = LogFormat::ALL.iter().position(|it| it == format).unwrap_or(0);
                self.format.store(place as u8, Relaxed);
            }
        }
    }
}

/// What a name and a value mean.
fn change(name: &str, value: &LogValue) -> Result<Change, LogChangeError> {
    let invalid = |expected: &str| {
        LogChangeError::Invalid(format!("{name}: expected {expected}, given {}", shown(value)))
    };
    let switch = |of: fn(bool) -> Change| match value {
        LogValue::Bool(on) => Ok(of(*on)),
        _ => Err(invalid("true or false")),
    };
    match name {
        "log_info" => switch(Change::Info),
        "log_warning" => switch(Change::Warning),
        "log_error" => switch(Change::Error),
        "log_verbose_level" => match value {
            LogValue::Number(level) => Ok(Change::Verbose(*level)),
            _ => Err(invalid("a whole number from 0")),
        },
        "log_format" => match value {
            LogValue::Text(text) => LogFormat::named(text).map(Change::Format),
            _ => None,
        }
        .ok_or_else(|| invalid("default, ISO8601, text or json")),
        "log_file" => {
            Err(LogChangeError::Fixed(format!("{}: start it with --log-file", messages::LOG_FILE)))
        }
        _ => {
            let near =
                nearest(name, NAMES).map_or(String::new(), |it| format!("; did you mean {it}?"));
            let given: String = name.chars().take(LONGEST_SHOWN).collect();
            let names = NAMES.join(", ");
            Err(LogChangeError::Invalid(format!(
                "there is no log setting '{given}'{near} (there are {names})"
            )))
        }
    }
}

/// Characters that are shown of what a client sent.
const LONGEST_SHOWN: usize = 64;

fn shown(value: &LogValue) -> String {
    match value {
        LogValue::Text(text) => {
            format!("the text '{}'", text.chars().take(LONGEST_SHOWN).collect::<String>())
        }
        LogValue::Number(number) => format!("{} {number}", value.sort()),
        LogValue::Bool(on) => format!("{} {on}", value.sort()),
    }
}
