//! Integers as text.

use backend::Element;

use super::{
    Fault, Number, Room,
    digits::{TENS, ZEROS, split},
    scan::{digits, scan, sign, text_of},
    window,
};

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
        match window::at(text, window::integer) {
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
            Ok(signed) => put_integer(signed < 0, signed.unsigned_abs(), room),
            // Only what is above all signed numbers is none.
            Err(_) => put_integer(false, self.try_into().unwrap_or_default(), room),
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

/// Writes an integer, and says how many bytes it took.
#[inline(always)]
fn put_integer(negative: bool, magnitude: u64, room: &mut Room) -> usize {
    room[0] = b'-';
    let start = usize::from(negative);
    if magnitude < TENS[8] {
        return put_front(magnitude, start, room);
    }
    let (upper, last) = (magnitude / TENS[8], magnitude % TENS[8]);
    let mut end = start;
    if upper < TENS[8] {
        end = put_front(upper, end, room);
    } else {
        end = put_front(upper / TENS[8], end, room);
        end = put_eight(upper % TENS[8], end, room);
    }
    put_eight(last, end, room)
}

/// A number below 10^8, without leading zeros.
#[inline(always)]
fn put_front(number: u64, start: usize, room: &mut Room) -> usize {
    let digits = split(number);
    // The last digit is kept.
    let zeros = (digits | 1 << 56).trailing_zeros() / 8;
    let text = (digits | ZEROS) >> (8 * zeros);
    room[start..start + 8].copy_from_slice(&text.to_le_bytes());
    start + 8 - zeros as usize
}

/// Eight digits.
#[inline(always)]
fn put_eight(number: u64, start: usize, room: &mut Room) -> usize {
    let start = start & 15;
    room[start..start + 8].copy_from_slice(&(split(number) | ZEROS).to_le_bytes());
    start + 8
}
