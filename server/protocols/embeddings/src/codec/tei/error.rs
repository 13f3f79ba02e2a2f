//! Errors as Text Embeddings Inference sends them.

use formats::json::write;

/// What an error is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ErrorType {
    Unhealthy,
    Backend,
    Overloaded,
    Validation,
    Tokenizer,
    Empty,
}

impl ErrorType {
    /// Its name in a body.
    pub fn name(self) -> &'static str {
        match self {
            ErrorType::Unhealthy => "Unhealthy",
            ErrorType::Backend => "Backend",
            ErrorType::Overloaded => "Overloaded",
            ErrorType::Validation => "Validation",
            ErrorType::Tokenizer => "Tokenizer",
            ErrorType::Empty => "Empty",
        }
    }
}

/// `{"error","error_type"}`.
pub fn error_body(kind: ErrorType, message: &str) -> Vec<u8> {
    let mut out = b"{".to_vec();
    write::key(&mut out, "error");
    write::string(&mut out, message);
    write::key(&mut out, "error_type");
    write::string(&mut out, kind.name());
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_sentence_and_its_type() {
        let body = error_body(ErrorType::Validation, "no \"x\"");
        assert_eq!(body, br#"{"error":"no \"x\"","error_type":"Validation"}"#);
    }
}
