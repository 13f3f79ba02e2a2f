//! What reads HTTP answers a head that it cannot read by a status alone. Here such an answer gets the words that every
//! other error has. Pure.

use bytes::Bytes;
use hyper::StatusCode;

use super::{marks::Marks, progress::Progress, respond};
use inference::error::Error;

/// Most fields of a head. What reads HTTP has no room for more.
pub(super) const MOST_FIELDS: usize = 100;

/// The same answer with words in it, and with what every reply carries; `None` where it is none without words.
pub(super) fn in_words(answer: &[u8], marks: &Marks, progress: &Progress) -> Option<Bytes> {
    worded(answer, || marks.lines(progress.since_head()))
}

/// The same. `marks` are lines of its head.
fn worded(answer: &[u8], marks: impl FnOnce() -> String) -> Option<Bytes> {
    // Nearly every answer ends here.
    let rest = answer.strip_prefix(b"HTTP/1.1 4")?;
    let text = std::str::from_utf8(answer).ok().filter(|it| it.ends_with("\r\n\r\n"))?;
    let code = rest.get(..2).and_then(|it| std::str::from_utf8(it).ok())?;
    let status = StatusCode::from_u16(400 + code.parse::<u16>().ok()?).ok()?;
    let problem = match status {
        StatusCode::BAD_REQUEST => {
            "the head of the request is no HTTP/1.1: expected a method, a path and a version, and a name and a value in \
             each field"
                .to_owned()
        }
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => format!(
            "the head of the request is too large, or has too many fields: expected {MOST_FIELDS} header fields at most"
        ),
        StatusCode::URI_TOO_LONG => "the address of the request is too long".to_owned(),
        _ => return None,
    };
    let body = respond::error_body(&Error::InvalidRequest(problem));
    let mut lines = text.split("\r\n").filter(|it| !it.is_empty());
    let mut head = lines.next()?.to_owned();
    let mut is_wordless = false;
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match name.eq_ignore_ascii_case("content-length") {
            true if value.trim() == "0" => is_wordless = true,
            // It has words, or a body is on its way.
            true => return None,
            false => {
                head.push_str("\r\n");
                head.push_str(line);
            }
        }
    }
    let length = body.len();
    let fields = format!("\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n");
    let marked = || [&*head, &fields, &marks(), "\r\n"].concat();
    is_wordless.then(|| [marked().as_bytes(), &body].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> String {
        "x-request-id: 7\r\n".to_owned()
    }

    #[track_caller]
    fn check(answer: &str, part: &str) {
        let words = worded(answer.as_bytes(), mark).unwrap();
        let text = std::str::from_utf8(&words).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(body.starts_with("{\"error\":\"") && body.contains(part), "{body}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        assert!(head.starts_with(answer.split_once("\r\n").unwrap().0), "{head}");
        assert!(!head.contains("content-length: 0"), "{head}");
        assert!(head.ends_with("\r\nx-request-id: 7"), "{head}");
    }

    #[test]
    fn a_status_alone_gets_words_and_keeps_its_fields() {
        let fields =
            "connection: close\r\ncontent-length: 0\r\ndate: Sat, 28 Nov 2026 22:00:00 GMT\r\n\r\n";
        let answer = |status: &str| format!("HTTP/1.1 {status}\r\n{fields}");
        check(&answer("431 Request Header Fields Too Large"), "expected 100 header fields");
        check(&answer("400 Bad Request"), "no HTTP/1.1");
        check(&answer("414 URI Too Long"), "too long");
        let words = worded(answer("431 Too Large").as_bytes(), mark).unwrap();
        assert!(words.windows(17).any(|it| it == b"connection: close"));
    }

    #[test]
    fn every_other_answer_stays_as_it_is() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 12\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            "HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 4",
            "",
        ] {
            assert_eq!(worded(answer.as_bytes(), mark), None, "{answer}");
        }
    }
}
