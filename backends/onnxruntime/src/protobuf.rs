//! Messages of protobuf, as far as a change to one field needs them: fields are found, and the bytes of the others stay
//! as they are.

/// One field of a message.
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    pub(crate) value: Value<'a>,
    /// Its bytes, tag and length included.
    pub(crate) whole: &'a [u8],
}

/// What is in it.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes, which are of no interest.
    Fixed,
}

impl<'a> Field<'a> {
    pub(crate) fn bytes(&self) -> Option<&'a [u8]> {
        match self.value {
            Value::Bytes(bytes) => Some(bytes),
            Value::Number(_) | Value::Fixed => None,
        }
    }
}

/// The fields of a message; `None` for what is none.
pub(crate) fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let (mut rest, mut fields) = (message, Vec::new());
    while !rest.is_empty() {
        let start = rest;
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut rest)?),
            1 => take(&mut rest, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Value::Bytes(take(&mut rest, length)?)
            }
            5 => take(&mut rest, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        let whole = start.get(..start.len() - rest.len())?;
        fields.push(Field { number: tag >> 3, value, whole });
    }
    Some(fields)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

/// The number at the beginning of `rest`, which is behind it then.
pub(crate) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let &byte = take(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

pub(crate) fn texts_of<'a>(message: &[Field<'a>], number: u64) -> impl Iterator<Item = &'a [u8]> {
    message.iter().filter(move |it| it.number == number).filter_map(Field::bytes)
}

/// The first field of that number; empty where there is none.
pub(crate) fn text_of<'a>(message: &[Field<'a>], number: u64) -> &'a [u8] {
    texts_of(message, number).next().unwrap_or_default()
}

/// The last field of that number, as a message's fields are read.
pub(crate) fn number_of(message: &[Field<'_>], number: u64) -> Option<u64> {
    let numbers = message.iter().filter(|it| it.number == number);
    let mut numbers = numbers.filter_map(|it| match it.value {
        Value::Number(value) => Some(value),
        Value::Bytes(_) | Value::Fixed => None,
    });
    numbers.next_back()
}

/// All numbers in the fields of that number, one to a field or several behind each other. `None` where they hold
/// something else.
pub(crate) fn numbers_of(message: &[Field<'_>], number: u64) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    for field in message.iter().filter(|it| it.number == number) {
        match field.value {
            Value::Number(value) => numbers.push(value.cast_signed()),
            Value::Bytes(bytes) => numbers.extend(packed(bytes)?),
            Value::Fixed => return None,
        }
    }
    Some(numbers)
}

/// Numbers one behind the other.
pub(crate) fn packed(mut bytes: &[u8]) -> Option<Vec<i64>> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(varint(&mut bytes)?.cast_signed());
    }
    Some(numbers)
}

pub(crate) fn put_number(out: &mut Vec<u8>, number: u64, value: u64) {
    put_varint(out, number << 3);
    put_varint(out, value);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7F {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
