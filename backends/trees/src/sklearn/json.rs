//! JSON as a table of its values, for documents whose parts are looked up. Nothing recurses.

use std::ops::Range;

use crate::error::FormatError;

/// Brackets within brackets. A pipeline with a forest in it takes some thirty.
const NESTING: usize = 100;
/// The fewest bytes of a value on average, with its name and what is around it: those that skops writes have twenty. In
/// memory each takes more.
const VALUE_BYTES: usize = 10;
/// Values that may be shorter.
const SHORT: usize = 4096;
/// Fields that nothing here asks for, and that are half of a file of skops.
const SKIPPED: [&[u8]; 2] = [b"key_types", b"__id__"];

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// `null`, a truth or a number, which is not read.
    Other,
    /// What stands between quotes, escapes and all.
    Text(Range<u32>),
    /// `[…]`
    List(Vec<u32>),
    /// `{…}`: keys as they are written, and values.
    Object(Vec<(Range<u32>, u32)>),
}

/// All values of a document, by number.
pub(super) struct Json<'a> {
    bytes: &'a [u8],
    nodes: Vec<Node>,
    root: u32,
}

/// A bracket that is open.
enum Open {
    List(Vec<u32>),
    /// With the key of the value that comes next.
    Object(Vec<(Range<u32>, u32)>, Range<u32>),
}

impl<'a> Json<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Json<'a>, FormatError> {
        let mut parser = Parser { bytes, at: 0 };
        // Values are between these, and in texts there may be more.
        let most = 1 + bytes.iter().filter(|it| matches!(it, b',' | b'[' | b':')).count();
        if bytes.len() / VALUE_BYTES + SHORT < most {
            return parser
                .refuse(&format!("{most} values, more than a model has in so many bytes"));
        }
        let mut json = Json { bytes, nodes: Vec::with_capacity(most), root: 0 };
        let mut open: Vec<Open> = Vec::new();
        loop {
            let mut done = match parser.peek()? {
                b'[' => {
                    parser.at += 1;
                    match parser.peek()? {
                        b']' => {
                            parser.at += 1;
                            Node::List(Vec::new())
                        }
                        _ => {
                            open.push(Open::List(Vec::new()));
                            parser.check_depth(&open)?;
                            continue;
                        }
                    }
                }
                b'{' => {
                    parser.at += 1;
                    match parser.peek()? {
                        b'}' => {
                            parser.at += 1;
                            Node::Object(Vec::new())
                        }
                        _ => {
                            open.push(Open::Object(Vec::new(), parser.key()?));
                            parser.check_depth(&open)?;
                            continue;
                        }
                    }
                }
                b'"' => Node::Text(parser.string()?),
                _ => parser.word()?,
            };
            // The value is whole, and with it perhaps some that it is the last part of.
            loop {
                json.nodes.push(done);
                let number = json.nodes.len() as u32 - 1;
                let Some(container) = open.last_mut() else {
                    json.root = number;
                    return Ok(json);
                };
                let next = parser.peek()?;
                parser.at += 1;
                match container {
                    Open::List(members) => {
                        members.push(number);
                        match next {
                            b',' => break,
                            b']' => done = Node::List(shrunk(members)),
                            _ => return parser.refuse("expected ',' or ']'"),
                        }
                    }
                    Open::Object(fields, key) => {
                        let name = &bytes[key.start as usize..key.end as usize];
                        if !SKIPPED.contains(&name) {
                            fields.push((key.clone(), number));
                        }
                        match next {
                            b',' => {
                                *key = parser.key()?;
                                break;
                            }
                            b'}' => done = Node::Object(shrunk(fields)),
                            _ => return parser.refuse("expected ',' or '}'"),
                        }
                    }
                }
                open.pop();
            }
        }
    }

    pub(super) fn root(&self) -> u32 {
        self.root
    }

    pub(super) fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.get(number as usize)
    }

    /// The value of an object's field.
    pub(super) fn field(&self, of: u32, name: &str) -> Option<u32> {
        let Node::Object(fields) = self.node(of)? else { return None };
        let is_it = |key: &Range<u32>| self.slice(key) == name.as_bytes();
        fields.iter().find(|(key, _)| is_it(key)).map(|it| it.1)
    }

    /// A text without its escapes.
    pub(super) fn text(&self, of: u32) -> Option<String> {
        let Node::Text(range) = self.node(of)? else { return None };
        let quoted = self.bytes.get(range.start as usize - 1..range.end as usize + 1)?;
        serde_json::from_slice(quoted).ok()
    }

    /// A text as it is written.
    pub(super) fn raw_text(&self, of: u32) -> Option<&str> {
        let Node::Text(range) = self.node(of)? else { return None };
        std::str::from_utf8(self.slice(range)).ok()
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }
}

