//! FP16 and BF16 as text. Neither goes through a rounding to FP32 or FP64 on the way in.

use std::{cmp::Ordering, io::Write as _};

use half::{bf16, f16};

use super::{
    Fault, Number, Room,
    scan::{scan, text_of},
    word,
};

/// A float of 16 bits.
trait Half: Copy + PartialEq + Into<f32> {
    /// What the value after the largest would be, were the exponent not at its end.
    const OVERFLOW: f64;

    /// The nearest, ties to even.
    fn from_f32(value: f32) -> Self;
}

impl Half for f16 {
    const OVERFLOW: f64 = 65536.0;

    fn from_f32(value: f32) -> f16 {
        f16::from_f32(value)
    }
}

impl Half for bf16 {
    const OVERFLOW: f64 = (1u128 << 127) as f64 * 2.0;

    fn from_f32(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}

impl Number for f16 {
    const MISSING: Option<f16> = Some(f16::NAN);

    fn read(text: &[u8]) -> Result<(f16, usize), Fault> {
        read(text)
    }

    fn put(self, room: &mut Room) -> usize {
        put(self, room)
    }
}

impl Number for bf16 {
    const MISSING: Option<bf16> = Some(bf16::NAN);

    fn read(text: &[u8]) -> Result<(bf16, usize), Fault> {
        read(text)
    }

