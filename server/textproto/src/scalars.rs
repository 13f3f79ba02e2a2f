//! Values that are one token: numbers, strings, names.

use prost_reflect::{EnumDescriptor, Value};

use super::{
    lex::{TokenKind, integer_value, unquote},
    parser::{Broken, Parser},
};
use inference::signature::nearest;

impl Parser<'_> {
    /// Strings that stand side by side are one.
    pub(crate) fn string(&mut self) -> Result<Option<String>, Broken> {
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

    pub(crate) fn enumeration(&mut self, desc: &EnumDescriptor) -> Result<Option<Value>, Broken> {
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

    pub(crate) fn integer<T: TryFrom<i128>>(&mut self) -> Result<Option<T>, Broken> {
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

    pub(crate) fn float(&mut self) -> Result<Option<f64>, Broken> {
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
}
