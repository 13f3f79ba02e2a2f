//! A pull reader of JSON.

use std::{borrow::Cow, fmt, sync::Arc};

use smallvec::SmallVec;

use super::{
    keys::{Seen, copied},
    path::{Step, error},
    token::Token,
};
use crate::number::{self, Excerpt, Fault, Number};
use inference::{error::Error, grant::Grant, messages};

/// Deepest nesting that is read. What lies deeper is refused.
pub const MAX_DEPTH: usize = 100;

/// A place that a reader can come back to: the beginning of a value, and its path.
#[derive(Debug, Clone)]
pub struct Mark<'a> {
    position: usize,
    depth: usize,
    path: SmallVec<[Step<'a>; 6]>,
}

/// The beginning of a value, as long as the reader is in the same array or object.
#[derive(Debug, Clone, Copy)]
pub struct ValueStart(usize);

/// How files begin that are sent in the place of JSON, and what they are.
const FILES: [(&[u8], &str); 4] = [
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89PNG", "a PNG picture"),
    (b"GIF8", "a GIF picture"),
    (b"RIFF", "a WebP picture or a WAV sound"),
];

/// Reads one JSON document from front to back.
///
/// Each method reads one value and what whitespace precedes it. After an error the reader is of no further
/// use, but for making other errors about the same place.
#[derive(Debug)]
pub struct JsonReader<'a> {
    /// Strings are checked to be UTF-8 where they are read; nothing else in JSON has bytes above 127.
    pub(super) text: &'a [u8],
    /// Who is asked for the memory of what cannot be borrowed from the text.
    pub(super) grant: &'a Grant,
    pub(super) position: usize,
    /// Open arrays and objects.
    pub(super) depth: usize,
    pub(super) path: SmallVec<[Step<'a>; 6]>,
    /// Is a repeated key an error? A set of the keys takes memory.
    pub(super) distinct_keys: bool,
    /// Is `null` a missing value among floats, which is NaN?
    pub(super) takes_missing: bool,
    /// What is said of a repeated key.
    pub(super) repeated: fn(&str) -> String,
}

