//! Errors as OpenAI's clients read them.

use formats::json::write;

/// What an error is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenAiError {
    /// The sort of error: `type`.
    pub kind: &'static str,
    /// The error itself: `code`; `None` for `null`.
    pub code: Option<&'static str>,
}

/// `{"error":{"message","type","param","code"}}`. `parameter` is the one that is wrong.
pub fn error_body(error: OpenAiError, message: &str, parameter: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"error\":{".to_vec();
    write::key(&mut out, "message");
    write::string(&mut out, message);
    write::key(&mut out, "type");
    write::string(&mut out, error.kind);
    for (key, value) in [("param", parameter), ("code", error.code)] {
        write::key(&mut out, key);
        match value {
            Some(value) => write::string(&mut out, value),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"}}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_nothing_to_say_of_is_null() {
        let error = OpenAiError { kind: "server_error", code: None };
        let expected =
            r#"{"error":{"message":"a \"b\"","type":"server_error","param":null,"code":null}}"#;
        assert_eq!(error_body(error, "a \"b\"", None), expected.as_bytes());
        let error = OpenAiError { kind: "invalid_request_error", code: Some("model_not_found") };
        let body = String::from_utf8(error_body(error, "no", Some("model"))).unwrap();
        assert!(body.ends_with(r#""param":"model","code":"model_not_found"}}"#), "{body}");
    }
}
