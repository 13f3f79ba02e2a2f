//! What opens and closes a session on `/invocations`: bodies that are about the session itself, and what is said of it
//! in headers. Pure.

use chrono::{DateTime, SecondsFormat, Utc};

use formats::json::JsonReader;
use inference::grant::Grant;

/// What a body asks for that is no inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// `{"requestType": "NEW_SESSION"}`.
    New,
    /// `{"requestType": "CLOSE"}`.
    Close,
}

/// Longer bodies are no such thing, whatever is in them.
const LONGEST: usize = 256;

impl Control {
    /// The one that a body is; `None` where it is anything else, with a further key, too.
    pub fn of(body: &[u8]) -> Option<Control> {
        if LONGEST < body.len() {
            return None;
        }
        let mut found = None;
        let read = JsonReader::document(body, &Grant::uncounted(), |reader| {
            reader.object(|reader, key| {
                let request = match (&*key, &found) {
                    ("requestType", None) => reader.string()?,
                    _ => return Err(reader.error("not a session's")),
                };
                found = match &*request {
                    "NEW_SESSION" => Some(Control::New),
                    "CLOSE" => Some(Control::Close),
                    _ => return Err(reader.error("not a session's")),
                };
                Ok(())
            })
        });
        read.ok().and(found)
    }
}

/// A session's id and its end, `seconds` after the beginning of 1970, as the header of its opening has them.
pub fn opened(id: &str, seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let end = DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::<Utc>::MAX_UTC);
    format!("{id}; Expires={}", end.to_rfc3339_opts(SecondsFormat::Secs, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_bodies_are_about_the_session() {
        let of = |text: &str| Control::of(text.as_bytes());
        assert_eq!(of(r#"{"requestType":"NEW_SESSION"}"#), Some(Control::New));
        assert_eq!(of(" { \"requestType\" : \"CLOSE\" }\n"), Some(Control::Close));
        let long = format!(r#"{{"requestType":"CLOSE"}}{}"#, " ".repeat(LONGEST));
        for other in [
            "",
            "{}",
            "[]",
            "1,2",
            r#"{"requestType":"close"}"#,
            r#"{"requestType":"CLOSE","inputs":[1]}"#,
            r#"{"inputs":[1],"requestType":"CLOSE"}"#,
            r#"{"requestType":"CLOSE","requestType":"CLOSE"}"#,
            r#"{"requestType":1}"#,
            r#"{"requestType":"CLOSE"} {}"#,
            &long,
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn an_end_is_written_as_a_date_of_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(opened("a-1", seconds), format!("a-1; Expires={text}"));
        }
    }
}
