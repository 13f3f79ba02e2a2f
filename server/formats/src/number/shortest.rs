//! The shortest text that reads back as the same FP32.
//!
//! A float is the number `c * 2^q` with c of 24 bits, and every decimal that is nearer to it than half a unit of c
//! reads back as it. With `10^p` the greatest power of ten that is not above `2^q`, one of these is a multiple of
//! `10^p`, and at most one a multiple of `10^(p+1)`; the shortest text is the latter where there is one, else the
//! nearest of the former (Giulietti, "The Schubfach way to render doubles", 2021). Here `c * 2^q / 10^p` is taken
//! with 36 binary places from a table of `2^q / 10^p`, which leaves the result open by a few of the last places.
//! Where that could matter [`put`] gives up and another way is taken: for subnormal numbers, and for one float of a
//! hundred beside them, which are exactly on a boundary. Most of those are between 10^5 and 10^8.

use super::{Room, digits::split_nine};

/// Binary places behind the point.
const PLACES: u32 = 36;
const ONE: u64 = 1 << PLACES;

/// More of the last places than any sum here is wrong by. With u the rounded unit of a scale, `c * u` is too small
/// by less than two of them, half a unit by less than one.
const DOUBT: u64 = 4;

/// What one step of c is worth, for one binary exponent.
#[derive(Clone, Copy)]
struct Scale {
    /// `2^q / 10^power`, with 24 more binary places than [`PLACES`], rounded down.
    unit: u64,
    power: i32,
}

/// By the eight bits of the exponent. Zero comes out of the first as zero; it, subnormal numbers and what is not
/// finite are always in doubt.
const SCALES: &[Scale; 256] = &{
    let mut scales = [Scale { unit: 0, power: -6 }; 256];
    let mut bits = 1;
    while bits < 255 {
        scales[bits] = scale(bits as i32 - 150);
        bits += 1;
    }
    scales
};

const fn scale(q: i32) -> Scale {
    // The logarithm of 2, with 22 binary places.
    let power = (q * 1_262_611) >> 22;
    let mut fives = 1u128;
    let mut count = 0;
    while count < power.unsigned_abs() {
        fives *= 5;
        count += 1;
    }
    let twos = q + PLACES as i32 + 24 - power;
    let unit = match power <= 0 {
        true if twos >= 0 => fives << twos,
        true => fives >> -twos,
        false => quotient(twos, fives),
    };
    Scale { unit: unit as u64, power }
}

/// `2^twos / divisor`, rounded down, by long division: the dividend may have more than 128 bits.
const fn quotient(twos: i32, divisor: u128) -> u128 {
    let (mut rest, mut quotient) = (1, 0);
    let mut bit = 0;
    while bit < twos {
        rest <<= 1;
        quotient <<= 1;
        if rest >= divisor {
            rest -= divisor;
            quotient |= 1;
        }
        bit += 1;
    }
    quotient
}

/// A decimal: nine digits and the place of the point, counted from in front of the first.
struct Digits {
    first: u64,
    /// Eight digits as bytes, the next one in the lowest.
    others: u64,
    point: i32,
}

/// The shortest decimal of a float that is not negative; `None` where it is in doubt.
#[inline(always)]
fn shortest(bits: u32) -> Option<Digits> {
    let fraction = bits & 0x7f_ffff;
    let Scale { unit, power } = SCALES[(bits >> 23 & 0xff) as usize];
    let c = u64::from(fraction | 1 << 23);
    let value = ((u128::from(unit) * u128::from(c << 40)) >> 64) as u64;
    // Below a power of two the floats are twice as dense.
    let lopsided = fraction == 0;
    let half = (unit >> 25) >> u32::from(lopsided);
    let whole = (value >> PLACES) as u32;
    let tens = whole / 10;
    let below = value - u64::from(10 * tens) * ONE;
    let above = 10 * ONE - below;
    let distance = below.min(above);
    let short = distance < half;
    let near = |left: u64, right: u64| left.wrapping_sub(right).wrapping_add(DOUBT) <= 2 * DOUBT;
    let doubt = near(distance, half) | near(value & (ONE - 1), ONE / 2) | (lopsided & !short);
    if doubt & (bits != 0) {
        return None;
    }
    let rounded = whole + (value >> (PLACES - 1) & 1) as u32;
    let rounded =
        std::hint::select_unpredictable(short, 10 * (tens + u32::from(above < below)), rounded);
    // A whole of seven, eight or nine digits.
    let (scale, digits) = match whole {
        100_000_000.. => (1, 9),
        10_000_000.. => (10, 8),
        _ => (100, 7),
    };
    let (first, others) = split_nine(rounded * scale);
    // It may have become one digit longer.
    (first <= 9).then_some(Digits { first, others, point: power + digits })
}

