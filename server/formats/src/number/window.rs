//! Numbers as they mostly are, read from a window of bytes that is known to be there: no loop, and no branch on
//! how many digits a number has, for that differs from one to the next and a wrong guess costs more than the
//! arithmetic. What is longer, stranger or wrong is left to [`super::scan`].

use super::{
    digits::{TENS, ZEROS, join, join_first, others},
    scan::Decimal,
};

/// Bytes that must be there, whether the number needs them or not.
pub(super) const WINDOW: usize = 40;

/// Calls `read` with the window at the beginning of `text`. At the end of a body a copy is made, for the last few
/// numbers: zeros behind it end a number as the end of the text does.
#[inline(always)]
pub(super) fn at<T>(text: &[u8], read: fn(&[u8; WINDOW]) -> Option<T>) -> Option<T> {
    match text.first_chunk() {
        Some(window) => read(window),
        None => at_end(text, read),
    }
}

#[inline(never)]
fn at_end<T>(text: &[u8], read: fn(&[u8; WINDOW]) -> Option<T>) -> Option<T> {
    let mut window = [0; WINDOW];
    window.get_mut(..text.len())?.copy_from_slice(text);
    read(&window)
}

/// What `before` must be below for so many digits to make no more than 10^18 with it.
const LIMITS: [u64; 16] = {
    let mut limits = [0; 16];
    let mut count = 0;
    while count < 16 {
        limits[count] = TENS[18 - count];
        count += 1;
    }
    limits
};

/// Where a run of digits ends, and the number that they make behind the digits before them.
struct Run {
    end: usize,
    value: u64,
}

/// Eight bytes, with digits as 0 to 9 and anything else as 10 or more.
#[inline(always)]
fn load(window: &[u8; WINDOW], at: usize) -> u64 {
    let mut bytes = [0; 8];
    // `at` is masked by the callers so that the compiler sees it inside the window.
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes) ^ ZEROS
}

/// The digits at `at`, which is below 16; `before` is what stands in front of them. `None` for more than 23
/// of them, and where the number might reach 10^18.
#[inline(always)]
fn run(window: &[u8; WINDOW], at: usize, before: u64) -> Option<Run> {
    let at = at & 15;
    let (low, high) = (load(window, at), load(window, at + 8));
    let (in_low, in_high) = (others(low), others(high));
    if in_low | in_high == 0 {
        if before > 99 {
            return None;
        }
        let value = (before * TENS[8] + join(low)) * TENS[8] + join(high);
        let rest = load(window, at + 16);
        let count = others(rest).trailing_zeros() / 8;
        if count == 8 || value >= TENS[18 - (count & 7) as usize] {
            return None;
        }
        let value = value * TENS[(count & 7) as usize] + join_first(rest, count);
        return Some(Run { end: at + 16 + count as usize, value });
    }
    // How many of the first eight bytes, and of the next.
    let ends = in_low != 0;
    let first = std::hint::select_unpredictable(ends, in_low.trailing_zeros(), 64) / 8;
    let second = std::hint::select_unpredictable(ends, 0, in_high.trailing_zeros()) / 8;
    let count = (first + second) as usize;
    if before >= LIMITS[count & 15] {
        return None;
    }
    let value = before * TENS[(first & 15) as usize] + join_first(low, first);
    let value = value * TENS[(second & 7) as usize] + join_first(high, second);
    Some(Run { end: at + count, value })
}

/// Digits with at most one point among them, as they stand in a text.
struct Plain {
    mantissa: u64,
    exponent: i32,
    end: usize,
}

