//! Protobuf text format → message, against a descriptor. A wrong field or value is noted and skipped, so
//! that one pass finds them all; only broken punctuation ends it.

use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage, Value,
};

use super::{
    Problem,
    lex::{Token, TokenKind, integer_value, token_at, unquote},
};
use inference::signature::nearest;

/// The message that `text` describes. `whole` is what errors call all of it: `a model's configuration`.
///
/// The message types must not contain themselves: nesting is bounded by the definition.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(
    desc: MessageDescriptor,
    whole: &'static str,
    text: &str,
) -> Result<DynamicMessage, Vec<Problem>> {
    let token = token_at(text, 0);
    let mut parser = Parser { text, whole, token, path: vec![], problems: vec![] };
    let message = parser.message(desc, None);
    match message {
        Ok(message) if parser.problems.is_empty() => Ok(message),
        _ => Err(parser.problems),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// What all of it is called.
    whole: &'static str,
    /// The next token, not yet taken.
    token: Token<'a>,
    /// Names of the fields around the current place.
    path: Vec<String>,
    problems: Vec<Problem>,
}

/// The text cannot be followed any further; the reason is among the problems.
struct Broken;

impl<'a> Parser<'a> {
    /// Fields up to `closing`, which is taken, or up to the end of the text.
    fn message(
        &mut self,
        desc: MessageDescriptor,
        closing: Option<&str>,
    ) -> Result<DynamicMessage, Broken> {
        let mut message = DynamicMessage::new(desc);
        let mut seen: Vec<(FieldDescriptor, usize)> = Vec::new();
        loop {
            match (self.token.kind, closing) {
                (TokenKind::End, None) => return Ok(message),
                (TokenKind::Symbol, Some(closing)) if self.token.text == closing => {
                    self.take();
                    return Ok(message);
                }
                (TokenKind::Name, _) => self.field(&mut message, &mut seen)?,
                (_, Some(closing)) => {
                    return self.broken(&format!("a field name or '{closing}'"));
                }
                (_, None) => return self.broken("a field name"),
            }
        }
    }

    fn field(
        &mut self,
        message: &mut DynamicMessage,
        seen: &mut Vec<(FieldDescriptor, usize)>,
    ) -> Result<(), Broken> {
        let name = self.take();
        let desc = message.descriptor();
        match desc.get_field_by_name(name.text) {
            None => {
                self.unknown_field(name, &desc);
                if self.token.is(":") {
                    self.take();
                }
                self.skip_value()?;
            }
            Some(field) => {
                self.path.push(name.text.to_owned());
                self.note_repetition(&field, name, seen);
                match (self.token.is(":"), field.kind()) {
                    (true, _) => drop(self.take()),
                    // A message needs no colon, and neither does a list of them.
                    (false, Kind::Message(_)) => {}
                    (false, _) => return self.broken("':'"),
                }
                self.field_value(message, &field)?;
                self.path.pop();
            }
        }
        if self.token.is(",") || self.token.is(";") {
            self.take();
        }
        Ok(())
    }

    fn field_value(
        &mut self,
        message: &mut DynamicMessage,
        field: &FieldDescriptor,
    ) -> Result<(), Broken> {
        let several = field.is_list() || field.is_map();
        if !self.token.is("[") {
            return self.one_value(message, field);
        }
        if !several {
            self.problem(self.token, &format!("{}: takes one value, not a list", self.place()));
            return self.skip_value();
        }
        self.take();
        if self.token.is("]") {
            self.take();
            return Ok(());
        }
        loop {
            self.one_value(message, field)?;
            let token = self.token;
            if !token.is(",") && !token.is("]") {
                return self.broken("',' or ']'");
            }
            self.take();
            if token.is("]") {
                return Ok(());
            }
        }
    }

    fn one_value(
        &mut self,
        message: &mut DynamicMessage,
        field: &FieldDescriptor,
    ) -> Result<(), Broken> {
        let start = self.token;
        let Some(value) = self.value(field.kind())? else { return Ok(()) };
        match message.get_field_mut(field) {
            Value::List(list) => list.push(value),
            Value::Map(map) => {
                let Some((key, value)) = entry(value) else { return Ok(()) };
                let shown = match &key {
                    MapKey::String(it) => format!("'{it}'"),
                    MapKey::U64(it) => it.to_string(),
                    other => format!("{other:?}"),
                };
                if map.insert(key, value).is_some() {
                    self.problem(
                        start,
                        &format!("{}: the key {shown} is given twice", self.place()),
                    );
                }
            }
            place => *place = value,
        }
        Ok(())
    }

    /// A value of this kind; `None` when it was something else, which is noted and skipped.
    fn value(&mut self, kind: Kind) -> Result<Option<Value>, Broken> {
        Ok(match kind {
            Kind::Message(desc) => {
                let closing = match self.token.text {
                    "{" => "}",
                    "<" => ">",
                    _ => return self.mismatch("a message in '{ }'"),
                };
                self.take();
                Some(Value::Message(self.message(desc, Some(closing))?))
            }
            Kind::String => self.string()?.map(Value::String),
            Kind::Bool => match self.token.text {
                "true" | "True" | "t" | "1" => self.taken(Value::Bool(true)),
                "false" | "False" | "f" | "0" => self.taken(Value::Bool(false)),
                _ => return self.mismatch("true or false"),
            },
            Kind::Enum(desc) => return self.enumeration(&desc),
            Kind::Float | Kind::Double => {
                let number = self.float()?;
                number.map(|it| match kind {
                    Kind::Float => Value::F32(it as f32),
                    _ => Value::F64(it),
                })
            }
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => self.integer()?.map(Value::I32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => self.integer()?.map(Value::I64),
            Kind::Uint32 | Kind::Fixed32 => self.integer()?.map(Value::U32),
            Kind::Uint64 | Kind::Fixed64 => self.integer()?.map(Value::U64),
            Kind::Bytes => return self.mismatch("a field that text can give"),
        })
    }

    /// Strings that stand side by side are one.
    fn string(&mut self) -> Result<Option<String>, Broken> {
        if self.token.kind != TokenKind::String {
            return self.mismatch("a string in quotes");
        }
        let first = self.token;
        let mut bytes = Vec::new();
        while self.token.kind == TokenKind::String {
            match unquote(self.token.text) {
                Ok(more) => bytes.extend(more),
                Err(escape) => {
                    let text = format!("{}: '{escape}' is no escape sequence", self.place());
                    self.problem(self.token, &text);
                }
            }
            self.take();
        }
        let string = String::from_utf8(bytes).ok();
        if string.is_none() {
            self.problem(first, &format!("{}: the string is not UTF-8", self.place()));
        }
        Ok(string)
    }

    fn enumeration(&mut self, desc: &EnumDescriptor) -> Result<Option<Value>, Broken> {
        let value = match self.token.kind {
            TokenKind::Name => desc.get_value_by_name(self.token.text),
            TokenKind::Number => {
                self.token.text.parse().ok().and_then(|number| desc.get_value(number))
            }
            _ => None,
        };
        let Some(value) = value else {
            let names: Vec<String> = desc.values().map(|it| it.name().to_owned()).collect();
            // A name in quotes, or without its prefix, is near the name that was meant.
            let given = self.token.text.trim_matches(['"', '\'']);
            let meant = names.iter().find(|it| it.ends_with(&format!("_{}", given.to_uppercase())));
            let meant = meant.map(String::as_str);
            let meant = meant.or_else(|| nearest(given, names.iter().map(String::as_str)));
            let hint = meant.map(|it| format!("; did you mean {it}?")).unwrap_or_default();
            return self.mismatch(&format!("one of {} without quotes{hint}", names.join(", ")));
        };
        Ok(self.taken(Value::EnumNumber(value.number())))
    }

    fn integer<T: TryFrom<i128>>(&mut self) -> Result<Option<T>, Broken> {
        let (negative, number) = self.signed();
        let value =
            (number.kind == TokenKind::Number).then(|| integer_value(number.text)).flatten();
        let value = value.map(|it| if negative { -it } else { it });
        let Some(value) = value.and_then(|it| T::try_from(it).ok()) else {
            let bits = 8 * size_of::<T>();
            let (least, most) = match T::try_from(-1) {
                Ok(_) => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                Err(_) => (0, (1i128 << bits) - 1),
            };
            return self.mismatch(&format!("a whole number from {least} to {most}"));
        };
        self.take_signed(negative);
        Ok(Some(value))
    }

    fn float(&mut self) -> Result<Option<f64>, Broken> {
        let (negative, number) = self.signed();
        let value = match number.kind {
            TokenKind::Number => number.text.trim_end_matches(['f', 'F']).parse::<f64>().ok(),
            TokenKind::Name => match number.text.to_ascii_lowercase().as_str() {
                "inf" | "infinity" => Some(f64::INFINITY),
                "nan" => Some(f64::NAN),
                _ => None,
            },
            _ => None,
        };
        let Some(value) = value else { return self.mismatch("a number") };
        self.take_signed(negative);
        Ok(Some(if negative { -value } else { value }))
    }

    /// Is there a minus, and what comes after it? Nothing is taken.
    fn signed(&self) -> (bool, Token<'a>) {
        match self.token.is("-") {
            true => (true, token_at(self.text, self.token.end())),
            false => (false, self.token),
        }
    }

    fn take_signed(&mut self, negative: bool) {
        if negative {
            self.take();
        }
        self.take();
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.token;
        self.token = token_at(self.text, token.end());
        token
    }

    fn taken(&mut self, value: Value) -> Option<Value> {
        self.take();
        Some(value)
    }

    /// Skips one value of any kind, nested as deeply as it may be.
    fn skip_value(&mut self) -> Result<(), Broken> {
        let mut depth = 0usize;
        loop {
            let token = self.token;
            match (token.kind, token.text) {
                (TokenKind::End | TokenKind::Unterminated, _) => return self.broken("a value"),
                (TokenKind::Symbol, "{" | "<" | "[") => depth += 1,
                (TokenKind::Symbol, "}" | ">" | "]") if depth == 0 => {
                    return self.broken("a value");
                }
                (TokenKind::Symbol, "}" | ">" | "]") => depth -= 1,
                _ => {}
            }
            self.take();
            // A minus belongs to the number after it, a string to the strings after it.
            let more = token.is("-")
                || (token.kind == TokenKind::String && self.token.kind == TokenKind::String);
            if depth == 0 && !more {
                return Ok(());
            }
        }
    }

    fn note_repetition(
        &mut self,
        field: &FieldDescriptor,
        name: Token<'a>,
        seen: &mut Vec<(FieldDescriptor, usize)>,
    ) {
        if field.is_list() || field.is_map() {
            return;
        }
        let rival = seen.iter().find(|(other, _)| {
            other == field
                || field.containing_oneof().is_some_and(|it| other.containing_oneof() == Some(it))
        });
        match rival {
            Some((other, first)) => {
                let line = Problem::new(self.text, *first, String::new()).line;
                let text = match other == field {
                    true => format!("'{}' is given twice, first in line {line}", field.name()),
                    false => format!(
                        "'{}' excludes '{}', which is given in line {line}",
                        field.name(),
                        other.name()
                    ),
                };
                self.problem(name, &text);
            }
            None => seen.push((field.clone(), name.start)),
        }
    }

    fn unknown_field(&mut self, name: Token<'a>, desc: &MessageDescriptor) {
        let fields: Vec<String> = desc.fields().map(|it| it.name().to_owned()).collect();
        let hint = match nearest(name.text, fields.iter().map(String::as_str)) {
            Some(field) => format!("did you mean '{field}'?"),
            None => format!("its fields are {}", fields.join(", ")),
        };
        let of = match self.path.is_empty() {
            true => self.whole.to_owned(),
            false => format!("'{}'", self.place()),
        };
        self.problem(name, &format!("'{}' is not a field of {of}; {hint}", name.text));
    }

    /// The current field, with those around it: `input.dims`.
    fn place(&self) -> String {
        self.path.join(".")
    }

    fn mismatch<T>(&mut self, expected: &str) -> Result<Option<T>, Broken> {
        let token = self.token;
        let given = self.given(token);
        self.problem(token, &format!("{}: expected {expected}, got {given}", self.place()));
        self.skip_value()?;
        Ok(None)
    }

    fn broken<T>(&mut self, expected: &str) -> Result<T, Broken> {
        let token = self.token;
        let given = self.given(token);
        let place = match self.path.is_empty() {
            true => String::new(),
            false => format!("{}: ", self.place()),
        };
        self.problem(token, &format!("{place}expected {expected}, got {given}"));
        Err(Broken)
    }

    fn given(&self, token: Token<'a>) -> String {
        let short = |text: &str| match text.char_indices().nth(40) {
            Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
            None => text.to_owned(),
        };
        match token.kind {
            TokenKind::End => "the end of the text".to_owned(),
            TokenKind::Unterminated => format!("a string without its end, {}", short(token.text)),
            TokenKind::String => short(token.text),
            _ if token.is("-") => {
                format!("'-{}'", short(token_at(self.text, token.end()).text))
            }
            _ => format!("'{}'", short(token.text)),
        }
    }

    fn problem(&mut self, token: Token<'a>, text: &str) {
        let problem = Problem::new(self.text, token.start, text.to_owned());
        // What could not be read at this place cannot be skipped either; once is enough.
        let known = |it: &Problem| (it.line, it.column) == (problem.line, problem.column);
        if !self.problems.last().is_some_and(known) {
            self.problems.push(problem);
        }
    }
}

/// Key and value of a map entry; what was not given is empty or zero.
fn entry(value: Value) -> Option<(MapKey, Value)> {
    let Value::Message(entry) = value else { return None };
    let key = entry.get_field_by_name("key")?.into_owned().into_map_key()?;
    Some((key, entry.get_field_by_name("value")?.into_owned()))
}
