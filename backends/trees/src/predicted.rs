//! Numbers that sums and predictions are: of 32 bits or of 64, with the transforms of that precision. Pure.

use crate::forest::{document::Transform, sum::Sum};

/// A row of sums in one precision, and the transform of that precision.
pub(crate) trait Predicted:
    Sum + Default + backend::Element + PartialOrd + Into<f64> + Send
{
    /// Predictions of the sums, in place. The first [`Forest::width`] are those.
    fn transform(transform: Transform, row: &mut [Self]);

    /// 1 - it.
    fn complement(self) -> Self;

    /// A class.
    fn number(class: usize) -> Self;

    /// Is it above the threshold?
    fn is_above(self, threshold: f32) -> bool;

    /// Rounded to 32 bits.
    fn to_single(self) -> f32;
}

impl Predicted for f32 {
    fn transform(transform: Transform, row: &mut [f32]) {
        match transform {
            Transform::Single(transform) => transform.apply(row),
            Transform::Double(_) => unreachable!("its sums have 64 bits"),
        }
    }

    fn complement(self) -> f32 {
        1.0 - self
    }

    fn number(class: usize) -> f32 {
        class as f32
    }

    fn is_above(self, threshold: f32) -> bool {
        threshold < self
    }

    fn to_single(self) -> f32 {
        self
    }
}

impl Predicted for f64 {
    fn transform(transform: Transform, row: &mut [f64]) {
        match transform {
            Transform::Double(transform) => transform.apply(row),
            Transform::Single(_) => unreachable!("its sums have 32 bits"),
        }
    }

    fn complement(self) -> f64 {
        1.0 - self
    }

    fn number(class: usize) -> f64 {
        class as f64
    }

    fn is_above(self, threshold: f32) -> bool {
        f64::from(threshold) < self
    }

    fn to_single(self) -> f32 {
        self as f32
    }
}
