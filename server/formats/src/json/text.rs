//! Strings of JSON: found, checked, and freed of their escapes.

use std::borrow::Cow;

use super::{JsonReader, plain::plain_length};
use inference::{error::Error, granted::Granted};

/// Bytes that are kept of a key with escapes in a look at a document: more than the name of any input has.
const LONGEST_KEY: usize = 1 << 10;

impl<'a> JsonReader<'a> {
    /// A string; `what` says in errors what was expected.
    pub(super) fn string_or(&mut self, what: &str) -> Result<Cow<'a, str>, Error> {
        self.take(b'"', what)?;
        let plain = self.plain()?;
        if self.rest().first() == Some(&b'"') {
            self.position += 1;
            return Ok(Cow::Borrowed(plain));
        }
        self.unescaped(plain, usize::MAX)
    }

    /// The key of an object, read as [`JsonReader::string_or`] reads it; in a look at a document only as much of it as
    /// a name may have, so that the look takes no memory for a long one.
    pub(super) fn key(&mut self) -> Result<Cow<'a, str>, Error> {
        const WHAT: &str = "a key";
        if self.distinct_keys {
            return self.string_or(WHAT);
        }
        self.take(b'"', WHAT)?;
        let plain = self.plain()?;
        if self.rest().first() == Some(&b'"') {
            self.position += 1;
            return Ok(Cow::Borrowed(plain));
        }
        self.unescaped(plain, LONGEST_KEY)
    }

    /// A string with escapes, of which `plain` has been read; its first `most` bytes.
    fn unescaped(&mut self, plain: &str, most: usize) -> Result<Cow<'a, str>, Error> {
        let mut string = Granted::new(self.grant);
        string.extend_from_slice(first_bytes(plain, most).as_bytes())?;
        self.unescape(&mut string, most)?;
        // Only whole characters were added.
        String::from_utf8(string.into_vec()).map(Cow::Owned).map_err(|_| self.error("not UTF-8"))
    }

    /// Appends the bytes of the string that stands here.
    pub(super) fn string_into(&mut self, out: &mut Granted<'_, u8>) -> Result<(), Error> {
        self.take(b'"', "a string")?;
        self.unescape(out, usize::MAX)
    }

    /// Reads past the string that stands here.
    pub(super) fn skip_string(&mut self) -> Result<(), Error> {
        self.take(b'"', "a string")?;
        loop {
            self.plain()?;
            self.position += 1;
            if self.text.get(self.position - 1) == Some(&b'"') {
                return Ok(());
            }
            self.escape()?;
        }
    }

    /// Appends the rest of a string, as long as `out` has no more than `most` bytes, and reads its closing quote.
    fn unescape(&mut self, out: &mut Granted<'_, u8>, most: usize) -> Result<(), Error> {
        loop {
            let plain = self.plain()?;
            out.extend_from_slice(first_bytes(plain, most.saturating_sub(out.len())).as_bytes())?;
            self.position += 1;
            // `plain` stops at a quote or a backslash only.
            if self.text.get(self.position - 1) == Some(&b'"') {
                return Ok(());
            }
            let character = self.escape()?;
            if out.len() < most {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
    }

    /// The text up to the next quote or backslash, where the reader then stands.
    fn plain(&mut self) -> Result<&'a str, Error> {
        let start = self.position;
        let rest = self.rest();
        let length = plain_length(rest);
        self.position += length;
        match rest.get(length) {
            Some(b'"' | b'\\') => {
                let text = self.text.get(start..self.position).unwrap_or_default();
                std::str::from_utf8(text).map_err(|error| {
                    let offset = start + error.valid_up_to();
                    Error::InvalidRequest(format!("the JSON text is not UTF-8, at byte {offset}"))
                })
            }
            Some(byte) => Err(self.error(format_args!(
                "control character {byte:#04x} in a string; expected \\u{byte:04x}"
            ))),
            None => Err(self.error("the string does not end")),
        }
    }

    /// The character of the escape whose backslash has been read.
    fn escape(&mut self) -> Result<char, Error> {
        let at = self.position - 1;
        let byte = self.rest().first().copied();
        self.position += 1;
        let character = match byte {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(at),
            _ => return Err(self.error_at(at, "unknown escape in a string")),
        };
        Ok(character)
    }

    /// The character of a `\u` escape, or of two of them that form a surrogate pair.
    fn unicode(&mut self, at: usize) -> Result<char, Error> {
        let first = self.four_hex(at)?;
        let code = match first {
            0xd800..0xdc00 if self.rest().starts_with(b"\\u") => {
                self.position += 2;
                let second = self.four_hex(at)?;
                match second {
                    0xdc00..0xe000 => 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                    _ => first,
                }
            }
            other => other,
        };
        // What is left over of the surrogates is no character.
        char::from_u32(code).ok_or_else(|| {
            self.error_at(at, format_args!("lone surrogate \\u{first:04x} in a string"))
        })
    }

    fn four_hex(&mut self, at: usize) -> Result<u32, Error> {
        let digits = self.rest().first_chunk::<4>();
        let digits = digits.filter(|it| it.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
        let code = digits.and_then(|it| u32::from_str_radix(it, 16).ok());
        self.position += 4;
        code.ok_or_else(|| self.error_at(at, "expected four hexadecimal digits after \\u"))
    }
}

/// As many whole characters as so many bytes hold.
fn first_bytes(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
