//! Numbers as text, both ways: JSON's grammar in, the shortest text that reads back to the same value
//! out. Every element type is rounded from the decimal text directly, never by way of a wider type.

mod digits;
mod half;
mod scan;
mod shortest;
mod window;

use std::fmt;

use backend::{DataType, Element};

use digits::TENS;
use scan::{Decimal, digits, scan, sign, text_of};
use window::WINDOW;

/// Why a text is not a number of the wanted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with a number as JSON writes it.
    Syntax,
    /// It has a fraction or an exponent, and the type is an integer. `1.0` is refused, too: a client that
    /// writes it means another type.
    Fraction,
    /// It is a number, but the type ends before it.
    Range,
}

/// An element type that is written as a number.
pub trait Number: Element {
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

/// Powers of ten as doubles, from [`LEAST_POWER`] to 38. Up to 10^22 they are exact, further out three units in
/// the last place away at most: each is made of at most two roundings and, below one, a third.
const POWERS: [f64; 95] = {
    let mut powers = [0.0; 95];
    let mut index = 0;
    while index < 95 {
        let exponent = index as i32 + LEAST_POWER;
        let (mut power, mut left) = (1.0, exponent.unsigned_abs());
        while left > 0 {
            let step = if left < 22 { left } else { 22 };
            power *= TENS[step as usize / 2] as f64 * TENS[(step - step / 2) as usize] as f64;
            left -= step;
        }
        powers[index] = if exponent < 0 { 1.0 / power } else { power };
        index += 1;
    }
    powers
};

/// 18 digits times this are not below the least normal float.
const LEAST_POWER: i32 = -56;

/// The window at the beginning of `text`, and the number in it.
#[inline(always)]
fn plain(text: &[u8]) -> Option<Decimal> {
    window::decimal(text.first_chunk::<WINDOW>()?)
}

/// The nearest float, where it can be told without looking at the text again.
#[inline(always)]
fn float(decimal: &Decimal) -> Option<f32> {
    // Bits of the least normal float as a double, and of the greatest.
    const LEAST: u64 = (f32::MIN_POSITIVE as f64).to_bits();
    const MOST: u64 = (f32::MAX as f64).to_bits();
    let power = POWERS.get(usize::try_from(decimal.exponent.wrapping_sub(LEAST_POWER)).ok()?)?;
    let bits = (decimal.mantissa as i64 as f64 * power).to_bits();
    // The product is at most five units away from the decimal, and rounds to the same float unless the middle
    // between two floats is as near. Subnormal floats have their middles elsewhere.
    let sure = (bits & 0x1fff_ffff).wrapping_sub(0x1000_0000 - 8) > 16;
    let normal = (LEAST + 8..MOST).contains(&bits) | (decimal.mantissa == 0);
    let sign = u32::from(decimal.negative) << 31;
    (sure & normal).then(|| f32::from_bits((f64::from_bits(bits) as f32).to_bits() | sign))
}

/// The nearest double, where one rounding gives it.
#[inline(always)]
fn double(decimal: &Decimal) -> Option<f64> {
    let power = usize::try_from(decimal.exponent.unsigned_abs()).ok().filter(|&it| it <= 22)?;
    let power = *POWERS.get(power.wrapping_add_signed(-LEAST_POWER as isize))?;
    let mantissa = decimal.mantissa as i64 as f64;
    let value = if decimal.exponent < 0 { mantissa / power } else { mantissa * power };
    (decimal.mantissa <= 1 << 53).then_some(if decimal.negative { -value } else { value })
}

impl Number for f32 {
    #[inline(always)]
    fn read(text: &[u8]) -> Result<(f32, usize), Fault> {
        match plain(text) {
            Some(decimal) => match float(&decimal) {
                Some(value) => Ok((value, decimal.length)),
                None => parse(text, decimal.length),
            },
            None => read_carefully(text, float, |it| it as f32),
        }
    }

    #[inline(always)]
    fn put(self, room: &mut Room) -> usize {
        shortest::put(self, room).unwrap_or_else(|| put_in_doubt(self, room))
    }
}

impl Number for f64 {
    #[inline(always)]
    fn read(text: &[u8]) -> Result<(f64, usize), Fault> {
        match plain(text) {
            Some(decimal) => match double(&decimal) {
                Some(value) => Ok((value, decimal.length)),
                None => parse(text, decimal.length),
            },
            None => read_carefully(text, double, |it| it),
        }
    }

