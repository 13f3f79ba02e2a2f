//! JSON, read value by value. Nothing recurses but the caller's own calls, which are a few.

use std::borrow::Cow;

use crate::{
    error::FormatError,
    limits,
    xgboost::source::{Number, Source},
};

/// Text of JSON, and a place in it.
pub(super) struct Json<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Json<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Json<'a> {
        Json { bytes, at: 0, depth: 0 }
    }

    /// The next byte behind blanks; it stays.
    fn peek(&mut self) -> Result<u8, FormatError> {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let byte = self.bytes.get(self.at).copied();
        byte.ok_or_else(|| FormatError::past_the_end("a value", self.at))
    }

    fn expect(&mut self, byte: u8) -> Result<(), FormatError> {
        let found = self.peek()?;
        if found != byte {
            let (expected, found) = (char::from(byte), char::from(found));
            return Err(self.problem(format!("expected '{expected}', found {found:?}")));
        }
        self.at += 1;
        Ok(())
    }

    fn open(&mut self, bracket: u8) -> Result<(), FormatError> {
        self.expect(bracket)?;
        self.depth += 1;
        match self.depth <= limits::NESTING {
            true => Ok(()),
            false => Err(self.problem(format!("more than {} brackets are open", limits::NESTING))),
        }
    }

    /// After an element: is there another one? Goes behind the comma or the bracket.
    fn another(&mut self, bracket: u8) -> Result<bool, FormatError> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            _ => {
                self.close(bracket)?;
                Ok(false)
            }
        }
    }

    fn close(&mut self, bracket: u8) -> Result<(), FormatError> {
        self.expect(bracket)?;
        self.depth -= 1;
        Ok(())
    }

    /// What stands between quotes.
    fn string(&mut self) -> Result<Cow<'a, str>, FormatError> {
        let start = self.quoted()?;
        let raw = &self.bytes[start..self.at - 1];
        let text =
            str::from_utf8(raw).map_err(|_| self.problem("a text that is no UTF-8".into()))?;
        match raw.contains(&b'\\') {
            false => Ok(Cow::Borrowed(text)),
            true => unescape(text)
                .map(Cow::Owned)
                .ok_or_else(|| self.problem("an escape that JSON does not know".into())),
        }
    }

    /// Goes behind a string, and returns where it begins.
    fn quoted(&mut self) -> Result<usize, FormatError> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(FormatError::past_the_end("a text", start)),
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(start)
    }

    /// A number or a word.
    fn word(&mut self) -> Result<&'a str, FormatError> {
        self.peek()?;
        let rest = &self.bytes[self.at..];
        let is_part = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'-' | b'.');
        let length = rest.iter().position(|it| !is_part(it)).unwrap_or(rest.len());
        let word = str::from_utf8(&rest[..length]).unwrap_or_default();
        if word.is_empty() {
            let found = char::from(rest[0]);
            return Err(self.problem(format!("expected a number, found {found:?}")));
        }
        self.at += length;
        Ok(word)
    }
}