/// Where the digits of a number that is written without an exponent stand, by the place of its point.
#[derive(Clone, Copy)]
struct Layout {
    /// The bytes of the digits in front of the point.
    whole: u128,
    /// What turns digits into text, the point included.
    text: u128,
    /// Bytes in front of the digits: `0.00`.
    front: usize,
    /// Bytes of the point behind the first digit.
    point: usize,
    /// Least bytes: a whole number has a digit behind the point.
    least: usize,
}

/// Places of the point that need no exponent, `0.000001` to `1234567890123.0`.
const POINTS: std::ops::Range<i32> = -5..14;

const LAYOUTS: &[Layout; 19] = &{
    let text = u128::from_le_bytes([b'0'; 16]);
    let mut layouts = [Layout { whole: u128::MAX, text, front: 0, point: 0, least: 0 }; 19];
    let mut index = 0;
    while index < 19 {
        let point = index as i32 + POINTS.start;
        let layout = &mut layouts[index];
        if point < 1 {
            layout.front = (2 - point) as usize;
        } else {
            layout.whole = (1 << (8 * point)) - 1;
            layout.text ^= ((b'0' ^ b'.') as u128) << (8 * point);
            layout.point = 1;
            layout.least = point as usize + 2;
        }
        index += 1;
    }
    layouts
};

/// Writes a float, and says how many bytes it took; `None` where its text must be found in another way.
#[inline(always)]
pub(super) fn put(value: f32, room: &mut Room) -> Option<usize> {
    let negative = usize::from(value.is_sign_negative());
    let digits = shortest(value.to_bits() & 0x7fff_ffff)?;
    // Nine digits without the zeros at the end, of which the first is kept.
    let count = ((digits.others << 4 | 1).ilog2() + 12) as usize / 8;
    let bytes = u128::from(digits.others) << 8 | u128::from(digits.first);
    room[0] = b'-';
    let index = usize::try_from(digits.point - POINTS.start).unwrap_or(usize::MAX);
    let Some(layout) = LAYOUTS.get(index) else {
        return Some(put_exponent(bytes, count, digits.point - 1, negative, room));
    };
    let whole = bytes & layout.whole;
    let text = (whole | (bytes ^ whole) << 8) ^ layout.text;
    // Where there is no front, the text covers it.
    room[negative..negative + 8].copy_from_slice(b"0.000000");
    let start = negative + (layout.front & 7);
    room[start..start + 16].copy_from_slice(&text.to_le_bytes());
    Some(start + (count + layout.point).max(layout.least))
}

/// One digit, the others behind a point if there are any, and the power of ten with its sign.
#[inline(always)]
fn put_exponent(bytes: u128, count: usize, power: i32, negative: usize, room: &mut Room) -> usize {
    let first = bytes & 0xff;
    let text = (first | (bytes ^ first) << 8) ^ LAYOUTS[(1 - POINTS.start) as usize].text;
    room[negative..negative + 16].copy_from_slice(&text.to_le_bytes());
    let end = negative + (count + usize::from(count > 1)).min(16);
    let sign = if power < 0 { b'-' } else { b'+' };
    let (two, power) = (power.unsigned_abs() > 9, power.unsigned_abs() as u8);
    let digits = if two { [b'0' + power / 10, b'0' + power % 10] } else { [b'0' + power, 0] };
    room[end..end + 4].copy_from_slice(&[b'e', sign, digits[0], digits[1]]);
    end + 3 + usize::from(two)
}