    #[inline]
    fn put(self, room: &mut Room) -> usize {
        put_by_zmij(self, room)
    }
}

/// Any float, the bare words included. `quickly` may find it from its decimal, the standard library will.
#[inline(never)]
fn read_carefully<T: Into<f64> + Copy + std::str::FromStr>(
    text: &[u8],
    quickly: fn(&Decimal) -> Option<T>,
    of_word: fn(f64) -> T,
) -> Result<(T, usize), Fault> {
    let Some(decimal) = scan(text) else {
        return word(text).map(|(value, length)| (of_word(value), length)).ok_or(Fault::Syntax);
    };
    // The quick ways read the mantissa as a signed number.
    let fits = decimal.exact && i64::try_from(decimal.mantissa).is_ok();
    match Some(&decimal).filter(|_| fits).and_then(quickly) {
        Some(value) => Ok((value, decimal.length)),
        None => parse(text, decimal.length),
    }
}

/// The number of `length` bytes, by the standard library.
#[inline(never)]
fn parse<T: Into<f64> + Copy + std::str::FromStr>(
    text: &[u8],
    length: usize,
) -> Result<(T, usize), Fault> {
    let value: T = text_of(text, length)?.parse().map_err(|_| Fault::Syntax)?;
    if value.into().is_finite() { Ok((value, length)) } else { Err(Fault::Range) }
}

/// A float whose shortest text was in doubt, or that is not finite.
#[cold]
#[inline(never)]
fn put_in_doubt(value: f32, room: &mut Room) -> usize {
    put_by_zmij(value, room)
}

/// Any float, the bare words included.
#[inline]
fn put_by_zmij<T: zmij::Float + Into<f64> + Copy>(value: T, room: &mut Room) -> usize {
    match value.into().is_finite() {
        true => put_text(zmij::Buffer::new().format_finite(value).as_bytes(), room),
        false => put_text(word_of(value.into()), room),
    }
}

/// A text of at most 24 bytes.
#[inline]
fn put_text(text: &[u8], room: &mut Room) -> usize {
    let place = room.get_mut(..text.len()).unwrap_or_default();
    match (text.first_chunk::<16>(), text.last_chunk::<8>()) {
        // Long ones in two pieces of fixed size that may overlap: no call for the sake of a few bytes.
        (Some(first), Some(last)) => {
            if let Some(place) = place.first_chunk_mut() {
                *place = *first;
            }
            if let Some(place) = place.last_chunk_mut() {
                *place = *last;
            }
        }
        _ => place.copy_from_slice(text),
    }
    text.len()
}

/// The bare word for a value that is not finite.
fn word_of(value: f64) -> &'static [u8] {
    match value {
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => b"NaN",
    }
}

/// The integer types, which share one reader.
trait Integer: Element + TryFrom<u64> + TryFrom<i64> + TryInto<i64> + TryInto<u64> {}

impl Integer for u8 {}
impl Integer for u16 {}
impl Integer for u32 {}
impl Integer for u64 {}
impl Integer for i8 {}
impl Integer for i16 {}
impl Integer for i32 {}
impl Integer for i64 {}

impl<T: Integer> Number for T {
    #[inline(always)]
    fn read(text: &[u8]) -> Result<(T, usize), Fault> {
        match text.first_chunk::<WINDOW>().and_then(window::integer) {
            Some((negative, magnitude, length)) => {
                Ok((in_range(negative, magnitude).ok_or(Fault::Range)?, length))
            }
            None => read_integer_carefully(text),
        }
    }

    #[inline(always)]
    fn put(self, room: &mut Room) -> usize {
        let signed: Result<i64, _> = self.try_into();
        match signed {
            Ok(signed) => shortest::put_integer(signed < 0, signed.unsigned_abs(), room),
            // Only what is above all signed numbers is none.
            Err(_) => shortest::put_integer(false, self.try_into().unwrap_or_default(), room),
        }
    }
}

#[inline(always)]
fn in_range<T: Integer>(negative: bool, magnitude: u64) -> Option<T> {
    match negative {
        false => T::try_from(magnitude).ok(),
        true => 0i64.checked_sub_unsigned(magnitude).and_then(|it| T::try_from(it).ok()),
    }
}

#[inline(never)]
fn read_integer_carefully<T: Integer>(text: &[u8]) -> Result<(T, usize), Fault> {
    let (negative, whole) = sign(text);
    let mut magnitude = 0;
    let rest = digits(whole, &mut magnitude);
    let count = whole.len() - rest.len();
    if count == 0 || (count > 1 && whole.first() == Some(&b'0')) {
        return Err(Fault::Syntax);
    }
    if let Some(b'.' | b'e' | b'E') = rest.first() {
        // Either a number with a fraction, or no number at all.
        return Err(scan(text).map_or(Fault::Syntax, |_| Fault::Fraction));
    }
    // Nineteen digits always fit; of longer ones the standard library finds out.
    if count > 19 {
        magnitude = text_of(whole, count)?.parse().map_err(|_| Fault::Range)?;
    }
    let value = in_range(negative, magnitude).ok_or(Fault::Range)?;
    Ok((value, text.len() - rest.len()))
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
