//! Dictionaries, lists, texts and numbers as Python prints them. Read, never evaluated.

/// Nesting beyond this is refused.
const MOST_DEPTH: usize = 16;
/// Longer texts are refused.
const MOST_BYTES: usize = 1 << 20;

/// A value of Python.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    None,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// A list or a tuple.
    List(Vec<Literal>),
    /// The keys in their order.
    Dictionary(Vec<(Literal, Literal)>),
}

/// Why a text is no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LiteralError {
    #[error("it has {0} bytes, at most {MOST_BYTES} are read")]
    TooLong(usize),
    #[error("at byte {at} {problem}")]
    Wrong { at: usize, problem: String },
}

impl Literal {
    /// The value that `text` is as a whole.
    ///
    /// # Errors
    /// A sentence with the byte at which it is none.
    pub(super) fn parse(text: &str) -> Result<Literal, LiteralError> {
        if text.len() > MOST_BYTES {
            return Err(LiteralError::TooLong(text.len()));
        }
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.blanks();
        match reader.rest() {
            "" => Ok(value),
            _ => Err(reader.wrong("nothing more is expected")),
        }
    }

    /// What it is, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Literal::None => "None",
            Literal::Bool(_) => "a boolean",
            Literal::Integer(_) => "a whole number",
            Literal::Float(_) => "a number",
            Literal::Text(_) => "a text",
            Literal::List(_) => "a list",
            Literal::Dictionary(_) => "a dictionary",
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn wrong(&self, problem: &str) -> LiteralError {
        LiteralError::Wrong { at: self.at, problem: problem.to_owned() }
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Takes `token` if it comes next.
    fn take(&mut self, token: &str) -> bool {
        self.blanks();
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    fn value(&mut self, depth: usize) -> Result<Literal, LiteralError> {
        if depth > MOST_DEPTH {
            return Err(self.wrong(&format!("more than {MOST_DEPTH} levels begin")));
        }
        self.blanks();
        match self.rest().chars().next() {
            Some('{') => self.dictionary(depth),
            Some('[') => self.list("[", "]", depth),
            Some('(') => self.list("(", ")", depth),
            Some(quote @ ('\'' | '"')) => self.text(quote).map(Literal::Text),
            Some(_) => self.word(),
            None => Err(self.wrong("a value is missing")),
        }
    }

    fn dictionary(&mut self, depth: usize) -> Result<Literal, LiteralError> {
        self.take("{");
        let mut entries = Vec::new();
        while !self.take("}") {
            let key = self.value(depth + 1)?;
            if !self.take(":") {
                return Err(self.wrong("':' is missing"));
            }
            entries.push((key, self.value(depth + 1)?));
            if !self.take(",") && !self.rest().starts_with('}') {
                return Err(self.wrong("',' or '}' is missing"));
            }
        }
        Ok(Literal::Dictionary(entries))
    }

    fn list(&mut self, open: &str, close: &str, depth: usize) -> Result<Literal, LiteralError> {
        self.take(open);
        let mut entries = Vec::new();
        while !self.take(close) {
            entries.push(self.value(depth + 1)?);
            if !self.take(",") && !self.rest().starts_with(close) {
                return Err(self.wrong(&format!("',' or '{close}' is missing")));
            }
        }
        Ok(Literal::List(entries))
    }

    fn text(&mut self, quote: char) -> Result<String, LiteralError> {
        let mut text = String::new();
        self.at += 1;
        loop {
            let Some(next) = self.rest().chars().next() else {
                return Err(self.wrong("the text does not end"));
            };
            self.at += next.len_utf8();
            match next {
                _ if next == quote => return Ok(text),
                '\\' => text.extend(self.escape()?),
                _ => text.push(next),
            }
        }
    }

    /// What stands behind a backslash; none for the end of a line.
    fn escape(&mut self) -> Result<Option<char>, LiteralError> {
        let Some(kind) = self.rest().chars().next() else {
            return Err(self.wrong("the text does not end"));
        };
        let plain = match kind {
            '\\' | '\'' | '"' => kind,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            '\n' => {
                self.at += 1;
                return Ok(None);
            }
            'x' | 'u' | 'U' => {
                let digits =
                    [2, 4, 8][['x', 'u', 'U'].iter().position(|it| *it == kind).unwrap_or(0)];
                let code = self.rest().get(1..1 + digits);
                let code = code.filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
                let code = code.and_then(|it| u32::from_str_radix(it, 16).ok());
                let Some(found) = code.and_then(char::from_u32) else {
                    return Err(self.wrong("the escape is no character"));
                };
                self.at += 1 + digits;
                return Ok(Some(found));
            }
            _ => return Err(self.wrong("the escape is unknown")),
        };
        self.at += kind.len_utf8();
        Ok(Some(plain))
    }

    /// A number, or one of three names.
    fn word(&mut self) -> Result<Literal, LiteralError> {
        let is_part = |it: char| it.is_alphanumeric() || ['_', '.', '+', '-'].contains(&it);
        let rest = self.rest();
        let word = &rest[..rest.find(|it| !is_part(it)).unwrap_or(rest.len())];
        let is_number = word.starts_with(|it: char| it.is_ascii_digit() || "+-.".contains(it));
        let value = match word {
            "None" | "null" => Some(Literal::None),
            "True" | "true" => Some(Literal::Bool(true)),
            "False" | "false" => Some(Literal::Bool(false)),
            _ if is_number => {
                let float = || word.parse().ok().filter(|it: &f64| it.is_finite());
                word.parse().map(Literal::Integer).ok().or_else(|| float().map(Literal::Float))
            }
            _ => None,
        };
        let value = value.ok_or_else(|| self.wrong("a value is expected"))?;
        self.at += word.len();
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(it: &str) -> Literal {
        Literal::Text(it.to_owned())
    }

    #[test]
    fn values_are_read_as_python_prints_them() {
        let read = |it: &str| Literal::parse(it).unwrap();
        let names = read(r#"{0: 'person', 1: "dog's", 2: 'caf\xe9 \u00e9\\', 3: 'a "b"'}"#);
        let entry = |number, name: &str| (Literal::Integer(number), text(name));
        let expected =
            [entry(0, "person"), entry(1, "dog's"), entry(2, "café é\\"), entry(3, "a \"b\"")];
        assert_eq!(names, Literal::Dictionary(expected.to_vec()));
        let sizes = Literal::List(vec![Literal::Integer(640), Literal::Integer(-2)]);
        assert_eq!(read(" [640, -2] "), sizes);
        assert_eq!(read("(640, -2,)"), sizes);
        let mixed =
            vec![Literal::Bool(true), Literal::None, Literal::Float(0.5), Literal::List(vec![])];
        assert_eq!(read("[True, None, 0.5, []]"), Literal::List(mixed));
    }

    #[test]
    fn anything_else_is_refused_with_its_byte() {
        for (given, expect) in [
            ("{0: 'person'", "at byte 12 ',' or '}' is missing"),
            ("{0 'person'}", "at byte 3 ':' is missing"),
            ("[1, 2", "at byte 5 ',' or ']' is missing"),
            ("'abc", "at byte 4 the text does not end"),
            (r"'\q'", "at byte 2 the escape is unknown"),
            (r"'\ud800'", "at byte 2 the escape is no character"),
            ("'\\x+f'", "at byte 2 the escape is no character"),
            ("__import__('os')", "at byte 0 a value is expected"),
            ("1 + 1", "at byte 2 nothing more is expected"),
            ("1e999", "at byte 0 a value is expected"),
            ("nan", "at byte 0 a value is expected"),
            ("", "at byte 0 a value is missing"),
            ("[,]", "at byte 1 a value is expected"),
        ] {
            assert_eq!(Literal::parse(given).unwrap_err().to_string(), expect, "{given}");
        }
        let deep = "[".repeat(100_000);
        let error = Literal::parse(&deep).unwrap_err().to_string();
        assert_eq!(error, "at byte 17 more than 16 levels begin");
        let long = " ".repeat(MOST_BYTES + 1);
        assert!(
            Literal::parse(&long).unwrap_err().to_string().contains("at most 1048576 are read")
        );
    }

    #[test]
    fn no_part_of_a_value_makes_it_panic() {
        let whole = r#"{0: 'pérson', 1: "d\u00e9\x41", 'a': [1.5, (True, None)]}"#;
        for from in 0..=whole.len() {
            for to in from..=whole.len() {
                if let Some(part) = whole.get(from..to) {
                    let _ = Literal::parse(part);
                }
            }
        }
    }
}
