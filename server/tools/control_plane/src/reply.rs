//! What an operation answers.

/// A status and a body of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Of HTTP.
    pub status: u16,
    /// Empty where the operation has no output.
    pub body: Vec<u8>,
}
