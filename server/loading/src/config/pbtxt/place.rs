//! Which field of a configuration a place of its JSON belongs to. Pure.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

/// No more of a value is shown.
const SHOWN: usize = 40;

/// The field at a place, and what was given for it.
pub(super) struct Given<'a> {
    /// With the names of the messages that it is in: `input[0].dims[1]`.
    path: String,
    field: Option<FieldDescriptor>,
    value: &'a str,
}

/// What is open in front of the place.
enum Open<'a> {
    Object { key: Option<&'a str> },
    List { at: usize },
}

/// The field whose value ends at that line and column of the text, both counted from 1, or is cut short there. `None`
/// in front of the first one.
pub(super) fn given_at<'a>(
    json: &'a str,
    message: &MessageDescriptor,
    line: usize,
    column: usize,
) -> Option<Given<'a>> {
    let before: usize = json.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let end = json.floor_char_boundary(before + column);
    let (mut open, mut start, mut at): (Vec<Open<'_>>, usize, usize) = (Vec::new(), 0, 0);
    while at < end {
        let byte = *json.as_bytes().get(at)?;
        match byte {
            b'{' => open.push(Open::Object { key: None }),
            b'[' => {
                open.push(Open::List { at: 0 });
                start = at + 1;
            }
            b'}' | b']' => drop(open.pop()),
            b':' => start = at + 1,
            b',' => match open.last_mut() {
                Some(Open::Object { key }) => *key = None,
                Some(Open::List { at: number }) => {
                    *number += 1;
                    start = at + 1;
                }
                None => {}
            },
            b'"' => {
                let text = text_at(json, at)?;
                at += text.len() + 1;
                if let Some(Open::Object { key: key @ None }) = open.last_mut() {
                    *key = Some(text);
                }
            }
            _ => {}
        }
        at += 1;
    }
    let (mut path, mut inside, mut field) = (String::new(), Some(message.clone()), None);
    for it in &open {
        match it {
            Open::List { at } => path.push_str(&format!("[{at}]")),
            Open::Object { key } => {
                let key = (*key)?;
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                field = inside.as_ref().and_then(|it| member(it, field.as_ref(), key));
                let kind = field.as_ref().map(FieldDescriptor::kind);
                inside = kind.and_then(|it| it.as_message().cloned());
            }
        }
    }
    let value = json.get(start..end)?.trim();
    Some(Given { path, field, value }).filter(|it| !it.path.is_empty())
}

/// The member of that name. In a map, which the field is then, all have the same type.
fn member(
    message: &MessageDescriptor,
    of: Option<&FieldDescriptor>,
    key: &str,
) -> Option<FieldDescriptor> {
    match of.is_some_and(FieldDescriptor::is_map) {
        true => Some(message.map_entry_value_field()),
        false => message.get_field_by_name(key).or_else(|| message.get_field_by_json_name(key)),
    }
}

/// The text of a string, without the quotes around it; the opening one is at that place.
fn text_at(json: &str, at: usize) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut end = at + 1;
    while *bytes.get(end)? != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    json.get(at + 1..end)
}

impl Given<'_> {
    /// An error of the reader, with the field, and where numbers are expected with what was given.
    pub(super) fn said(&self, error: &str) -> String {
        let path = &self.path;
        let (number, example) = match self.field.as_ref().map(FieldDescriptor::kind) {
            Some(Kind::Double | Kind::Float) => ("a number", "0.5"),
            Some(Kind::Int32 | Kind::Sint32 | Kind::Sfixed32) => ("a whole number of 32 bits", "8"),
            Some(Kind::Int64 | Kind::Sint64 | Kind::Sfixed64) => ("a whole number of 64 bits", "8"),
            Some(Kind::Uint32 | Kind::Fixed32) => ("a whole number of 32 bits from 0 on", "8"),
            Some(Kind::Uint64 | Kind::Fixed64) => ("a whole number of 64 bits from 0 on", "8"),
            Some(Kind::Bool | Kind::String | Kind::Bytes | Kind::Message(_) | Kind::Enum(_))
            | None => return format!("'{path}': {error}"),
        };
        let shown = &self.value[..self.value.floor_char_boundary(SHOWN)];
        let more = if shown.len() < self.value.len() { ".." } else { "" };
        format!("'{path}' is {shown}{more}, expected {number}; write it as {example} ({error})")
    }
}