impl<'a> JsonReader<'a> {
    /// A reader at the beginning of `body`. Strings with escapes, and sets of keys, are asked of `grant`.
    ///
    /// # Errors
    /// When the body begins with a byte order mark.
    pub fn new(text: &'a [u8], grant: &'a Grant) -> Result<JsonReader<'a>, Error> {
        if text.starts_with("\u{feff}".as_bytes()) {
            let problem = "the JSON text begins with a byte order mark; expected none, at byte 0";
            return Err(Error::InvalidRequest(problem.to_owned()));
        }
        Ok(JsonReader::inside(text, 0, 0, grant))
    }

    /// A reader at a value inside a document, so deep in arrays and objects. What is in front of it was read before.
    pub fn inside(
        text: &'a [u8],
        position: usize,
        depth: usize,
        grant: &'a Grant,
    ) -> JsonReader<'a> {
        JsonReader {
            text,
            grant,
            position,
            depth,
            path: SmallVec::new(),
            distinct_keys: true,
            takes_missing: false,
            repeated: |key| format!("the key '{}' is repeated", Excerpt(key)),
        }
    }

    /// Bytes of text in front of where the reader stands.
    pub fn position(&self) -> usize {
        self.position
    }

    /// A reader for a look at `body` before it is decoded. It accepts repeated keys, so that it takes no memory for
    /// them.
    ///
    /// # Errors
    /// As [`JsonReader::new`].
    pub fn preview(text: &'a [u8], grant: &'a Grant) -> Result<JsonReader<'a>, Error> {
        Ok(JsonReader { distinct_keys: false, ..JsonReader::new(text, grant)? })
    }

    /// Reads the one value of a document, and that nothing follows it.
    ///
    /// # Errors
    /// Those of `value`, of [`JsonReader::new`] and of [`JsonReader::finish`].
    pub fn document<T>(
        body: &'a [u8],
        grant: &'a Grant,
        value: impl FnOnce(&mut JsonReader<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut reader = JsonReader::new(body, grant)?;
        let value = value(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }

    /// The same of a body of one of Triton's extensions: of what is no JSON, the error opens as Triton's.
    ///
    /// # Errors
    /// Those of [`JsonReader::document`].
    pub fn request<T>(
        body: &'a [u8],
        grant: &'a Grant,
        value: impl FnOnce(&mut JsonReader<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        JsonReader::document(body, grant, value).map_err(|error| match error {
            Error::InvalidRequest(text)
                if !text.contains(&messages::nested_too_deeply(MAX_DEPTH))
                    && !is_json(body, grant) =>
            {
                Error::InvalidRequest(format!("{}: {text}", messages::NO_JSON))
            }
            other => other,
        })
    }

    /// Sets what is said of a repeated key from here on.
    pub fn on_repeated_keys(&mut self, repeated: fn(&str) -> String) {
        self.repeated = repeated;
    }

    /// Sets whether `null` is a missing value among floats from here on: NaN, for models that take it.
    pub fn takes_missing(&mut self, takes_missing: bool) {
        self.takes_missing = takes_missing;
    }

    /// That nothing but whitespace is left.
    ///
    /// # Errors
    /// When something is.
    pub fn finish(&mut self) -> Result<(), Error> {
        match self.next_byte() {
            None => Ok(()),
            Some(_) => Err(self.error(format_args!("expected the end, found {}", self.found()))),
        }
    }

    /// Is nothing but blanks left?
    pub fn is_at_end(&mut self) -> bool {
        self.next_byte().is_none()
    }

    /// Who is asked for the memory of what is read.
    pub fn grant(&self) -> &'a Grant {
        self.grant
    }

    /// A copy of a text that many may hold.
    ///
    /// # Errors
    /// The memory for it is not granted.
    pub fn shared(&self, text: &str) -> Result<Arc<str>, Error> {
        /// Bytes of the two counts in front of it, and to the next whole word.
        const BESIDE: usize = 3 * size_of::<usize>();
        self.grant.hold(text.len().saturating_add(BESIDE))?;
        Ok(text.into())
    }

    /// A text that does not borrow.
    ///
    /// # Errors
    /// The memory for it is not granted.
    pub fn owned(&self, text: Cow<'_, str>) -> Result<String, Error> {
        match text {
            Cow::Borrowed(text) => {
                self.grant.hold(text.len())?;
                Ok(text.to_owned())
            }
            Cow::Owned(text) => Ok(text),
        }
    }

    /// Bytes of the whole text.
    pub fn length(&self) -> usize {
        self.text.len()
    }

    /// The sort of the next value, which is not read.
    ///
    /// # Errors
    /// When no value stands here.
    pub fn peek(&mut self) -> Result<Token, Error> {
        self.token().ok_or_else(|| self.expected("a value"))
    }

    /// Reads an object: `field` is called for each key, with the reader at its value, which it must read.
    ///
    /// # Errors
    /// Those of `field`; a key that occurs twice.
    pub fn object(
        &mut self,
        mut field: impl FnMut(&mut JsonReader<'a>, Cow<'a, str>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.open(b'{', "an object")?;
        let mut seen = Seen::of(self.grant);
        if self.next_byte() == Some(b'}') {
            self.close();
            return Ok(());
        }
        loop {
            self.next_byte();
            let at = self.position;
            let key = self.key()?;
            let copied = copied(&key);
            if self.distinct_keys && !seen.insert(&key)? {
                return Err(self.error_at(at, (self.repeated)(&key)));
            }
            self.take(b':', "':' after a key")?;
            self.grant.hold(copied)?;
            self.path.push(Step::Key(key.clone()));
            field(self, key)?;
            self.path.pop();
            self.grant.give_back(copied);
            if self.ends(b'}', "',' or '}'")? {
                self.close();
                return Ok(());
            }
        }
    }

    /// Reads an array: `item` is called for each element, with the reader at its value, which it must read,
    /// and its index.
    ///
    /// # Errors
    /// Those of `item`.
    pub fn array(
        &mut self,
        mut item: impl FnMut(&mut JsonReader<'a>, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.open(b'[', "an array")?;
        if self.next_byte() == Some(b']') {
            self.close();
            return Ok(());
        }
        for index in 0.. {
            self.path.push(Step::Index(index));
            item(self, index)?;
            self.path.pop();
            if self.ends(b']', "',' or ']'")? {
                break;
            }
        }
        self.close();
        Ok(())
    }

    /// Reads a string. Borrowed from the body unless it has escapes.
    ///
    /// # Errors
    /// When there is none, or it is not sound: control characters, bad escapes, lone surrogates.
    pub fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        self.string_or("a string")
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// When neither is there.
    pub fn bool(&mut self) -> Result<bool, Error> {
        self.next_byte();
        let value = match self.rest() {
            rest if rest.starts_with(b"true") => true,
            rest if rest.starts_with(b"false") => false,
            _ => return Err(self.expected("true or false")),
        };
        self.position += if value { 4 } else { 5 };
        Ok(value)
    }

    /// Reads `null`.
    ///
    /// # Errors
    /// When it is not there.
    pub fn null(&mut self) -> Result<(), Error> {
        self.next_byte();
        if !self.rest().starts_with(b"null") {
            return Err(self.expected("null"));
        }
        self.position += 4;
        Ok(())
    }

    /// Reads a number of type `T`.
    ///
    /// # Errors
    /// When there is none, or it does not fit.
    pub fn number<T: Number>(&mut self) -> Result<T, Error> {
        self.next_byte();
        let (value, length) = T::read(self.rest()).map_err(|fault| self.bad_number::<T>(fault))?;
        self.position += length;
        Ok(value)
    }

    /// Reads past a number, and gives its text as it stands.
    ///
    /// # Errors
    /// When there is none.
    pub fn number_text(&mut self) -> Result<&'a str, Error> {
        self.next_byte();
        let rest = self.rest();
        let text = number::length(rest).and_then(|it| std::str::from_utf8(rest.get(..it)?).ok());
        let text = text.ok_or_else(|| self.bad_number::<f64>(Fault::Syntax))?;
        self.position += text.len();
        Ok(text)
    }

    /// Reads an integer that is a size or a count.
    ///
    /// # Errors
    /// When there is none, it is negative, or it does not fit.
    pub fn usize(&mut self) -> Result<usize, Error> {
        self.next_byte();
        let read = u64::read(self.rest());
        let value =
            read.ok().and_then(|(value, length)| Some((usize::try_from(value).ok()?, length)));
        let (value, length) = value.ok_or_else(|| self.expected("an integer >= 0"))?;
        self.position += length;
        Ok(value)
    }

    /// Where the next value begins, for [`JsonReader::error_from`]. Takes no more than a number does.
    pub fn place(&mut self) -> ValueStart {
        self.next_byte();
        ValueStart(self.position)
    }

    /// Bytes of text between `place` and where the reader stands.
    pub fn length_since(&self, place: ValueStart) -> usize {
        self.position.saturating_sub(place.0)
    }

    /// Where the reader stands, to come back to. To be taken before a value is read.
    pub fn mark(&mut self) -> Mark<'a> {
        self.next_byte();
        Mark { position: self.position, depth: self.depth, path: self.path.clone() }
    }

    /// Reads the value at `mark` and stays where it is. For a key whose meaning depends on a later
    /// one.
    ///
    /// # Errors
    /// Those of `value`.
    pub fn revisit<T>(
        &self,
        mark: Mark<'a>,
        value: impl FnOnce(&mut JsonReader<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Mark { position, depth, path } = mark;
        let mut other = JsonReader { position, depth, path, ..*self };
        value(&mut other)
    }

    /// An error about this place: `path: problem, at byte N`.
    pub fn error(&self, problem: impl fmt::Display) -> Error {
        self.error_at(self.position, problem)
    }

    /// An error about the value that `mark` marks.
    pub fn error_about(&self, mark: &Mark<'a>, problem: impl fmt::Display) -> Error {
        error(&mark.path, mark.position, problem)
    }

    /// An error about the value at `place`, behind which the reader stands, in the same array or object.
    pub fn error_from(&self, place: ValueStart, problem: impl fmt::Display) -> Error {
        self.error_at(place.0, problem)
    }

    pub(super) fn error_at(&self, offset: usize, problem: impl fmt::Display) -> Error {
        error(&self.path, offset, problem)
    }

    pub(super) fn expected(&self, what: &str) -> Error {
        self.error(format_args!("expected {what}, found {}", self.found()))
    }

    #[cold]
    pub(super) fn bad_number<T: Number>(&self, fault: Fault) -> Error {
        let number = number::length(self.rest()).and_then(|length| self.rest().get(..length));
        match number.and_then(|it| std::str::from_utf8(it).ok()) {
            Some(text) => self.error(number::describe(fault, T::DTYPE, text)),
            None => self.expected(&format!("{} for {}", number::kind(T::DTYPE), T::DTYPE)),
        }
    }

    /// What stands here, in words.
    pub(super) fn found(&self) -> String {
        // More than is shown of it.
        const LONGEST: usize = 400;
        let rest = self.rest();
        if let Some((_, file)) = FILES.iter().find(|it| rest.starts_with(it.0)) {
            return format!(
                "{file}; a model takes files that has a preprocessor_config.json beside it"
            );
        }
        match rest.first() {
            None => "the end".to_owned(),
            Some(b'{') => Token::Object.to_string(),
            Some(b'[') => Token::Array.to_string(),
            Some(b'"') => Token::String.to_string(),
            Some(_) => {
                let text = String::from_utf8_lossy(rest.get(..LONGEST).unwrap_or(rest));
                let ends = |it: char| it.is_whitespace() || ",:]}\"".contains(it);
                let end = text.char_indices().skip(1).find(|&(_, it)| ends(it));
                let word = text.get(..end.map_or(text.len(), |(end, _)| end)).unwrap_or_default();
                format!("'{}'", Excerpt(word))
            }
        }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.text.get(self.position..).unwrap_or_default()
    }

    /// Skips whitespace; the byte that follows, which is not read.
    #[inline(always)]
    pub(super) fn next_byte(&mut self) -> Option<u8> {
        let bytes = self.text;
        loop {
            match bytes.get(self.position) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.position += 1,
                other => return other.copied(),
            }
        }
    }

    pub(super) fn token(&mut self) -> Option<Token> {
        match self.next_byte()? {
            b'{' => Some(Token::Object),
            b'[' => Some(Token::Array),
            b'"' => Some(Token::String),
            b'-' | b'0'..=b'9' | b'N' | b'I' => Some(Token::Number),
            b't' | b'f' => Some(Token::Bool),
            b'n' => Some(Token::Null),
            _ => None,
        }
    }

    pub(super) fn take(&mut self, byte: u8, what: &str) -> Result<(), Error> {
        if self.next_byte() != Some(byte) {
            return Err(self.expected(what));
        }
        self.position += 1;
        Ok(())
    }

    pub(super) fn open(&mut self, byte: u8, what: &str) -> Result<(), Error> {
        self.take(byte, what)?;
        self.deeper()
    }

    pub(super) fn deeper(&mut self) -> Result<(), Error> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(self.error(messages::nested_too_deeply(MAX_DEPTH))),
            false => Ok(()),
        }
    }

    /// Reads the bracket that is known to stand here.
    pub(super) fn close(&mut self) {
        self.position += 1;
        self.depth -= 1;
    }

    /// Reads a comma, or finds the closing bracket, which is not read.
    pub(super) fn ends(&mut self, bracket: u8, what: &str) -> Result<bool, Error> {
        match self.next_byte() {
            Some(b',') => {
                self.position += 1;
                Ok(false)
            }
            Some(byte) if byte == bracket => Ok(true),
            _ => Err(self.expected(what)),
        }
    }
}

/// Is it one JSON document, whatever is in it?
fn is_json(body: &[u8], grant: &Grant) -> bool {
    let read = || {
        let mut reader = JsonReader::preview(body, grant)?;
        reader.skip_value()?;
        reader.finish()
    };
    read().is_ok()
}
