//! Errors as clients of rankings read them.

use formats::json::write;

/// `{"message","detail"}`: clients of Cohere read the one, clients of Jina the other.
pub fn error_body(message: &str) -> Vec<u8> {
    let mut out = b"{".to_vec();
    for key in ["message", "detail"] {
        write::key(&mut out, key);
        write::string(&mut out, message);
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_its_sentence_under_both_keys() {
        assert_eq!(error_body("no \"x\""), br#"{"message":"no \"x\"","detail":"no \"x\""}"#);
    }
}
