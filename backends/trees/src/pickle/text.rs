//! Texts of the oldest protocols, which are written with escapes. Pure.

/// The bytes of a string in quotes as Python 2 writes it: `'a\x00'`. `None` where it is none.
pub(super) fn quoted(line: &str) -> Option<Vec<u8>> {
    let quote = line.chars().next().filter(|it| matches!(it, '\'' | '"'))?;
    let inner = line.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (escape, behind) = rest.split_first()?;
        rest = behind;
        bytes.push(match escape {
            b'\\' | b'\'' | b'"' => *escape,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'x' => hexadecimal(&mut rest, 2)? as u8,
            _ => return None,
        });
    }
    Some(bytes)
}

/// A text in which characters may be `\u` and four digits, or `\U` and eight. Each other character is itself, one for
/// each byte of the file, since that is how the protocol writes those below 256.
pub(super) fn escaped(line: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let digits = match (first, rest.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        if digits == 0 {
            text.push(char::from(*first));
            continue;
        }
        rest = &rest[1..];
        text.push(char::from_u32(hexadecimal(&mut rest, digits)?)?);
    }
    Some(text)
}

fn hexadecimal(rest: &mut &[u8], digits: usize) -> Option<u32> {
    let (number, behind) = rest.split_at_checked(digits)?;
    *rest = behind;
    number.iter().try_fold(0u32, |sum, it| Some(sum << 4 | char::from(*it).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_in_quotes_lose_their_escapes() {
        assert_eq!(quoted(r"'a\x00\n\\\''").as_deref(), Some(b"a\0\n\\'".as_slice()));
        assert_eq!(quoted("\"it's\"").as_deref(), Some(b"it's".as_slice()));
        for wrong in ["", "'", "a", "'a", r"'\x0'", r"'\'", r"'\q'"] {
            assert_eq!(quoted(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn escapes_are_characters_and_bytes_are_latin() {
        assert_eq!(escaped(b"a\\u20ac\\U0001f600\xe9\\n").as_deref(), Some("a€😀é\\n"));
        for wrong in [b"\\u12".as_slice(), b"\\ud800", b"\\U00110000", b"\\uzzzz"] {
            assert_eq!(escaped(wrong), None);
        }
    }
}
