//! Numbers as people read them: few digits, and separators between thousands.

use std::time::Duration;

/// A number of at most four digits that matter, as `12.35` and `0.0123`; from a thousand on a whole one, as `12,346`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if size >= 999.95 || value.fract() == 0.0 {
        return grouped(&format!("{value:.0}"));
    }
    // Zeros behind the point count as digits only after another one.
    let digits = (3.0 - size.log10().floor()).clamp(1.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "" | "-" | "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// A time in milliseconds, with its unit.
pub fn milliseconds(time: Duration) -> String {
    format!("{} ms", number(time.as_secs_f64() * 1e3))
}

/// The digits of a whole number with a comma after each third one from its end.
fn grouped(whole: &str) -> String {
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |it| ("-", it));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits_and_separators() {
        for (value, expected) in [
            (0.0, "0"),
            (7.0, "7"),
            (12.346, "12.35"),
            (0.012_345, "0.01235"),
            (5.5, "5.5"),
            (999.96, "1,000"),
            (999.0, "999"),
            (123.44, "123.4"),
            (1234.56, "1,235"),
            (12_345_678.0, "12,345,678"),
            (-1234.0, "-1,234"),
            (1e-12, "0"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(number(value), expected, "{value}");
        }
        assert_eq!(milliseconds(Duration::from_micros(8_404)), "8.404 ms");
    }
}
