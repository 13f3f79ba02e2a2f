//! The lines of a text file, and their keys and values. Pure.

use std::borrow::Cow;

/// Lines without their ends, be they those of Windows or not.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Lines<'a> {
        Lines { rest: bytes }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|it| *it == b'\n').unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// What stands before and behind the first `=`.
pub(super) fn pair(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|it| *it == b'=')?;
    Some((&line[..at], &line[at + 1..]))
}

/// Bytes as text; what is not UTF-8 is replaced.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
