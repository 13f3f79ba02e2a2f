//! The end of a call, and how it is written.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};

use crate::exchange::{
    rendering::{Code, Rendering},
    retry::spread,
};
use inference::error::Error;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The trailer that gives clients with a retry policy the milliseconds to wait.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Characters of a status's text; clients refuse trailers of more than 8 KiB.
const LONGEST: usize = 1000;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The status.
    pub code: Code,
    /// Why; empty for [`Code::Ok`].
    pub text: String,
    /// The milliseconds after which a retry makes sense.
    pub retry_after_ms: Option<u64>,
}

impl Status {
    /// Success.
    pub const OK: Status = Status { code: Code::Ok, text: String::new(), retry_after_ms: None };

    /// The status of a failed call.
    pub fn of(error: &Error) -> Status {
        let Rendering { grpc: code, text, retry_after, .. } = Rendering::of(error);
        let retry_after_ms =
            retry_after.map(|it| u64::try_from(spread(it).as_millis()).unwrap_or(u64::MAX));
        Status { code, text: text.chars().take(LONGEST).collect(), retry_after_ms }
    }

    /// Writes the status into the trailers, or into the head of a reply without messages.
    pub fn write(&self, headers: &mut HeaderMap) {
        if self.code == Code::Ok {
            headers.insert(STATUS, HeaderValue::from_static("0"));
            return;
        }
        headers.insert(STATUS, HeaderValue::from(self.code as u16));
        // Percent-encoded text is visible ASCII, which a header can hold.
        if let Ok(text) = HeaderValue::try_from(percent_encoded(&self.text)) {
            headers.insert(MESSAGE, text);
        }
        if let Some(after) = self.retry_after_ms {
            headers.insert(PUSHBACK, HeaderValue::from(after));
        }
    }
}

/// The text with `%XX` for `%` itself, and for every byte that is neither visible ASCII nor a blank.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'%' | 0..b' ' | 0x7f.. => encoded.push_str(&format!("%{byte:02X}")),
            plain => encoded.push(char::from(plain)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_so_that_headers_can_carry_it() {
        assert_eq!(percent_encoded("50 % of 'ä'\n"), "50 %25 of '%C3%A4'%0A");
    }

    #[test]
    fn a_refusal_says_when_to_come_back_and_a_mistake_does_not() {
        let mut headers = HeaderMap::new();
        Status::of(&Error::OutOfBudget("full".to_owned())).write(&mut headers);
        assert_eq!(headers["grpc-status"], "14");
        assert_eq!(headers["grpc-message"], "full");
        let pushback: u64 = headers["grpc-retry-pushback-ms"].to_str().unwrap().parse().unwrap();
        assert!((1000..4000).contains(&pushback), "{pushback}");
        headers.clear();
        Status::of(&Error::NotFound("x".repeat(5000))).write(&mut headers);
        assert_eq!(headers["grpc-status"], "5");
        assert_eq!(headers["grpc-message"].len(), LONGEST);
        assert!(!headers.contains_key("grpc-retry-pushback-ms"));
    }
}