/// What was gathered, in no more memory than it needs.
fn shrunk<T>(gathered: &mut Vec<T>) -> Vec<T> {
    gathered.shrink_to_fit();
    std::mem::take(gathered)
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    /// The next byte behind blanks; it stays.
    fn peek(&mut self) -> Result<u8, FormatError> {
        let rest = &self.bytes[self.at..];
        let blanks =
            rest.iter().take_while(|it| matches!(it, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += blanks;
        rest.get(blanks).copied().ok_or_else(|| FormatError::past_the_end("schema.json", self.at))
    }

    fn key(&mut self) -> Result<Range<u32>, FormatError> {
        if self.peek()? != b'"' {
            return self.refuse("expected a key");
        }
        let key = self.string()?;
        if self.peek()? != b':' {
            return self.refuse("expected ':'");
        }
        self.at += 1;
        Ok(key)
    }

    /// A string, whose first quote is the next byte.
    fn string(&mut self) -> Result<Range<u32>, FormatError> {
        let start = self.at + 1;
        let mut end = start;
        loop {
            match self.bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(FormatError::past_the_end("a text of schema.json", self.at)),
            }
        }
        self.at = end + 1;
        Ok(start as u32..end as u32)
    }

    /// A number, a truth or `null`.
    fn word(&mut self) -> Result<Node, FormatError> {
        let rest = &self.bytes[self.at..];
        let is_part = |it: &&u8| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'-' | b'.');
        match rest.iter().take_while(is_part).count() {
            0 => self.refuse("expected a value"),
            length => {
                self.at += length;
                Ok(Node::Other)
            }
        }
    }

    fn check_depth(&self, open: &[Open]) -> Result<(), FormatError> {
        match open.len() <= NESTING {
            true => Ok(()),
            false => self.refuse("more than 100 brackets are open"),
        }
    }

    fn refuse<T>(&self, problem: &str) -> Result<T, FormatError> {
        Err(FormatError::new(format!("schema.json: {problem} at offset {}", self.at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let text = br#" {"a": [1, {"b": "x\"y"}, [], {}], "__id__": 7, "c" : null} "#;
        let json = Json::parse(text).expect("sound");
        let list = json.field(json.root(), "a").expect("a field");
        let Some(Node::List(members)) = json.node(list) else { panic!("no list") };
        assert_eq!(members.len(), 4);
        let inner = json.field(members[1], "b").expect("a field");
        assert_eq!(json.text(inner).as_deref(), Some("x\"y"));
        assert_eq!(json.raw_text(inner), Some("x\\\"y"));
        assert_eq!(json.field(json.root(), "__id__"), None);
        assert!(json.field(json.root(), "c").is_some());
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in
            ["", "[", "{", "[1", "[1 2]", "{\"a\"}", "{\"a\":1", "{a:1}", "\"a", "\"a\\", "]", ","]
        {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
        for bracket in ["[         ", "{\"a\":        "] {
            let error = Json::parse(bracket.repeat(1_000_000).as_bytes()).err().expect("too deep");
            assert!(error.to_string().contains("more than 100 brackets"), "{error}");
        }
    }
}