impl Source for Json<'_> {
    fn object(
        &mut self,
        mut visit: impl FnMut(&mut Self, &str) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        self.open(b'{')?;
        if self.peek()? == b'}' {
            return self.close(b'}');
        }
        loop {
            self.peek()?;
            let key = self.string()?;
            self.expect(b':')?;
            visit(self, &key)?;
            if !self.another(b'}')? {
                return Ok(());
            }
        }
    }

    fn array(
        &mut self,
        mut visit: impl FnMut(&mut Self) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        self.open(b'[')?;
        if self.peek()? == b']' {
            return self.close(b']');
        }
        loop {
            visit(self)?;
            if !self.another(b']')? {
                return Ok(());
            }
        }
    }

    fn numbers<N: Number>(&mut self) -> Result<Vec<N>, FormatError> {
        // Counted first: a list that grows has room for twice as many, and while it does for three times.
        let rest = &self.bytes[self.at..];
        let of_array = rest.iter().take_while(|it| **it != b']');
        let mut numbers = Vec::with_capacity(of_array.filter(|it| **it == b',').count() + 1);
        self.array(|json| {
            json.peek()?;
            let start = json.at;
            let word = json.word()?;
            let number = N::of_text(word);
            numbers.push(number.ok_or_else(|| {
                FormatError::new(format!("{word} at offset {start} is not {}", N::WHAT))
            })?);
            Ok(())
        })?;
        numbers.shrink_to_fit();
        Ok(numbers)
    }

    fn text(&mut self) -> Result<String, FormatError> {
        match self.peek()? {
            b'"' => Ok(self.string()?.into_owned()),
            _ => Ok(self.word()?.to_owned()),
        }
    }

    fn skip(&mut self) -> Result<(), FormatError> {
        let mut open = 0;
        loop {
            match self.peek()? {
                bracket @ (b'{' | b'[') => {
                    self.open(bracket)?;
                    open += 1;
                    continue;
                }
                bracket @ (b'}' | b']') if 0 < open => {
                    self.close(bracket)?;
                    open -= 1;
                }
                b',' | b':' if 0 < open => self.at += 1,
                b'"' => drop(self.quoted()?),
                _ => drop(self.word()?),
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn problem(&self, problem: String) -> FormatError {
        FormatError::new(format!("{problem} at offset {}", self.at))
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        plain.push(match rest.next()? {
            it @ ('"' | '\\' | '/') => it,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let mut unit = || -> Option<u16> {
                    let digits: String = (0..4).map(|_| rest.next()).collect::<Option<_>>()?;
                    u16::from_str_radix(&digits, 16).ok()
                };
                let first = unit()?;
                let is_half = (0xD800..0xDC00).contains(&first);
                let second = if is_half {
                    rest.next().filter(|it| *it == '\\')?;
                    rest.next().filter(|it| *it == 'u')?;
                    let digits: String = (0..4).map(|_| rest.next()).collect::<Option<_>>()?;
                    Some(u16::from_str_radix(&digits, 16).ok()?)
                } else {
                    None
                };
                char::decode_utf16([first].into_iter().chain(second)).next()?.ok()?
            }
            _ => return None,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_their_order() {
        let mut json =
            Json::new(br#" {"a\u0041\n": [1, -2 ,3], "b": {"c": [true]}, "d":"\ud83d\ude00"} "#);
        let mut seen = Vec::new();
        json.object(|json, key| {
            seen.push(key.to_owned());
            match key {
                "aA\n" => assert_eq!(json.numbers::<i32>()?, [1, -2, 3]),
                "d" => assert_eq!(json.text()?, "\u{1F600}"),
                _ => json.skip()?,
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, ["aA\n", "b", "d"]);
    }

    #[test]
    fn numbers_are_rounded_once() {
        let text = b"[1.00000017881393432617187499, NaN, Infinity, -Infinity, 5E-1]";
        let numbers: Vec<f64> = Json::new(text).numbers().unwrap();
        assert_eq!(numbers[0], f64::from(1.0000001f32));
        assert!(numbers[1].is_nan());
        assert_eq!(numbers[2..], [f64::INFINITY, f64::NEG_INFINITY, 0.5]);
    }

    #[track_caller]
    fn refused(text: &str, expect: &str) {
        let mut json = Json::new(text.as_bytes());
        assert_eq!(json.skip().unwrap_err().to_string(), expect);
    }

    #[test]
    fn a_text_that_is_no_json_is_refused_with_its_place() {
        refused("", "a value reaches past the end at offset 0");
        refused("[1, 2", "a value reaches past the end at offset 5");
        refused("\"abc", "a text reaches past the end at offset 1");
        refused("{\"a\":?}", "expected a number, found '?' at offset 5");
        refused(&"[".repeat(1_000_000), "more than 32 brackets are open at offset 33");
        let numbers = Json::new(b"[1, x]").numbers::<i32>().unwrap_err().to_string();
        assert_eq!(numbers, "x at offset 4 is not an integer of 32 bits");
    }
}
