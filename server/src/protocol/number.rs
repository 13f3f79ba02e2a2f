//! Numbers as text, both ways: JSON's grammar in, the shortest text that reads back to the same value
//! out. Every element type is rounded from the decimal text directly, never by way of a wider type.

mod half;

use std::fmt;

use backend::{DataType, Element};

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

    /// Appends the shortest text that reads back to this value; for the values that are not finite, the
    /// bare words. A whole number of a float type ends in `.0`.
    fn write(self, out: &mut Vec<u8>);
}

/// A decimal number, `mantissa * 10^exponent`, as it stands in a text.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    negative: bool,
    /// All digits, modulo 2^64.
    mantissa: u64,
    /// Power of ten of the last digit; saturated.
    exponent: i32,
    /// Digits in `mantissa`, leading zeros included. Above 19 it may have wrapped.
    digits: usize,
    /// Bytes of the text.
    length: usize,
}

/// Appends the decimal digits at `rest` to `mantissa`; returns what follows them.
///
/// Eight bytes at a time, and the last few of them without a branch on how many there are: that number
/// differs from one value to the next, and a wrong guess costs more than the arithmetic.
#[inline(always)]
fn digits<'a>(mut rest: &'a [u8], mantissa: &mut u64) -> &'a [u8] {
    const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    while let Some((eight, after)) = rest.split_first_chunk::<8>() {
        // A digit becomes its value, anything else is 10 or more.
        let values = u64::from_le_bytes(*eight) ^ 0x3030_3030_3030_3030;
        let above_nine = (values & 0x7f7f_7f7f_7f7f_7f7f) + 0x7676_7676_7676_7676;
        let others = (above_nine | values) & 0x8080_8080_8080_8080;
        if others == 0 {
            *mantissa = mantissa.wrapping_mul(100_000_000).wrapping_add(eight_digits(values));
            rest = after;
            continue;
        }
        let count = (others.trailing_zeros() / 8) as usize & 7;
        // Zeros move in from the front, in two steps because a shift by 64 is none.
        let values = (values << 8) << (56 - 8 * count);
        *mantissa = mantissa.wrapping_mul(POWERS[count]).wrapping_add(eight_digits(values));
        return rest.get(count..).unwrap_or_default();
    }
    while let Some((&byte, after)) = rest.split_first() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        rest = after;
    }
    rest
}

/// The value of eight decimal digits, the first in the lowest byte.
#[inline(always)]
fn eight_digits(values: u64) -> u64 {
    // Pairs, then fours, then all eight: each step adds neighbours after multiplying the left one.
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    low.wrapping_add(high) >> 32
}

/// Is there a minus sign, and what follows it? Without a branch: signs are as good as random.
#[inline(always)]
fn sign(text: &[u8]) -> (bool, &[u8]) {
    let negative = text.first() == Some(&b'-');
    (negative, text.get(usize::from(negative)..).unwrap_or_default())
}

/// Reads a number by JSON's grammar. `None` when there is none.
#[inline(always)]
fn scan(text: &[u8]) -> Option<Decimal> {
    let (negative, whole) = sign(text);
    let mut mantissa = 0;
    // Most numbers have one digit before the point, which is guessed right more often than not.
    let mut rest = match whole {
        [digit @ b'0'..=b'9', rest @ ..] if rest.first() == Some(&b'.') => {
            mantissa = u64::from(digit - b'0');
            rest
        }
        _ => digits(whole, &mut mantissa),
    };
    let mut count = whole.len() - rest.len();
    // No digits, or a zero in front of others.
    if count == 0 || (count > 1 && whole.first() == Some(&b'0')) {
        return None;
    }
    let mut exponent = 0i64;
    if let Some((b'.', fraction)) = rest.split_first() {
        rest = digits(fraction, &mut mantissa);
        let places = fraction.len() - rest.len();
        if places == 0 {
            return None;
        }
        count += places;
        exponent = -i64::try_from(places).ok()?;
    }
    if let Some((b'e' | b'E', after)) = rest.split_first() {
        let power;
        (power, rest) = power_of_ten(after)?;
        exponent += power;
    }
    // Far from what any type holds, either way: the slow path sees the text itself.
    let exponent = i32::try_from(exponent).unwrap_or(i32::MAX);
    Some(Decimal { negative, mantissa, exponent, digits: count, length: text.len() - rest.len() })
}

