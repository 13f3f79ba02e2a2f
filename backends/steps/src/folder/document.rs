//! A JSON file of a folder: read within bounds, and asked for keys with errors that name file and key.

use std::io::Read;

use serde_json::{Map, Value};

use super::dir::Dir;
use crate::error::FolderError;

/// The longest file that is read.
pub(crate) const LONGEST_FILE: u64 = 256 << 20;
/// How deep objects and lists may lie in each other.
const DEEPEST: usize = 64;

/// What may stand in front of a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file whose content is an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// Its name, relative to the folder.
    pub(crate) file: String,
    keys: Map<String, Value>,
}

/// The bytes of a file; `None` where there is none.
///
/// # Errors
/// When it is too long or cannot be read, or is a link that leads out of where it may.
pub(crate) fn read_bytes(dir: &Dir, file: &str) -> Result<Option<Vec<u8>>, FolderError> {
    let Some(place) = dir.place(file)? else { return Ok(None) };
    let unreadable = |error| FolderError::file(file, format!("cannot be read: {error}"));
    let open = backend::open_file(&place).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let read = open.take(LONGEST_FILE + 1).read_to_end(&mut bytes);
    read.map_err(unreadable)?;
    if bytes.len() as u64 > LONGEST_FILE {
        let problem = format!("it is longer than {} MiB", LONGEST_FILE >> 20);
        return Err(FolderError::file(file, problem));
    }
    Ok(Some(bytes))
}

/// The JSON of a file; `None` where there is none.
///
/// # Errors
/// When it cannot be read, is no JSON, or lies too deep.
pub(crate) fn read_value(dir: &Dir, file: &str) -> Result<Option<Value>, FolderError> {
    read_bytes(dir, file)?.map(|bytes| value_of(file, &bytes)).transpose()
}

/// The JSON in these bytes of a file.
fn value_of(file: &str, bytes: &[u8]) -> Result<Value, FolderError> {
    // Editors put a byte order mark in front.
    let json = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let value: Value = serde_json::from_slice(json)
        .map_err(|error| FolderError::file(file, format!("it is no JSON: {error}")))?;
    match is_deeper(&value, DEEPEST) {
        true => Err(FolderError::file(file, format!("it is more than {DEEPEST} levels deep"))),
        false => Ok(value),
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let below = |it: &Value| levels == 0 || is_deeper(it, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(below),
        Value::Object(keys) => keys.values().any(below),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl Document {
    /// The object in a file; `None` where there is no file.
    ///
    /// # Errors
    /// When it cannot be read or is no JSON object.
    pub(crate) fn read(dir: &Dir, file: &str) -> Result<Option<Document>, FolderError> {
        match read_value(dir, file)? {
            None => Ok(None),
            Some(Value::Object(keys)) => Ok(Some(Document { file: file.to_owned(), keys })),
            Some(_) => Err(FolderError::file(file, "it is no JSON object")),
        }
    }

    #[cfg(test)]
    pub(crate) fn of(file: &str, value: Value) -> Document {
        let keys = value.as_object().expect("an object").clone();
        Document { file: file.to_owned(), keys }
    }

    /// The keys, in the order of the file.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// The value of a key; `None` where it is absent or `null`.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|it| !it.is_null())
    }

    /// An error about a key of this file.
    pub(crate) fn error(&self, key: &str, problem: impl Into<String>) -> FolderError {
        FolderError::key(&*self.file, key, problem)
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, FolderError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wrong = || self.error(key, format!("it is {}, not {expected}", shown(value)));
        read(value).map(Some).ok_or_else(wrong)
    }

    /// A text.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, FolderError> {
        self.typed(key, "a text", Value::as_str)
    }

    /// Yes or no.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, FolderError> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A count: an integer from zero on.
    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, FolderError> {
        let read = |it: &Value| it.as_u64().and_then(|it| usize::try_from(it).ok());
        self.typed(key, "a whole number from 0 on", read)
    }

    /// A token id, or the first of a list of them.
    pub(crate) fn id(&self, key: &str) -> Result<Option<u32>, FolderError> {
        let one = |it: &Value| it.as_u64().and_then(|it| u32::try_from(it).ok());
        let read = |it: &Value| match it {
            Value::Array(items) => items.first().and_then(one),
            // -1 is how some configurations say "none".
            other if other.as_i64() == Some(-1) => Some(u32::MAX),
            other => one(other),
        };
        Ok(self.typed(key, "a token id", read)?.filter(|&it| it != u32::MAX))
    }

    /// A number.
    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, FolderError> {
        self.typed(key, "a number", Value::as_f64)
    }

    /// A list of texts.
    pub(crate) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, FolderError> {
        let read = |it: &Value| {
            let items = it.as_array()?.iter();
            items.map(|it| it.as_str().map(str::to_owned)).collect()
        };
        self.typed(key, "a list of texts", read)
    }

    /// Texts by name, in the order of the file.
    pub(crate) fn named_texts(
        &self,
        key: &str,
    ) -> Result<Option<Vec<(String, String)>>, FolderError> {
        let read = |it: &Value| {
            let entries = it.as_object()?.iter();
            entries.map(|(key, it)| Some((key.clone(), it.as_str()?.to_owned()))).collect()
        };
        self.typed(key, "an object of texts", read)
    }

    /// An object of this file that `key` has, as a document of its own.
    pub(crate) fn within(&self, key: &str, keys: &Map<String, Value>) -> Document {
        Document { file: format!("{}: {key}", self.file), keys: keys.clone() }
    }

    /// The whole file.
    pub(crate) fn value(&self) -> Value {
        Value::Object(self.keys.clone())
    }

    /// An object in this one.
    pub(crate) fn object(&self, key: &str) -> Result<Option<&Map<String, Value>>, FolderError> {
        self.typed(key, "an object", Value::as_object)
    }
}

/// A value as errors show it, cut where it is long.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_of_the_wrong_type_is_an_error_with_file_and_key() {
        let document = Document::of("config.json", json!({"num_labels": "two", "a": null}));
        let error = document.count("num_labels").unwrap_err().to_string();
        assert_eq!(error, "config.json: num_labels: it is \"two\", not a whole number from 0 on");
        assert_eq!(document.count("a"), Ok(None));
        assert_eq!(document.text("b"), Ok(None));
    }

    #[test]
    fn a_byte_order_mark_in_front_is_no_part_of_the_file() {
        let value = |bytes: &[u8]| value_of("config.json", bytes).map_err(|it| it.to_string());
        assert_eq!(value(b"\xef\xbb\xbf{\"num_labels\": 2}"), Ok(json!({"num_labels": 2})));
        assert!(value(b"\xef\xbb\xbf").unwrap_err().starts_with("config.json: it is no JSON"));
        // Half of one, or one elsewhere.
        for wrong in [&b"\xef\xbb{}"[..], b"{\xef\xbb\xbf}"] {
            assert!(value(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(!is_deeper(&nested(64), DEEPEST));
        assert!(is_deeper(&nested(65), DEEPEST));
    }
}
