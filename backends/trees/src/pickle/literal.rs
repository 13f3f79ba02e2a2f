//! Instructions of pickles that put a number, a text or bytes on the stack. Pure.

use crate::{
    error::FormatError,
    pickle::{
        cursor::Cursor,
        keeper::Keeper,
        text,
        value::{Kept, Value},
    },
};

/// The number, the text or the bytes of an instruction.
///
/// # Errors
/// It is no instruction, or what follows it is none of them.
pub(super) fn literal(
    code: u8,
    cursor: &mut Cursor,
    kept: &mut Keeper,
) -> Result<Value, FormatError> {
    Ok(match code {
        b'N' => Value::None,
        0x88 => Value::Bool(true),
        0x89 => Value::Bool(false),
        b'J' => Value::Int(i64::from(i32::from_le_bytes(cursor.array()?))),
        b'K' => Value::Int(i64::from(cursor.byte()?)),
        b'M' => Value::Int(i64::from(u16::from_le_bytes(cursor.array()?))),
        b'G' => Value::Float(f64::from_be_bytes(cursor.array()?)),
        b'F' | b'I' | b'L' => return number_line(code, cursor),
        0x8a => {
            let length = u64::from(cursor.byte()?);
            return long(length, cursor, kept);
        }
        0x8b => {
            let length = cursor.length4()?;
            return long(length, cursor, kept);
        }
        b'C' | b'U' => {
            let length = u64::from(cursor.byte()?);
            Value::Bytes(cursor.span(length)?)
        }
        b'B' | b'T' => {
            let length = cursor.length4()?;
            Value::Bytes(cursor.span(length)?)
        }
        0x8e | 0x96 => {
            let length = u64::from_le_bytes(cursor.array()?);
            Value::Bytes(cursor.span(length)?)
        }
        0x8c => {
            let length = u64::from(cursor.byte()?);
            return utf8(length, cursor);
        }
        b'X' => {
            let length = cursor.length4()?;
            return utf8(length, cursor);
        }
        0x8d => {
            let length = u64::from_le_bytes(cursor.array()?);
            return utf8(length, cursor);
        }
        b'S' | b'V' => return text_line(code, cursor, kept),
        _ => return cursor.refuse(format!("{code:#04x} is no instruction")),
    })
}

/// A number as digits on a line of its own.
///
/// # Errors
/// It is none.
pub(super) fn number_line(code: u8, cursor: &mut Cursor) -> Result<Value, FormatError> {
    let line = cursor.line()?;
    let text = std::str::from_utf8(cursor.bytes(line)).unwrap_or_default();
    let number = match (code, text) {
        (b'I', "00") => Some(Value::Bool(false)),
        (b'I', "01") => Some(Value::Bool(true)),
        (b'F', _) => text.parse().ok().map(Value::Float),
        _ => text.strip_suffix('L').unwrap_or(text).parse().ok().map(Value::Int),
    };
    match number {
        Some(number) => Ok(number),
        None => cursor.refuse("a number that is none"),
    }
}

fn text_line(code: u8, cursor: &mut Cursor, kept: &mut Keeper) -> Result<Value, FormatError> {
    let line = cursor.line()?;
    kept.take(line.bytes().saturating_mul(2), cursor)?;
    let raw = cursor.bytes(line);
    let text = match code {
        b'S' => {
            std::str::from_utf8(raw).ok().and_then(text::quoted).map(|it| Kept::Bytes(it.into()))
        }
        _ => text::escaped(raw).map(|it| Kept::Text(it.into())),
    };
    match text {
        Some(text) => kept.keep(text, 0, cursor),
        None => cursor.refuse("a text that is none"),
    }
}

/// An integer in so many bytes.
fn long(length: u64, cursor: &mut Cursor, kept: &mut Keeper) -> Result<Value, FormatError> {
    let span = cursor.span(length)?;
    let bytes = cursor.bytes(span);
    if 8 < bytes.len() {
        return kept.keep(Kept::Large, 0, cursor);
    }
    let is_negative = bytes.last().is_some_and(|it| it & 0x80 != 0);
    let mut wide = [if is_negative { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    Ok(Value::Int(i64::from_le_bytes(wide)))
}

fn utf8(length: u64, cursor: &mut Cursor) -> Result<Value, FormatError> {
    let span = cursor.span(length)?;
    match std::str::from_utf8(cursor.bytes(span)) {
        Ok(_) => Ok(Value::Text(span)),
        Err(_) => cursor.refuse("a text that is not UTF-8"),
    }
}
