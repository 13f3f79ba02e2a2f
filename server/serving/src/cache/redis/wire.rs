//! Redis's protocol, version 2, as far as it is used here. Pure.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Longest line and longest value that are read.
const LONGEST_LINE: usize = 1 << 16;
const LONGEST_VALUE: usize = 512 << 20;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// `+OK` and the like.
    Simple,
    /// Bytes.
    Bulk(Bytes),
    /// There is nothing.
    Nil,
    /// `-ERR` and what else it refuses.
    Error(String),
}

/// The start of a command: all of it but its last part, which has `length` bytes and is followed by [`END`]; with a
/// length of 0 it has no such part.
pub(super) fn command(parts: &[&[u8]], length: usize) -> Bytes {
    let mut text = BytesMut::new();
    let count = parts.len() + usize::from(0 < length);
    text.put_slice(format!("*{count}\r\n").as_bytes());
    for part in parts {
        text.put_slice(format!("${}\r\n", part.len()).as_bytes());
        text.put_slice(part);
        text.put_slice(END);
    }
    if 0 < length {
        text.put_slice(format!("${length}\r\n").as_bytes());
    }
    text.freeze()
}

/// What every part ends with.
pub(super) const END: &[u8] = b"\r\n";

/// An answer that is none of this protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("a line does not end")]
    EndlessLine,
    #[error("a value of '{0}' bytes")]
    Length(String),
    #[error("an answer of an unknown kind")]
    UnknownKind,
}

/// Takes one answer out of what has come; `None` while it is not whole.
///
/// # Errors
/// When it is no answer of this protocol; a sentence.
pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<Value>, Malformed> {
    let line = buffer.windows(2).take(LONGEST_LINE).position(|it| it == END);
    let Some(end) = line else {
        return match buffer.len() <= LONGEST_LINE {
            true => Ok(None),
            false => Err(Malformed::EndlessLine),
        };
    };
    let text = buffer.get(1..end).map(|it| String::from_utf8_lossy(it).into_owned());
    let text = text.unwrap_or_default();
    let value = match buffer.first() {
        Some(b'+' | b':') => Value::Simple,
        Some(b'-') => Value::Error(text),
        Some(b'$') if text == "-1" => Value::Nil,
        Some(b'$') => {
            let length = text.parse::<usize>().ok().filter(|it| *it <= LONGEST_VALUE);
            let length = length.ok_or(Malformed::Length(text))?;
            if buffer.len() < end + 2 + length + 2 {
                buffer.reserve((end + 2 + length + 2).saturating_sub(buffer.len()));
                return Ok(None);
            }
            buffer.advance(end + 2);
            let value = buffer.split_to(length).freeze();
            buffer.advance(2);
            return Ok(Some(Value::Bulk(value)));
        }
        _ => return Err(Malformed::UnknownKind),
    };
    buffer.advance(end + 2);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Result<Option<Value>, &str>) {
        let mut buffer = BytesMut::from(text);
        let taken = take(&mut buffer).map_err(|it| it.to_string());
        assert_eq!(taken, expect.map_err(str::to_owned));
    }

    #[test]
    fn answers_are_read() {
        check("+OK\r\n", Ok(Some(Value::Simple)));
        check("$-1\r\n", Ok(Some(Value::Nil)));
        check("$3\r\na\r\n\r\n", Ok(Some(Value::Bulk(Bytes::from_static(b"a\r\n")))));
        check("-NOAUTH x\r\n", Ok(Some(Value::Error("NOAUTH x".to_owned()))));
    }

    #[test]
    fn a_partial_answer_is_waited_for_and_a_malformed_one_is_an_error() {
        for part in ["", "+O", "+OK\r", "$3\r\nab", "$3\r\nabc\r"] {
            check(part, Ok(None));
        }
        check("hello\r\n", Err("an answer of an unknown kind"));
        check("$-7\r\n", Err("a value of '-7' bytes"));
        check("$99999999999\r\n", Err("a value of '99999999999' bytes"));
        check(&"x".repeat(LONGEST_LINE + 2), Err("a line does not end"));
    }

    #[test]
    fn commands_say_how_long_each_part_is() {
        assert_eq!(&command(&[b"GET", b"k"], 0)[..], b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        assert_eq!(&command(&[b"SET", b"k"], 5)[..], b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\n");
    }
}
