//! What opens and closes a session on `/invocations`: bodies that are about the session itself, and what is said of it
//! in headers. Pure.

use crate::json::Reader;

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
        let read = Reader::document(body, |reader| {
            reader.object(|reader, key| {
                let asked = match (&*key, &found) {
                    ("requestType", None) => reader.string()?,
                    _ => return Err(reader.error("not a session's")),
                };
                found = match &*asked {
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
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{id}; Expires={year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day so many days after the first of January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Years are counted from March on, so that the odd day of a leap year is the last one; eras are of 400 years, which
    // all have the same number of days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
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
