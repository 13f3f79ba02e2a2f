//! Splits protobuf text format into tokens. Comments and white space are skipped; nothing is copied.

/// A piece of the text, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    /// As written, quotes included. Empty at the end.
    pub(super) text: &'a str,
    /// Offset of its first byte.
    pub(super) start: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TokenKind {
    /// A field's or enum value's name.
    Name,
    /// Digits with whatever sticks to them; its value is checked where it is used.
    Number,
    /// One quoted string.
    String,
    /// One character of punctuation.
    Symbol,
    /// A quoted string that its line does not end.
    Unterminated,
    /// Nothing is left.
    End,
}

impl Token<'_> {
    pub(super) fn is(&self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && self.text == symbol
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The first token at or after `offset`.
pub(super) fn token_at(text: &str, offset: usize) -> Token<'_> {
    let start = skip_blanks(text, offset);
    let rest = text.get(start..).unwrap_or_default();
    let Some(first) = rest.chars().next() else {
        return Token { kind: TokenKind::End, text: "", start };
    };
    let (kind, length) = match first {
        'a'..='z' | 'A'..='Z' | '_' => (TokenKind::Name, word_length(rest)),
        '0'..='9' => (TokenKind::Number, number_length(rest)),
        '.' if rest.chars().nth(1).is_some_and(|it| it.is_ascii_digit()) => {
            (TokenKind::Number, number_length(rest))
        }
        '"' | '\'' => match string_length(rest, first) {
            Some(length) => (TokenKind::String, length),
            None => (TokenKind::Unterminated, rest.lines().next().map_or(0, str::len)),
        },
        _ => (TokenKind::Symbol, first.len_utf8()),
    };
    Token { kind, text: rest.get(..length).unwrap_or(rest), start }
}

fn skip_blanks(text: &str, mut offset: usize) -> usize {
    loop {
        let rest = text.get(offset..).unwrap_or_default();
        // A byte order mark is a blank to us: some editors put one at the beginning.
        let blank = |it: char| it.is_whitespace() || it == '\u{feff}';
        let trimmed = rest.trim_start_matches(blank);
        offset += rest.len() - trimmed.len();
        if !trimmed.starts_with('#') {
            return offset;
        }
        offset += trimmed.find('\n').unwrap_or(trimmed.len());
    }
}

fn word_length(rest: &str) -> usize {
    rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(rest.len())
}

fn number_length(rest: &str) -> usize {
    let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    let mut previous = ' ';
    rest.find(|it: char| {
        let exponent = matches!(it, '+' | '-') && matches!(previous, 'e' | 'E') && !hexadecimal;
        previous = it;
        !(it.is_ascii_alphanumeric() || it == '.' || it == '_' || exponent)
    })
    .unwrap_or(rest.len())
}

/// Length with both quotes; `None` if the line ends first.
fn string_length(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (offset, character) in rest.char_indices().skip(1) {
        match character {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return Some(offset + 1),
            _ => {}
        }
    }
    None
}

/// The value of a number token: decimal, `0x` hexadecimal or `0` octal.
pub(super) fn integer_value(text: &str) -> Option<i128> {
    match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => i128::from_str_radix(text.get(2..)?, 16).ok(),
        [b'0', _, ..] => i128::from_str_radix(text, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// The character behind a backslash that means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnknownEscape(char);

impl std::fmt::Display for UnknownEscape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\\{}", self.0)
    }
}

impl std::error::Error for UnknownEscape {}

/// The bytes that a quoted string stands for, or the escape sequence that means nothing.
pub(super) fn unquote(quoted: &str) -> Result<Vec<u8>, UnknownEscape> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let unknown = || UnknownEscape(escape.chars().next().unwrap_or(' '));
        let first = escape.chars().next().ok_or_else(unknown)?;
        let after = escape.get(first.len_utf8()..).unwrap_or_default();
        let (value, digits) = match first {
            'n' => (u32::from(b'\n'), ""),
            'r' => (u32::from(b'\r'), ""),
            't' => (u32::from(b'\t'), ""),
            'a' => (7, ""),
            'b' => (8, ""),
            'f' => (12, ""),
            'v' => (11, ""),
            '\\' | '\'' | '"' | '?' => (u32::from(first), ""),
            '0'..='7' => code(escape, 8, 1, 3).ok_or_else(unknown)?,
            'x' | 'X' => code(after, 16, 1, 2).ok_or_else(unknown)?,
            'u' => code(after, 16, 4, 4).ok_or_else(unknown)?,
            'U' => code(after, 16, 8, 8).ok_or_else(unknown)?,
            _ => return Err(unknown()),
        };
        match first {
            'u' | 'U' => {
                let character = char::from_u32(value).ok_or_else(unknown)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => bytes.push(u8::try_from(value).map_err(|_| unknown())?),
        }
        rest = match first {
            '0'..='7' => escape.get(digits.len()..).unwrap_or_default(),
            _ => after.get(digits.len()..).unwrap_or_default(),
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

/// The number at the beginning of `text`, at most `most` digits long, and those digits.
fn code(text: &str, radix: u32, least: usize, most: usize) -> Option<(u32, &str)> {
    let count = text.chars().take(most).take_while(|it| it.is_digit(radix)).count();
    let digits = text.get(..count).filter(|_| least <= count)?;
    Some((u32::from_str_radix(digits, radix).ok()?, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(TokenKind, &str)]) {
        let mut offset = 0;
        for &(kind, piece) in expected {
            let token = token_at(text, offset);
            assert_eq!((token.kind, token.text), (kind, piece));
            offset = token.end();
        }
        assert_eq!(token_at(text, offset).kind, TokenKind::End);
    }

    #[test]
    fn comments_and_blanks_are_skipped() {
        use TokenKind::*;
        check("# one\n a: # two\r\n\t7 # three", &[(Name, "a"), (Symbol, ":"), (Number, "7")]);
    }

    #[test]
    fn a_hash_inside_a_string_is_not_a_comment() {
        check(
            "'a#b' \"c\\\"#\"",
            &[(TokenKind::String, "'a#b'"), (TokenKind::String, "\"c\\\"#\"")],
        );
    }

    #[test]
    fn a_number_keeps_its_exponent_and_a_minus_stands_alone() {
        use TokenKind::*;
        check("-1e-5,.5f", &[(Symbol, "-"), (Number, "1e-5"), (Symbol, ","), (Number, ".5f")]);
    }

    #[test]
    fn a_string_ends_on_its_line() {
        assert_eq!(token_at("'abc\n'", 0).kind, TokenKind::Unterminated);
    }

    #[test]
    fn escapes_are_replaced() {
        let text = r#""a\n\t\\\"\'\101\x41\u00e9\U0001f600""#;
        assert_eq!(unquote(text).unwrap(), "a\n\t\\\"'AA\u{e9}\u{1f600}".as_bytes());
        assert_eq!(unquote(r#""\q""#), Err(UnknownEscape('q')));
        assert_eq!(unquote(r#""\xg""#), Err(UnknownEscape('x')));
        assert_eq!(unquote(r#""\777""#), Err(UnknownEscape('7')));
    }
}
