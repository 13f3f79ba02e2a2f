//! Numbers by JSON's grammar, from texts of any length. The slow way: [`super::window`] comes first.

use super::{
    Fault,
    digits::{TENS, ZEROS, join, others},
};

/// A decimal number, `mantissa * 10^exponent`, as it stands in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal {
    pub negative: bool,
    /// All digits, modulo 2^64.
    pub mantissa: u64,
    /// Power of ten of the last digit; saturated.
    pub exponent: i32,
    /// `mantissa` has not wrapped.
    pub exact: bool,
    /// Bytes of the text.
    pub length: usize,
}

/// Appends the decimal digits at `rest` to `mantissa`; returns what follows them.
pub(super) fn digits<'a>(mut rest: &'a [u8], mantissa: &mut u64) -> &'a [u8] {
    while let Some((eight, after)) = rest.split_first_chunk::<8>() {
        let values = u64::from_le_bytes(*eight) ^ ZEROS;
        if others(values) != 0 {
            break;
        }
        *mantissa = mantissa.wrapping_mul(TENS[8]).wrapping_add(join(values));
        rest = after;
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

/// Is there a minus sign, and what follows it?
pub(super) fn sign(text: &[u8]) -> (bool, &[u8]) {
    let negative = text.first() == Some(&b'-');
    (negative, text.get(usize::from(negative)..).unwrap_or_default())
}

/// Reads a number by JSON's grammar. `None` when there is none.
pub(super) fn scan(text: &[u8]) -> Option<Decimal> {
    let (negative, whole) = sign(text);
    let mut mantissa = 0;
    let mut rest = digits(whole, &mut mantissa);
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
    let length = text.len() - rest.len();
    // Nineteen digits always fit a word, and zeros in front of them do no harm.
    let zeros = whole.iter().filter(|&&it| it != b'.').take_while(|&&it| it == b'0').count();
    Some(Decimal { negative, mantissa, exponent, exact: count <= zeros + 19, length })
}

/// The exponent whose `e` has been read, saturated, and what follows it.
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

/// The text of a number that [`scan`] has passed, for the parser of the standard library.
pub(super) fn text_of(text: &[u8], length: usize) -> Result<&str, Fault> {
    let text = text.get(..length).ok_or(Fault::Syntax)?;
    std::str::from_utf8(text).map_err(|_| Fault::Syntax)
}
