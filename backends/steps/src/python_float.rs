//! Numbers in JSON as Python writes them: the shortest digits of a double, with an exponent below 1e-4 and from 1e16
//! on. Replies of the reference are compared byte by byte.

use std::fmt::Write;

/// Appends a number, which is finite.
pub(crate) fn write(out: &mut String, value: f64) {
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    // Writing to a string cannot fail.
    if (-4..16).contains(&exponent) {
        let _ = write!(out, "{value:?}");
        return;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut out = String::new();
            write(&mut out, value);
            assert_eq!(out, expected);
        }
    }
}
