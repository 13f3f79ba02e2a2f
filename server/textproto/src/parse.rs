//! Protobuf text format → message, against a descriptor. A wrong field or value is noted and skipped, so
//! that one pass finds them all; only broken punctuation ends it.

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};

use super::{
    lex::{TokenKind, token_at},
    parser::{Broken, Parser},
    problem::TextProblem,
};

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
) -> Result<DynamicMessage, Vec<TextProblem>> {
    let token = token_at(text, 0);
    let mut parser = Parser { text, whole, token, path: vec![], problems: vec![] };
    let message = parser.message(desc, None);
    match message {
        Ok(message) if parser.problems.is_empty() => Ok(message),
        _ => Err(parser.problems),
    }
}

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

    fn one_value(
        &mut self,
        message: &mut DynamicMessage,
        field: &FieldDescriptor,
    ) -> Result<(), Broken> {
        let Some(value) = self.value(field.kind())? else { return Ok(()) };
        match message.get_field_mut(field) {
            Value::List(list) => list.push(value),
            Value::Map(map) => {
                let Some((key, value)) = entry(value) else { return Ok(()) };
                // As protobuf's own reader has it, the last one of a key holds.
                map.insert(key, value);
            }
            place => *place = value,
        }
        Ok(())
    }
}

/// Key and value of a map entry; what was not given is empty or zero.
fn entry(value: Value) -> Option<(MapKey, Value)> {
    let Value::Message(entry) = value else { return None };
    let key = entry.get_field_by_name("key")?.into_owned().into_map_key()?;
    Some((key, entry.get_field_by_name("value")?.into_owned()))
}
