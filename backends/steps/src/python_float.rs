//! Numbers in JSON as Python writes them: the shortest digits of a double, with an exponent below 1e-4 and from 1e16
//! on. Replies of the reference are compared byte by byte.

use std::{fmt::Write, ops::Range};

/// Numbers that have no exponent, but for zero.
const PLAIN: Range<f64> = 1e-4..1e16;

/// Appends a number, which is finite.
pub(crate) fn write(out: &mut String, value: f64) {
    if PLAIN.contains(&value.abs()) || value == 0.0 {
        out.push_str(zmij::Buffer::new().format_finite(value));
        return;
    }
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    // Writing to a string cannot fail.
    let _ = write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: f64) -> String {
        let mut out = String::new();
        write(&mut out, value);
        out
    }

    #[test]
    fn numbers_are_those_of_json_dumps() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (f64::from(0.1f32), "0.10000000149011612"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (1e-300, "1e-300"),
            (123_456_789.125, "123456789.125"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-1.5e22, "-1.5e+22"),
        ];
        for (value, expected) in cases {
            assert_eq!(written(value), expected);
        }
    }

    #[test]
    fn numbers_without_an_exponent_read_back_and_are_as_short_as_can_be() {
        let mut state = 1u32;
        for _ in 0..100_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f64::from(f32::from_bits(state));
            if value.is_finite() && (PLAIN.contains(&value.abs()) || value == 0.0) {
                let text = written(value);
                assert_eq!(text.parse(), Ok(value));
                assert_eq!(text.len(), format!("{value:?}").len());
            }
        }
        for value in [PLAIN.start, 1e16_f64.next_down(), 0.1, 123_456_789.0, 4.0 / 3.0] {
            assert_eq!(written(-value), format!("{:?}", -value));
        }
    }

    #[test]
    fn of_two_texts_that_are_equally_near_the_even_one_is_written() {
        assert_eq!(written(197.963_409_423_828_13), "197.96340942382812");
    }
}
