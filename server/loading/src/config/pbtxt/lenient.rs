//! What protobuf's reader of JSON takes beyond its rules: single values for lists, truth values and numbers of enums in
//! quotes, and names of enum values in any case. Pure.

use std::ops::Range;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

/// Objects and lists inside each other, at most. The reader of JSON has the same bound.
const DEEPEST: usize = 128;

/// A text by the rules, and what was changed for it.
pub(super) struct Strict {
    pub(super) json: String,
    /// Where each change begins in `json`, and how many bytes it has added.
    changes: Vec<(usize, isize)>,
}

impl Strict {
    /// The column of the text as it was, of a column of `json`. Both count bytes from 1; lines are the same in both.
    pub(super) fn column_before(&self, line: usize, column: usize) -> usize {
        let before = line.saturating_sub(1);
        let start = match before {
            0 => 0,
            _ => self.json.match_indices('\n').nth(before - 1).map_or(0, |(at, _)| at + 1),
        };
        let here = start..start + column;
        let added: isize =
            self.changes.iter().filter(|it| here.contains(&it.0)).map(|it| it.1).sum();
        column.saturating_add_signed(-added).max(1)
    }
}

/// The same JSON by the rules; `None` where it keeps to them, as far as is looked at here. All other text stays as it
/// is.
pub(super) fn strict(json: &str, message: &MessageDescriptor) -> Option<Strict> {
    let mut scan = Scan { json, at: 0, found: Vec::new() };
    // Where the text is no JSON the scan ends; the reader says what is wrong there.
    let _ = scan.value(&Expected::Message(message.clone()), 0);
    let mut found = scan.found;
    // A bracket in front of a value is found after what is inside of it.
    found.sort_by_key(|(place, _)| (place.start, place.end));
    let (mut strict, mut changes, mut copied) = (String::new(), Vec::new(), 0);
    for (place, text) in found {
        strict.push_str(json.get(copied..place.start)?);
        changes.push((strict.len(), text.len() as isize - place.len() as isize));
        strict.push_str(&text);
        copied = place.end;
    }
    strict.push_str(json.get(copied..)?);
    Some(Strict { json: strict, changes }).filter(|it| it.json != json)
}

/// What the definition has where a value stands.
enum Expected {
    /// A message.
    Message(MessageDescriptor),
    /// A map, of which this field has the values.
    Map(FieldDescriptor),
    /// The name of an enum's value.
    Enum(EnumDescriptor),
    /// True or false.
    Bool,
    /// Any number of values of this field.
    List(FieldDescriptor),
    /// Anything else.
    Other,
}

impl Expected {
    /// The value of a field.
    fn of(field: &FieldDescriptor) -> Expected {
        match field.is_list() {
            true => Expected::List(field.clone()),
            false => Expected::one_of(field),
        }
    }

    /// The value of a field, or one value of a repeated one.
    fn one_of(field: &FieldDescriptor) -> Expected {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => Expected::Map(entry.map_entry_value_field()),
            Kind::Message(message) => Expected::Message(message),
            Kind::Enum(names) => Expected::Enum(names),
            Kind::Bool => Expected::Bool,
            _ => Expected::Other,
        }
    }

    /// The value of a member of this.
    fn member(&self, key: &str) -> Expected {
        let field = match self {
            Expected::Message(message) => {
                message.get_field_by_name(key).or_else(|| message.get_field_by_json_name(key))
            }
            Expected::Map(value) => Some(value.clone()),
            Expected::Enum(_) | Expected::Bool | Expected::List(_) | Expected::Other => None,
        };
        field.map_or(Expected::Other, |it| Expected::of(&it))
    }
}

/// A walk through the text.
struct Scan<'a> {
    json: &'a str,
    at: usize,
    /// What is changed, and what stands there by the rules. No two overlap.
    found: Vec<(Range<usize>, String)>,
}

impl Scan<'_> {
    /// One value; `None` where there is none.
    fn value(&mut self, expected: &Expected, depth: usize) -> Option<()> {
        let first = self.peek()?;
        if let Expected::List(field) = expected
            && first != b'['
        {
            let start = self.at;
            self.value(&Expected::one_of(field), depth)?;
            // Nothing at all is no value.
            if self.json.get(start..self.at) != Some("null") {
                self.found.push((start..start, "[".to_owned()));
                self.found.push((self.at..self.at, "]".to_owned()));
            }
            return Some(());
        }
        match first {
            b'{' | b'[' if depth == DEEPEST => None,
            b'{' => self.members(b'}', |it| {
                let key = it.text()?;
                let member = expected.member(&it.json[key]);
                it.take(b':')?;
                it.value(&member, depth + 1)
            }),
            b'[' => {
                let one = match expected {
                    Expected::List(field) => Expected::one_of(field),
                    _ => Expected::Other,
                };
                self.members(b']', |it| it.value(&one, depth + 1))
            }
            b'"' => {
                let place = self.text()?;
                let text = &self.json[place.clone()];
                let with_quotes = place.start - 1..place.end + 1;
                match expected {
                    Expected::Bool if matches!(text, "true" | "false") => {
                        self.found.push((with_quotes, text.to_owned()));
                    }
                    Expected::Enum(_) if text.parse::<i32>().is_ok() => {
                        self.found.push((with_quotes, text.to_owned()));
                    }
                    Expected::Enum(names) => {
                        let mut names = names.values();
                        let name = names.find(|it| it.name().eq_ignore_ascii_case(text));
                        self.found.extend(name.map(|it| (place, it.name().to_owned())));
                    }
                    _ => {}
                }
                Some(())
            }
            _ => {
                let rest = &self.json[self.at..];
                let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
                let end = rest[..end].trim_ascii_end().len();
                self.at += end;
                Some(()).filter(|()| end > 0)
            }
        }
    }

    /// What stands between an opening bracket and `end`, separated by commas.
    fn members(&mut self, end: u8, mut one: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        if self.peek()? == end {
            return self.take(end);
        }
        loop {
            one(self)?;
            if self.peek()? == end {
                return self.take(end);
            }
            self.take(b',')?;
        }
    }

    /// Where the text of a string stands, without its quotes.
    fn text(&mut self) -> Option<Range<usize>> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            match self.json.as_bytes().get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(start..self.at - 1)
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.json.as_bytes()[self.at..];
        self.at += rest.iter().position(|it| !it.is_ascii_whitespace())?;
        self.json.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.peek().filter(|it| *it == byte)?;
        self.at += 1;
        Some(())
    }
}
