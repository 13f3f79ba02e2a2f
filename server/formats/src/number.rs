//! Numbers as text, both ways: JSON's grammar in, the shortest text that reads back to the same value
//! out. Every element type is rounded from the decimal text directly, never by way of a wider type.

mod digits;
mod fault;
mod float;
mod half;
mod integer;
mod scan;
mod shortest;
mod window;

use std::fmt;

use backend::{DataType, Element};

pub use fault::Fault;
use scan::scan;

/// An element type that is written as a number.
pub trait Number: Element {
    /// The value that means missing; `None` where the type has none.
    const MISSING: Option<Self> = None;

    /// The number at the beginning of `text`, and how many bytes it takes. What follows it is not looked
    /// at. Floats may also be the bare words `NaN`, `Infinity` and `-Infinity`.
    ///
    /// # Errors
    /// When there is no such number. O(bytes of the number), however long it is.
    fn read(text: &[u8]) -> Result<(Self, usize), Fault>;

    /// Puts the shortest text that reads back to this value at the beginning of `room`, and says how long it
    /// is; what is behind it is not text. For the values that are not finite, the bare words. A whole number of
    /// a float type ends in `.0`.
    fn put(self, room: &mut Room) -> usize;

    /// Appends that text.
    fn write(self, out: &mut Vec<u8>) {
        let mut room = [0; ROOM];
        let length = self.put(&mut room);
        out.extend_from_slice(room.get(..length).unwrap_or_default());
    }
}

/// Bytes that a number may use while it is written: 24 of text, and some that are stored before it is clear
/// that they are not needed.
pub const ROOM: usize = 32;

/// The place for one number.
pub type Room = [u8; ROOM];

/// The bytes of the JSON number at the beginning of `text`, bare words included; `None` where there is
/// none.
pub fn length(text: &[u8]) -> Option<usize> {
    match scan(text) {
        Some(decimal) => Some(decimal.length),
        None => word(text).map(|(_, length)| length),
    }
}

/// The bare word at the beginning of `text`.
fn word(text: &[u8]) -> Option<(f64, usize)> {
    const WORDS: [(&[u8], f64); 3] =
        [(b"NaN", f64::NAN), (b"Infinity", f64::INFINITY), (b"-Infinity", f64::NEG_INFINITY)];
    let (word, value) = WORDS.into_iter().find(|(word, _)| text.starts_with(word))?;
    Some((value, word.len()))
}

/// The problem as a sentence about `text`, which should have been a number of type `dtype`.
pub fn describe(fault: Fault, dtype: DataType, text: &str) -> String {
    let text = Excerpt(text);
    match fault {
        Fault::Syntax => format!("expected {} for {dtype}, found '{text}'", kind(dtype)),
        Fault::Fraction => format!("expected an integer for {dtype}, found {text}"),
        Fault::Range => format!("{text} does not fit {dtype}"),
    }
}

/// What an element of this type is in a text.
pub fn kind(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Bool => "true or false",
        DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64 => "an integer",
        DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 => "a number",
        DataType::Bytes => "a string",
    }
}

/// The first part of a client's text, for an error message.
pub struct Excerpt<'a>(pub &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 40;
        match self.0.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{}...", self.0.get(..end).unwrap_or_default()),
            None => f.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests;
