//! What the parser knows while it reads: its place in the text, and the problems so far.

use prost_reflect::{FieldDescriptor, MessageDescriptor, Value};

use super::{
    lex::{Token, TokenKind, token_at},
    problem::TextProblem,
};
use inference::signature::nearest;

pub(crate) struct Parser<'a> {
    pub(crate) text: &'a str,
    /// What all of it is called.
    pub(crate) whole: &'static str,
    /// The next token, not yet taken.
    pub(crate) token: Token<'a>,
    /// Names of the fields around the current place.
    pub(crate) path: Vec<String>,
    pub(crate) problems: Vec<TextProblem>,
}

/// The text cannot be followed any further; the reason is among the problems.
pub(crate) struct Broken;

impl<'a> Parser<'a> {
    /// Is there a minus, and what comes after it? Nothing is taken.
    pub(crate) fn signed(&self) -> (bool, Token<'a>) {
        match self.token.is("-") {
            true => (true, token_at(self.text, self.token.end())),
            false => (false, self.token),
        }
    }

    pub(crate) fn take_signed(&mut self, negative: bool) {
        if negative {
            self.take();
        }
        self.take();
    }

    pub(crate) fn take(&mut self) -> Token<'a> {
        let token = self.token;
        self.token = token_at(self.text, token.end());
        token
    }

    pub(crate) fn taken(&mut self, value: Value) -> Option<Value> {
        self.take();
        Some(value)
    }

    /// Skips one value of any kind, nested as deeply as it may be.
    pub(crate) fn skip_value(&mut self) -> Result<(), Broken> {
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

    pub(crate) fn note_repetition(
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
                let line = TextProblem::new(self.text, *first, String::new()).line;
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

    pub(crate) fn unknown_field(&mut self, name: Token<'a>, desc: &MessageDescriptor) {
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
    pub(crate) fn place(&self) -> String {
        self.path.join(".")
    }

    pub(crate) fn mismatch<T>(&mut self, expected: &str) -> Result<Option<T>, Broken> {
        let token = self.token;
        let given = self.given(token);
        self.problem(token, &format!("{}: expected {expected}, got {given}", self.place()));
        self.skip_value()?;
        Ok(None)
    }

    pub(crate) fn broken<T>(&mut self, expected: &str) -> Result<T, Broken> {
        let token = self.token;
        let given = self.given(token);
        let place = match self.path.is_empty() {
            true => String::new(),
            false => format!("{}: ", self.place()),
        };
        self.problem(token, &format!("{place}expected {expected}, got {given}"));
        Err(Broken)
    }

    pub(crate) fn given(&self, token: Token<'a>) -> String {
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

    pub(crate) fn problem(&mut self, token: Token<'a>, text: &str) {
        let problem = TextProblem::new(self.text, token.start, text.to_owned());
        // What could not be read at this place cannot be skipped either; once is enough.
        let known = |it: &TextProblem| (it.line, it.column) == (problem.line, problem.column);
        if !self.problems.last().is_some_and(known) {
            self.problems.push(problem);
        }
    }
}
