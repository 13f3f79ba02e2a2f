//! A value of one of the log's settings, as protocols read it and the log takes it.

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

impl LogValue {
    /// What it is, for errors that expected another one.
    pub fn sort(&self) -> &'static str {
        match self {
            LogValue::Bool(_) => "a boolean",
            LogValue::Number(_) => "a number",
            LogValue::Text(_) => "a text",
        }
    }
}
