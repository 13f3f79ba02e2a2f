//! Headers of a request that become parameters of its inference. Pure.

use regex_lite::{Regex, RegexBuilder};

use crate::error::Error;

/// Names that mean something to the server: a header must not pass for one of them.
const RESERVED: [&str; 7] = [
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
    "headers",
    "binary_data_output",
];

/// What was expected of a text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is empty.
    #[error("a regular expression that is not empty")]
    Empty,
    /// It is no regular expression, as this says.
    #[error("a regular expression: {0}")]
    Wrong(String),
}

/// Which headers are passed on: those in whose name the pattern is found, in any case of letters.
#[derive(Debug, Clone)]
pub struct Forwarding(Regex);

impl PartialEq for Forwarding {
    fn eq(&self, other: &Forwarding) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Forwarding {
    /// By a regular expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(pattern: &str) -> Result<Forwarding, PatternError> {
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        RegexBuilder::new(pattern).case_insensitive(true).build().map(Forwarding).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            PatternError::Wrong(reason.to_owned())
        })
    }

    /// The headers that match, by name; one that comes several times is one text, with commas.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a header of a reserved name, and for one that is not text.
    pub fn select<'a>(
        &self,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Vec<(&'a str, String)>, Error> {
        let mut found: Vec<(&str, String)> = Vec::new();
        for (name, value) in headers.filter(|it| self.0.is_match(it.0)) {
            if is_reserved(name) {
                return Err(Error::InvalidRequest(format!(
                    "header {name}: it would be forwarded as a parameter, whose name is reserved; \
                     send it in the request instead, or not at all"
                )));
            }
            let value = std::str::from_utf8(value).map_err(|_| {
                Error::InvalidRequest(format!(
                    "header {name}: expected text in UTF-8, since it is forwarded to the model"
                ))
            })?;
            match found.iter_mut().find(|it| it.0 == name) {
                Some((_, all)) => {
                    all.push_str(", ");
                    all.push_str(value);
                }
                None => found.push((name, value.to_owned())),
            }
        }
        Ok(found)
    }
}

fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str()) || name.starts_with("triton_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(
        pattern: &str,
        headers: &[(&'static str, &'static [u8])],
    ) -> Result<Vec<(&'static str, String)>, Error> {
        Forwarding::new(pattern).unwrap().select(headers.iter().copied())
    }

    fn text(name: &'static str, value: &str) -> (&'static str, String) {
        (name, value.to_owned())
    }

    #[test]
    fn a_header_is_forwarded_when_the_pattern_is_found_in_its_name() {
        let headers: &[(&'static str, &'static [u8])] =
            &[("x-user", b"ann"), ("accept", b"*/*"), ("x-trace", b"1")];
        let all = vec![text("x-user", "ann"), text("x-trace", "1")];
        assert_eq!(forward("^X-", headers).unwrap(), all);
        assert_eq!(forward("USER", headers).unwrap(), all[..1]);
        assert_eq!(forward("user$|trace$", headers).unwrap(), all);
        assert_eq!(forward("nothing", headers).unwrap(), []);
    }

    #[test]
    fn a_reserved_name_is_refused_and_only_where_it_would_be_forwarded() {
        for name in RESERVED.into_iter().chain(["triton_x", "Priority"]) {
            let error = forward(".*", &[(name, b"1")]).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert_eq!(forward("^x-", &[(name, b"1")]).unwrap(), []);
        }
    }

    #[test]
    fn a_header_that_comes_several_times_is_one_text() {
        let found = forward("user", &[("x-user", b"ann"), ("x-user", b"bob")]).unwrap();
        assert_eq!(found, [text("x-user", "ann, bob")]);
    }

    #[test]
    fn what_is_not_text_is_refused() {
        let error = forward("x", &[("x-bytes", b"\xff")]).unwrap_err();
        assert!(error.to_string().contains("x-bytes: expected text"), "{error}");
    }

    #[test]
    fn an_invalid_pattern_is_an_error() {
        for wrong in ["", "(", "a{2", "[z-a]"] {
            assert!(
                Forwarding::new(wrong).unwrap_err().to_string().starts_with("a regular expression"),
                "{wrong}"
            );
        }
    }
}
