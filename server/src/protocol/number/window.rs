//! Numbers as they mostly are, read from a window of bytes that is known to be there: no loop, and no branch on
//! how many digits a number has, for that differs from one to the next and a wrong guess costs more than the
//! arithmetic. What is longer, stranger or wrong is left to [`super::scan`].

use super::{
    digits::{TENS, ZEROS, join, join_first, others},
    scan::Decimal,
};

/// Bytes that must be there, whether the number needs them or not.
pub(super) const WINDOW: usize = 40;

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

/// The number at the beginning of the window, if it is plain enough: at most 7 digits before the point, and an
/// exponent of at most two digits. Its mantissa is below 10^18 and has all digits of the text.
#[inline(always)]
pub(super) fn decimal(window: &[u8; WINDOW]) -> Option<Decimal> {
    const POINT: u64 = (b'.' ^ b'0') as u64;
    let negative = window[0] == b'-';
    let start = usize::from(negative);
    let lead = load(window, start);
    // Most numbers have one digit before the point, which is guessed right more often than not.
    let (mut mantissa, mut end) = if lead & 0xff00 == POINT << 8 {
        if lead & 0xff > 9 {
            return None;
        }
        (lead & 0xff, start + 1)
    } else {
        let count = others(lead).trailing_zeros() / 8;
        // A zero in front of others is for the slow way to refuse.
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