/// The exponent whose `e` has been read, saturated, and what follows it.
#[inline(never)]
fn power_of_ten(text: &[u8]) -> Option<(i64, &[u8])> {
    let (below_one, text) = match text.split_first() {
        Some((b'-', after)) => (true, after),
        Some((b'+', after)) => (false, after),
        _ => (false, text),
    };
    let length = text.iter().take_while(|it| it.is_ascii_digit()).count();
    let (digits, after) = text.split_at_checked(length).filter(|_| length > 0)?;
    let add = |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(i64::from(u32::MAX));
    let power = digits.iter().fold(0, add);
    Some((if below_one { -power } else { power }, after))
}

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

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

impl Decimal {
    /// The magnitude with at most three roundings of half a unit each, for short exponents. Exact to the
    /// last bit when the mantissa is at most 2^53, for then there is one rounding.
    #[inline(always)]
    fn nearly(&self) -> Option<f64> {
        if self.digits > 19 {
            return None;
        }
        let power = *POWERS.get(usize::try_from(self.exponent.unsigned_abs()).ok()?)?;
        let mantissa = self.mantissa as f64;
        Some(if self.exponent < 0 { mantissa / power } else { mantissa * power })
    }
}

/// The text of a number that [`scan`] has passed, for the parser of the standard library.
fn text_of(text: &[u8], length: usize) -> Result<&str, Fault> {
    let text = text.get(..length).ok_or(Fault::Syntax)?;
    std::str::from_utf8(text).map_err(|_| Fault::Syntax)
}

impl Number for f32 {
    #[inline]
    fn read(text: &[u8]) -> Result<(f32, usize), Fault> {
        let Some(decimal) = scan(text) else {
            return word(text).map(|(value, length)| (value as f32, length)).ok_or(Fault::Syntax);
        };
        if let Some(value) = decimal.nearly() {
            // A double within two units of the decimal rounds to the same float, unless the middle between
            // two floats is as near. Subnormal floats have their middles elsewhere.
            let from_middle = (value.to_bits() & 0x1fff_ffff).abs_diff(0x1000_0000);
            if (from_middle > 4 && (1.2e-38..3.4e38).contains(&value)) || decimal.mantissa == 0 {
                let sign = u32::from(decimal.negative) << 31;
                let value = f32::from_bits((value as f32).to_bits() | sign);
                return Ok((value, decimal.length));
            }
        }
        read_slowly(text, decimal.length).map(|value| (value, decimal.length))
    }

    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        match self.is_finite() {
            true => out.extend_from_slice(zmij::Buffer::new().format_finite(self).as_bytes()),
            false => out.extend_from_slice(word_of(f64::from(self))),
        }
    }
}

impl Number for f64 {
    #[inline]
    fn read(text: &[u8]) -> Result<(f64, usize), Fault> {
        let Some(decimal) = scan(text) else {
            return word(text).ok_or(Fault::Syntax);
        };
        if let Some(value) = decimal.nearly().filter(|_| decimal.mantissa <= 1 << 53) {
            return Ok((if decimal.negative { -value } else { value }, decimal.length));
        }
        read_slowly(text, decimal.length).map(|value| (value, decimal.length))
    }

    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        match self.is_finite() {
            true => out.extend_from_slice(zmij::Buffer::new().format_finite(self).as_bytes()),
            false => out.extend_from_slice(word_of(self)),
        }
    }
}

/// The number of `length` bytes, by the standard library.
#[cold]
fn read_slowly<T: Into<f64> + Copy + std::str::FromStr>(
    text: &[u8],
    length: usize,
) -> Result<T, Fault> {
    let value: T = text_of(text, length)?.parse().map_err(|_| Fault::Syntax)?;
    if value.into().is_finite() { Ok(value) } else { Err(Fault::Range) }
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
trait Integer: Element + TryFrom<u64> + TryFrom<i64> + itoa::Integer {}

impl Integer for u8 {}
impl Integer for u16 {}
impl Integer for u32 {}
impl Integer for u64 {}
impl Integer for i8 {}
impl Integer for i16 {}
impl Integer for i32 {}
impl Integer for i64 {}

impl<T: Integer> Number for T {
    #[inline]
    fn read(text: &[u8]) -> Result<(T, usize), Fault> {
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
        let length = text.len() - rest.len();
        // Nineteen digits always fit; of longer ones the standard library finds out.
        if count > 19 {
            magnitude = text_of(whole, count)?.parse().map_err(|_| Fault::Range)?;
        }
        let value = match negative {
            false => T::try_from(magnitude).ok(),
            true => 0i64.checked_sub_unsigned(magnitude).and_then(|it| T::try_from(it).ok()),
        };
        value.map(|value| (value, length)).ok_or(Fault::Range)
    }

    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(itoa::Buffer::new().format(self).as_bytes());
    }
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
