//! What JSON and UBJSON have in common: values that are read one behind the other, without a tree of them in memory.

use crate::error::FormatError;

/// Bytes that hold nested values, and a place in them. Each method reads the next value.
pub(super) trait Source {
    /// An object: each key, and its value, which `visit` reads or skips.
    fn object(
        &mut self,
        visit: impl FnMut(&mut Self, &str) -> Result<(), FormatError>,
    ) -> Result<(), FormatError>;

    /// An array: each element, which `visit` reads or skips.
    fn array(
        &mut self,
        visit: impl FnMut(&mut Self) -> Result<(), FormatError>,
    ) -> Result<(), FormatError>;

    /// An array of numbers.
    fn numbers<N: Number>(&mut self) -> Result<Vec<N>, FormatError>;

    /// A string, or a number as text.
    fn text(&mut self) -> Result<String, FormatError>;

    /// Any value, which is not kept.
    fn skip(&mut self) -> Result<(), FormatError>;

    /// What is wrong at this place.
    fn problem(&self, problem: String) -> FormatError;
}

/// A type of numbers in arrays.
pub(super) trait Number: Sized {
    /// What an element of the wrong type is not.
    const WHAT: &'static str;

    /// From an integer, unless it is too large.
    fn of_integer(number: i64) -> Option<Self>;

    /// From a number with a fraction.
    fn of_float(number: f64) -> Option<Self>;

    /// From the text of a number in JSON.
    fn of_text(text: &str) -> Option<Self>;
}

impl Number for i32 {
    const WHAT: &'static str = "an integer of 32 bits";

    fn of_integer(number: i64) -> Option<i32> {
        number.try_into().ok()
    }

    fn of_float(_: f64) -> Option<i32> {
        None
    }

    fn of_text(text: &str) -> Option<i32> {
        text.parse().ok()
    }
}

impl Number for u32 {
    const WHAT: &'static str = "a positive integer of 32 bits";

    fn of_integer(number: i64) -> Option<u32> {
        number.try_into().ok()
    }

    fn of_float(_: f64) -> Option<u32> {
        None
    }

    fn of_text(text: &str) -> Option<u32> {
        text.parse().ok()
    }
}

/// 0 or 1, in JSON of some versions `true` or `false`.
impl Number for bool {
    const WHAT: &'static str = "0 or 1";

    fn of_integer(number: i64) -> Option<bool> {
        Some(number != 0)
    }

    fn of_float(_: f64) -> Option<bool> {
        None
    }

    fn of_text(text: &str) -> Option<bool> {
        match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => text.parse().ok().map(|it: i64| it != 0),
        }
    }
}

impl Number for f32 {
    const WHAT: &'static str = "a number";

    fn of_integer(number: i64) -> Option<f32> {
        Some(number as f32)
    }

    fn of_float(number: f64) -> Option<f32> {
        Some(number as f32)
    }

    fn of_text(text: &str) -> Option<f32> {
        match text {
            "NaN" => Some(f32::NAN),
            "Infinity" => Some(f32::INFINITY),
            "-Infinity" => Some(f32::NEG_INFINITY),
            _ => text.parse().ok(),
        }
    }
}

/// Rounded to 32 bits, as XGBoost does.
impl Number for f64 {
    const WHAT: &'static str = "a number";

    fn of_integer(number: i64) -> Option<f64> {
        f32::of_integer(number).map(f64::from)
    }

    fn of_float(number: f64) -> Option<f64> {
        f32::of_float(number).map(f64::from)
    }

    fn of_text(text: &str) -> Option<f64> {
        f32::of_text(text).map(f64::from)
    }
}
