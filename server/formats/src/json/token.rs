//! The sorts of JSON values.

use std::fmt;

/// What sort of value stands next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Token {
    Object,
    Array,
    String,
    /// A number, or one of the bare words.
    Number,
    Bool,
    Null,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Token::Object => "an object",
            Token::Array => "an array",
            Token::String => "a string",
            Token::Number => "a number",
            Token::Bool => "a boolean",
            Token::Null => "null",
        })
    }
}