/// Digits and point all within the eight bytes of `lead`, which begin at `start`. `ends` marks what is no digit,
/// twice at least.
#[inline(always)]
fn short(lead: u64, ends: u64, start: usize) -> Option<Plain> {
    let first = ends.trailing_zeros() / 8;
    // A zero in front of others is for the slow way to refuse.
    if first == 0 || (first > 1 && lead & 0xff == 0) {
        return None;
    }
    let before = (1 << (8 * first)) - 1;
    if (lead ^ POINT) >> (8 * first) & 0xff != 0 {
        return Some(Plain {
            mantissa: join_first(lead, first),
            exponent: 0,
            end: start + first as usize,
        });
    }
    let second = (ends & (ends - 1)).trailing_zeros() / 8;
    let places = second as i32 - first as i32 - 1;
    let digits = (lead & before) | (lead >> 8 & !before);
    (places > 0).then(|| Plain {
        mantissa: join_first(digits, second - 1),
        exponent: -places,
        end: start + second as usize,
    })
}

/// Up to seven digits in `lead`, and as many behind the point as [`run`] takes.
#[inline(always)]
fn long(window: &[u8; WINDOW], lead: u64, ends: u64, start: usize) -> Option<Plain> {
    // Most have one digit before the point, which is guessed right more often than not.
    let (mut mantissa, mut end) = if (lead ^ POINT) & 0xff00 == 0 && lead & 0xff <= 9 {
        (lead & 0xff, start + 1)
    } else {
        let count = ends.trailing_zeros() / 8;
        if count == 0 || count == 8 || (count > 1 && lead & 0xff == 0) {
            return None;
        }
        (join_first(lead, count), start + count as usize)
    };
    let mut exponent = 0;
    if window[end & 15] == b'.' {
        let fraction = (end + 1) & 15;
        let run = run(window, fraction, mantissa)?;
        if run.end == fraction {
            return None;
        }
        exponent = fraction as i32 - run.end as i32;
        (mantissa, end) = (run.value, run.end);
    }
    Some(Plain { mantissa, exponent, end })
}

/// A point in each byte, as [`load`] gives it.
const POINT: u64 = 0x2e2e_2e2e_2e2e_2e2e ^ ZEROS;

/// The number at the beginning of the window, if it is plain enough: at most 7 digits before the point, and an
/// exponent of at most two digits. Its mantissa is below 10^18 and has all digits of the text.
#[inline(always)]
pub(super) fn decimal(window: &[u8; WINDOW]) -> Option<Decimal> {
    let negative = window[0] == b'-';
    let start = usize::from(negative);
    let lead = load(window, start);
    let ends = others(lead);
    let Plain { mantissa, mut exponent, mut end } = match ends & ends.wrapping_sub(1) {
        0 => long(window, lead, ends, start)?,
        _ => short(lead, ends, start)?,
    };
    if let Some(b'e' | b'E') = window.get(end) {
        let (power, after) = power_of_ten(window, end + 1)?;
        exponent += power;
        end = after;
    }
    Some(Decimal { negative, mantissa, exponent, exact: true, length: end })
}

/// An exponent of one or two digits, and where it ends.
#[inline(always)]
fn power_of_ten(window: &[u8; WINDOW], at: usize) -> Option<(i32, usize)> {
    let sign = *window.get(at)?;
    let at = at + usize::from(matches!(sign, b'-' | b'+'));
    let [first, second, third] = *window.get(at..)?.first_chunk::<3>()?;
    let digit = |byte: u8| byte.wrapping_sub(b'0');
    let two = digit(second) <= 9;
    if digit(first) > 9 || (two && digit(third) <= 9) {
        return None;
    }
    let power = i32::from(digit(first));
    let power = if two { 10 * power + i32::from(digit(second)) } else { power };
    Some((if sign == b'-' { -power } else { power }, at + 1 + usize::from(two)))
}

/// The integer at the beginning of the window, if it is below 10^18 and ends in the window: sign, magnitude
/// and length. That neither a fraction nor an exponent follows has been seen.
#[inline(always)]
pub(super) fn integer(window: &[u8; WINDOW]) -> Option<(bool, u64, usize)> {
    let negative = window[0] == b'-';
    let start = usize::from(negative);
    let Run { end, value } = run(window, start, 0)?;
    let zero_in_front = end > start + 1 && window[start] == b'0';
    let follows = window[end & 31];
    if end == start || zero_in_front || matches!(follows, b'.' | b'e' | b'E') {
        return None;
    }
    Some((negative, value, end))
}
