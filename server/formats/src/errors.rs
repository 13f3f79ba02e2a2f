//! Bodies of errors. Hosting platforms show a caller the beginning of one and cut it off at a thousand bytes or so.

use crate::json::write;
use inference::error::Kind;

/// Which keys an error has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorForm {
    /// `error` and `request_id`.
    Plain,
    /// Those of the Multi Model Server in front of them: `code`, `type`, `message`. Clients of Hugging Face's
    /// containers and of those made with the toolkits read them.
    Mms,
}

/// Bytes that a body stays below.
const MOST: usize = 1024;

/// The body: JSON below 1 KiB, for which `text` is cut off where it must be.
pub fn error_body(
    form: ErrorForm,
    status: u16,
    kind: Kind,
    text: &str,
    request_id: Option<&str>,
) -> Vec<u8> {
    let mut characters = text.chars().count().min(MOST);
    loop {
        let cut = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
        let text = text.get(..cut).unwrap_or_default();
        let body = body(form, status, kind, text, request_id);
        if body.len() < MOST || characters == 0 {
            return body;
        }
        // How long the rest will be depends on what is escaped in it.
        characters = (characters * MOST / (body.len() + 1)).min(characters - 1);
    }
}

fn body(form: ErrorForm, status: u16, kind: Kind, text: &str, request_id: Option<&str>) -> Vec<u8> {
    let mut out = b"{".to_vec();
    if form == ErrorForm::Mms {
        write::key(&mut out, "code");
        write::number(&mut out, status);
        write::key(&mut out, "type");
        write::string(&mut out, name(kind));
        write::key(&mut out, "message");
        write::string(&mut out, text);
    }
    plain(out, text, request_id)
}

/// The body of a state that is no fault of the request, however long the text is.
pub fn state_body(text: &str) -> Vec<u8> {
    plain(b"{".to_vec(), text, None)
}

fn plain(mut out: Vec<u8>, text: &str, request_id: Option<&str>) -> Vec<u8> {
    write::key(&mut out, "error");
    write::string(&mut out, text);
    if let Some(id) = request_id {
        write::key(&mut out, "request_id");
        write::string(&mut out, id);
    }
    out.push(b'}');
    out
}

/// The type of an error, in the manner of the Multi Model Server.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::InvalidArgument
        | Kind::Empty
        | Kind::TooManyInputs
        | Kind::Tokenizer
        | Kind::NoSuchSignature
        | Kind::AlreadyExists
        | Kind::Conflict
        | Kind::Unknown
        | Kind::Cancelled => "InvalidInput",
        Kind::Unauthenticated | Kind::Forbidden => "AccessDenied",
        Kind::NotFound | Kind::NoSuchTask => "NotFound",
        Kind::MethodNotAllowed => "MethodNotAllowed",
        Kind::UnsupportedMediaType => "UnsupportedMediaType",
        Kind::NotAcceptable => "NotAcceptable",
        Kind::TooLarge => "RequestTooLarge",
        Kind::RequestTimeout | Kind::DeadlineExceeded => "Timeout",
        Kind::Unavailable | Kind::Overloaded | Kind::FailedDependency => "ServiceUnavailable",
        Kind::OutOfMemory => "OutOfMemory",
        Kind::Unimplemented => "NotImplemented",
        Kind::Internal => "InternalServerError",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(form: ErrorForm, text: &str) -> String {
        let body = error_body(form, 400, Kind::InvalidArgument, text, Some("7"));
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn the_keys_of_the_multi_model_server_come_in_front() {
        assert_eq!(text_of(ErrorForm::Plain, "no"), r#"{"error":"no","request_id":"7"}"#);
        let expected =
            r#"{"code":400,"type":"InvalidInput","message":"no","error":"no","request_id":"7"}"#;
        assert_eq!(text_of(ErrorForm::Mms, "no"), expected);
    }

    #[test]
    fn an_error_is_one_object() {
        assert_eq!(state_body("no \"x\""), br#"{"error":"no \"x\""}"#);
        assert_eq!(text_of(ErrorForm::Plain, "x"), r#"{"error":"x","request_id":"7"}"#);
    }

    #[test]
    fn a_body_stays_below_a_kibibyte_whatever_is_in_it() {
        for form in [ErrorForm::Plain, ErrorForm::Mms] {
            for text in ["x", "\u{1}", "ä", "\"", "€\n"] {
                let body = text_of(form, &text.repeat(3000));
                assert!((900..1024).contains(&body.len()), "{} {text:?}", body.len());
                assert!(body.ends_with(r#"","request_id":"7"}"#), "{body}");
            }
        }
    }
}
