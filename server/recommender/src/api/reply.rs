//! What an operation answers.

use serde_json::Value;

/// A status and a body of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Of HTTP.
    pub status: u16,
    /// Empty where the operation has no output.
    pub body: Vec<u8>,
}

impl Reply {
    /// A success.
    pub(super) fn of(value: &Value) -> Reply {
        let body = if value.is_null() { Vec::new() } else { value.to_string().into_bytes() };
        Reply { status: 200, body }
    }
}