    fn put(self, room: &mut Room) -> usize {
        put(self, room)
    }
}

fn read<T: Half>(text: &[u8]) -> Result<(T, usize), Fault> {
    let Some(decimal) = scan(text) else {
        let (value, length) = word(text).ok_or(Fault::Syntax)?;
        return Ok((T::from_f32(value as f32), length));
    };
    let (double, _) = f64::read(text)?;
    let value = nearest::<T>(double, text, decimal.length)?;
    if value.into().is_finite() { Ok((value, decimal.length)) } else { Err(Fault::Range) }
}

/// The half that is nearest to the decimal, of which `double` is the nearest double.
fn nearest<T: Half>(double: f64, text: &[u8], length: usize) -> Result<T, Fault> {
    let (below, above) = (narrow::<T>(double.next_down()), narrow::<T>(double.next_up()));
    let middle = (widen(below) + widen(above)) / 2.0;
    if below == above || double != middle {
        return Ok(narrow(double));
    }
    // The double is the middle between two halves, and the decimal may lie on either side of it.
    let order = compare(text_of(text, length)?, double);
    Ok(match order {
        Ordering::Less => below,
        Ordering::Equal => narrow(double),
        Ordering::Greater => above,
    })
}

/// The nearest half, ties to even.
fn narrow<T: Half>(double: f64) -> T {
    let nearest = double as f32;
    let inexact = f64::from(nearest) != double && nearest.is_finite();
    // Rounding to odd on the way: an inexact float never looks like a middle between two halves.
    let odd = if inexact && nearest.to_bits() & 1 == 0 {
        if f64::from(nearest) < double { nearest.next_up() } else { nearest.next_down() }
    } else {
        nearest
    };
    T::from_f32(odd)
}

fn widen<T: Half>(value: T) -> f64 {
    let value: f32 = value.into();
    match value {
        f32::INFINITY => T::OVERFLOW,
        f32::NEG_INFINITY => -T::OVERFLOW,
        finite => f64::from(finite),
    }
}

/// How the decimal in `text` compares with `double`, exactly. Both have the same sign and are not zero.
fn compare(text: &str, double: f64) -> Ordering {
    // No middle between two halves has more significant digits.
    const DIGITS: usize = 160;
    let order = normal(text).cmp(&normal(&format!("{double:.DIGITS$e}")));
    if double < 0.0 { order.reverse() } else { order }
}

/// Power of ten of the first significant digit, and the significant digits without trailing zeros.
fn normal(text: &str) -> (i64, String) {
    let text = text.trim_start_matches('-');
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let zeros = digits.len() - significant.len();
    // The double nearest to the text is finite and not zero, so the power is small.
    let power: i64 = power.parse().unwrap_or(0);
    let length = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
    let first = power + length(whole.len()) - length(zeros);
    (first, significant.trim_end_matches('0').to_owned())
}

/// Enough digits to distinguish any two halves, but for the first.
const MOST_DIGITS: usize = 5;

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Up to that power the product with a half is exact, too.
const EXACT: usize = 18;

fn put<T: Half>(value: T, room: &mut Room) -> usize {
    let wide: f32 = value.into();
    if wide == 0.0 || !wide.is_finite() {
        return wide.put(room);
    }
    // A float of so few digits is written with the same digits.
    shortest(value, wide).unwrap_or_else(|| shortest_of_any(value, wide)).put(room)
}

/// The float with the fewest digits that is nearest to this half, by exact sums of doubles; `None` where these are not
/// exact, as they are for anything but very small and very large numbers.
fn shortest<T: Half>(value: T, wide: f32) -> Option<f32> {
    let exact = f64::from(wide).abs();
    let first = first_power(exact)?;
    let candidate = |digits: usize| {
        let digits = i32::try_from(digits).ok()?;
        let double = match usize::try_from(digits - first) {
            Ok(up) if up <= EXACT => {
                let power = POWERS.get(up)?;
                (exact * power).round_ties_even() / power
            }
            Ok(_) => return None,
            Err(_) => {
                let power = POWERS.get(usize::try_from(first - digits).ok()?)?;
                (exact / power).round_ties_even() * power
            }
        };
        Some((double as f32).copysign(wide))
    };
    for digits in 0..MOST_DIGITS {
        let candidate = candidate(digits)?;
        if T::from_f32(candidate) == value {
            return Some(candidate);
        }
    }
    Some(wide)
}

/// The power of ten of the first digit, where it is small or large by no more than [`POWERS`].
fn first_power(value: f64) -> Option<i32> {
    if 1.0 <= value {
        let above = POWERS.iter().position(|it| value < *it)?;
        return i32::try_from(above).ok().map(|it| it - 1);
    }
    // The product is exact up to there, and so the comparison is.
    let below = POWERS.iter().take(EXACT + 1).position(|it| 1.0 <= value * it)?;
    i32::try_from(below).ok().map(|it| -it)
}

/// The same for any number, by way of its text.
fn shortest_of_any<T: Half>(value: T, wide: f32) -> f32 {
    for digits in 0..MOST_DIGITS {
        let mut text = [0u8; 32];
        let mut rest = text.as_mut_slice();
        // It fits: sign, digits, point and exponent are at most 12 bytes.
        let _ = write!(rest, "{wide:.digits$e}");
        let length = 32 - rest.len();
        let candidate = text.get(..length).and_then(|it| f32::read(it).ok());
        if let Some((candidate, _)) = candidate.filter(|(it, _)| T::from_f32(*it) == value) {
            return candidate;
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<T: Number>(value: T) -> String {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_half_survives_the_text() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits);
            let (back, _) = f16::read(text(value).as_bytes()).unwrap();
            assert!(back.to_bits() == bits || (back.is_nan() && value.is_nan()), "{value}");
            let value = bf16::from_bits(bits);
            let (back, _) = bf16::read(text(value).as_bytes()).unwrap();
            assert!(back.to_bits() == bits || (back.is_nan() && value.is_nan()), "{value}");
        }
    }

    #[test]
    fn the_digits_of_every_half_are_the_same_by_sums_and_by_text() {
        fn check<T: Half + std::fmt::Debug>(value: T) -> bool {
            let wide: f32 = value.into();
            if wide == 0.0 || !wide.is_finite() {
                return true;
            }
            let by_sums = shortest(value, wide);
            let by_text = shortest_of_any(value, wide);
            assert!(by_sums.is_none_or(|it| it == by_text), "{value:?} {by_sums:?} {by_text}");
            by_sums.is_some()
        }
        for bits in 0..=u16::MAX {
            assert!(check(f16::from_bits(bits)), "of FP16 all sums are exact");
            check(bf16::from_bits(bits));
        }
        assert!(check(bf16::from_f32(1e-9)) && check(bf16::from_f32(3e5)));
    }

    #[test]
    fn the_text_is_short() {
        let halves = [0.1, 1.0, -0.0, 65504.0, 6e-8, 0.333].map(|it| text(f16::from_f32(it)));
        assert_eq!(halves, ["0.1", "1.0", "-0.0", "65500.0", "6e-8", "0.333"]);
        assert_eq!(text(bf16::from_f32(0.1)), "0.1");
        assert_eq!(text(f16::NEG_INFINITY), "-Infinity");
    }

    /// The middle between two neighbours, a little less, and a little more.
    fn check_middles<T: Half + Number + std::fmt::Debug>(from_bits: fn(u16) -> T, last: u16) {
        // An odd stride meets even and odd ones alike.
        for bits in (0..last).step_by(17).chain([last - 1]) {
            let (low, high) = (from_bits(bits), from_bits(bits + 1));
            let middle = (widen(low) + widen(high)) / 2.0;
            let even = if bits % 2 == 0 { low } else { high };
            let exact = format!("{middle:.160e}");
            let (digits, power) = exact.split_once('e').unwrap();
            for (text, expected) in [
                (format!("{digits}e{power}"), even),
                (format!("{digits}1e{power}"), high),
                (format!("{}e{power}", before(digits)), low),
            ] {
                let read = read::<T>(text.as_bytes()).map(|it| it.0);
                let finite = Into::<f32>::into(expected).is_finite();
                assert_eq!(read, if finite { Ok(expected) } else { Err(Fault::Range) }, "{text}");
            }
        }
    }

    /// A decimal that is a little less: its last digit that is not zero goes down by one, nines follow.
    fn before(digits: &str) -> String {
        let last = digits.rfind(|it| ('1'..='9').contains(&it)).unwrap();
        let digit = digits.as_bytes()[last] - 1;
        let tail = digits[last + 1..].replace('0', "9");
        format!("{}{}{tail}9", &digits[..last], char::from(digit))
    }

    #[test]
    fn a_middle_goes_to_even_and_its_neighbours_to_their_side() {
        check_middles(f16::from_bits, f16::MAX.to_bits() + 1);
        check_middles(bf16::from_bits, bf16::MAX.to_bits() + 1);
    }
}
