//! Names of enum values in JSON, whatever their case: clients write `kind_cpu` for `KIND_CPU`. Pure.

use std::ops::Range;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

/// Objects and lists inside each other, at most. The reader of JSON has the same bound.
const DEEPEST: usize = 128;

/// The same JSON, in which every value of a field that is an enum has the case of that enum's names; `None` where that
/// changes nothing. All other text stays as it is, and everything keeps its place.
pub(super) fn with_enum_names(json: &str, message: &MessageDescriptor) -> Option<String> {
    let mut scan = Scan { json, at: 0, found: Vec::new() };
    // Where the text is no JSON the scan ends; the reader says what is wrong there.
    let _ = scan.value(&Expected::Message(message.clone()), 0);
    let mut changed = json.to_owned();
    for (place, name) in scan.found {
        changed.replace_range(place, &name);
    }
    Some(changed).filter(|it| it != json)
}

/// What the definition has where a value stands.
enum Expected {
    /// A message.
    Message(MessageDescriptor),
    /// A map, of which this field has the values.
    Map(FieldDescriptor),
    /// The name of an enum's value.
    Enum(EnumDescriptor),
    /// Anything else.
    Other,
}

impl Expected {
    /// The value of a field, or one value of a repeated one.
    fn of(field: &FieldDescriptor) -> Expected {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => Expected::Map(entry.map_entry_value_field()),
            Kind::Message(message) => Expected::Message(message),
            Kind::Enum(names) => Expected::Enum(names),
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
            Expected::Enum(_) | Expected::Other => None,
        };
        field.map_or(Expected::Other, |it| Expected::of(&it))
    }
}

/// A walk through the text.
struct Scan<'a> {
    json: &'a str,
    at: usize,
    /// Where names of enum values stand, and how they are spelt. Each has the length of what it replaces.
    found: Vec<(Range<usize>, String)>,
}

impl Scan<'_> {
    /// One value; `None` where there is none.
    fn value(&mut self, expected: &Expected, depth: usize) -> Option<()> {
        match self.peek()? {
            b'{' | b'[' if depth == DEEPEST => None,
            b'{' => self.members(b'}', |it| {
                let key = it.text()?;
                let member = expected.member(&it.json[key]);
                it.take(b':')?;
                it.value(&member, depth + 1)
            }),
            b'[' => self.members(b']', |it| it.value(expected, depth + 1)),
            b'"' => {
                let place = self.text()?;
                let Expected::Enum(names) = expected else { return Some(()) };
                let text = &self.json[place.clone()];
                let name = names.values().find(|it| it.name().eq_ignore_ascii_case(text));
                self.found.extend(name.map(|it| (place, it.name().to_owned())));
                Some(())
            }
            _ => {
                let rest = &self.json[self.at..];
                let end = rest.find([',', ']', '}']).unwrap_or(rest.len());
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
