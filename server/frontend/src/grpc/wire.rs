//! Reads the fields of a protobuf message one by one, without a copy. Pure.

use bytes::Bytes;
use prost::{
    DecodeError,
    encoding::{DecodeContext, WireType, check_wire_type, decode_key, decode_varint, skip_field},
};

use inference::error::Error;

/// Most inputs, outputs, parameters, dimensions and raw tensors together. Each takes a byte or two on the wire and up
/// to a hundred times that in memory, and no model has nearly as many.
pub const MOST_PARTS: usize = 1 << 14;

/// Why a message cannot be parsed.
pub enum WireProblem {
    /// The message is malformed.
    Malformed(String),
    /// The message has too many parts.
    Parts,
    /// The key of a parameter is too long.
    Key {
        /// Bytes of it.
        given: usize,
        /// The bound.
        most: usize,
    },
}

impl From<DecodeError> for WireProblem {
    fn from(error: DecodeError) -> WireProblem {
        WireProblem::Malformed(error.to_string())
    }
}

impl WireProblem {
    /// The error for a message of that name.
    pub fn error(self, message: &str) -> Error {
        Error::InvalidRequest(match self {
            WireProblem::Malformed(text) => format!("the message is no {message}: {text}"),
            WireProblem::Parts => format!(
                "the request has too many inputs, outputs, raw tensors, dimensions and parameters together; \
                 expected at most {MOST_PARTS}"
            ),
            WireProblem::Key { given, most } => {
                format!("expected a parameter's key of at most {most} bytes, given {given}")
            }
        })
    }
}

/// Counts the parts of a message, up to a bound that protects memory.
#[derive(Debug, Default)]
pub struct Parts(usize);

impl Parts {
    /// Counts `more` parts.
    ///
    /// # Errors
    /// [`WireProblem::Parts`] when they are too many.
    pub fn count(&mut self, parts: usize) -> Result<(), WireProblem> {
        self.0 += parts;
        if self.0 <= MOST_PARTS { Ok(()) } else { Err(WireProblem::Parts) }
    }
}

/// Lists of elements in a message, by their field numbers.
pub struct Lists {
    /// The lists in which an element may be one byte, with the bytes of an element in memory.
    pub numbers: &'static [(u32, usize)],
    /// The list of strings: each string is kept by itself, and then written behind its length.
    pub strings: u32,
}

/// Bytes of memory that the lists of one message take. The count ends at malformed bytes, because no decoder gets
/// past them.
pub fn bound(contents: &[u8], lists: &Lists) -> usize {
    let mut rest = contents;
    let mut sum = 0usize;
    while let Ok(Some((number, kind))) = field(&mut rest) {
        let size = lists.numbers.iter().find(|it| it.0 == number).map(|it| it.1);
        let taken = match (kind, size) {
            (WireType::LengthDelimited, size) => {
                let Ok(bytes) = delimited(kind, &mut rest) else { break };
                match size {
                    _ if number == lists.strings => {
                        size_of::<Bytes>() + size_of::<u32>() + bytes.len()
                    }
                    Some(size) => size.saturating_mul(bytes.len()),
                    None => bytes.len(),
                }
            }
            (kind, _) => {
                let skipped = skip_field(kind, number, &mut rest, DecodeContext::default());
                if skipped.is_err() {
                    break;
                }
                size_of::<u64>()
            }
        };
        sum = sum.saturating_add(taken);
    }
    sum
}

/// The number and kind of the next field; `None` at the end.
///
/// # Errors
/// When the key is malformed.
pub fn field(rest: &mut &[u8]) -> Result<Option<(u32, WireType)>, DecodeError> {
    match rest.is_empty() {
        true => Ok(None),
        false => decode_key(rest).map(|(kind, number)| Some((kind, number))),
    }
}

/// Skips the value of a field that this reader does not know.
///
/// # Errors
/// When the value is malformed.
pub fn skip(number: u32, kind: WireType, rest: &mut &[u8]) -> Result<(), WireProblem> {
    Ok(skip_field(kind, number, rest, DecodeContext::default())?)
}

/// The value of a varint field.
///
/// # Errors
/// When it is of another kind, or malformed.
pub fn varint(kind: WireType, rest: &mut &[u8]) -> Result<u64, WireProblem> {
    check_wire_type(WireType::Varint, kind)?;
    Ok(decode_varint(rest)?)
}

/// The value of a field that is a floating-point number of eight bytes.
///
/// # Errors
/// When it is of another kind, or reaches past the end.
pub fn double(kind: WireType, rest: &mut &[u8]) -> Result<f64, WireProblem> {
    check_wire_type(WireType::SixtyFourBit, kind)?;
    let cut = || WireProblem::Malformed(format!("a number of 8 bytes, {} are left", rest.len()));
    let (bytes, behind) = rest.split_first_chunk().ok_or_else(cut)?;
    *rest = behind;
    Ok(f64::from_le_bytes(*bytes))
}

/// The bytes of a field with a length.
///
/// # Errors
/// When it is of another kind, or reaches past the end.
pub fn delimited<'a>(kind: WireType, rest: &mut &'a [u8]) -> Result<&'a [u8], WireProblem> {
    check_wire_type(WireType::LengthDelimited, kind)?;
    let length = decode_varint(rest)?;
    let there = usize::try_from(length).ok().and_then(|it| rest.split_at_checked(it));
    let (value, behind) = there.ok_or_else(|| {
        WireProblem::Malformed(format!("a field of {length} bytes, {} are left", rest.len()))
    })?;
    *rest = behind;
    Ok(value)
}

/// The value of a field that is a text.
///
/// # Errors
/// When it is of another kind, or not UTF-8.
pub fn text<'a>(kind: WireType, rest: &mut &'a [u8]) -> Result<&'a str, WireProblem> {
    let bytes = delimited(kind, rest)?;
    std::str::from_utf8(bytes).map_err(|error| WireProblem::Malformed(format!("a name: {error}")))
}
