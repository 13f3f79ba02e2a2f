//! From sums to predictions in 32 bits, with the roundings of XGBoost and treelite. Pure.
//!
//! `exp` and `ln` are those of the C library, as in the libraries themselves.

/// From a row's sums to its predictions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transform {
    /// The sums themselves.
    Identity,
    /// The probability of each sum by itself.
    Logistic,
    /// 1 above zero, else 0.
    Hinge,
    /// e to the power of each sum.
    Exponential,
    /// Probabilities that add up to 1.
    Softmax,
    /// The number of the first largest sum.
    ArgMax,
    /// The sums in ascending order.
    Ascending,
    /// Expectiles that do not cross: each is the one before it and something positive.
    Expectiles,
    /// treelite's probability of each sum by itself, after it is multiplied by a scale.
    Sigmoid {
        /// `sigmoid_alpha`.
        scale: f32,
    },
    /// 2 to the power of each sum, negated and divided.
    PowerOfTwo {
        /// `ratio_c`.
        ratio: f32,
    },
    /// ln(1 + e^x) of each sum.
    LogOnePlusExponential,
    /// The square of each sum, with its sign.
    SignedSquare,
}

impl Transform {
    /// Predictions of a row with so many sums.
    pub fn width(self, sums: usize) -> usize {
        match self {
            Transform::ArgMax => 1,
            Transform::Identity
            | Transform::Logistic
            | Transform::Hinge
            | Transform::Exponential
            | Transform::Softmax
            | Transform::Ascending
            | Transform::Expectiles
            | Transform::Sigmoid { .. }
            | Transform::PowerOfTwo { .. }
            | Transform::LogOnePlusExponential
            | Transform::SignedSquare => sums,
        }
    }

    /// Makes predictions of the sums of one row, in place: the first [`width`](Self::width) are those. There is at
    /// least one sum.
    pub fn apply(self, row: &mut [f32]) {
        match self {
            Transform::Identity => {}
            Transform::Logistic => row.iter_mut().for_each(|it| *it = logistic(*it)),
            Transform::Hinge => row.iter_mut().for_each(|it| *it = f32::from(0.0 < *it)),
            Transform::Exponential => row.iter_mut().for_each(|it| *it = it.exp()),
            Transform::Softmax => softmax(row),
            Transform::ArgMax => row[0] = arg_max(row) as f32,
            Transform::Ascending => row.sort_unstable_by(f32::total_cmp),
            Transform::Expectiles => {
                for i in 1..row.len() {
                    row[i] = row[i - 1] + (EXPECTILE_GAP + softplus(row[i]));
                }
            }
            Transform::Sigmoid { scale } => {
                row.iter_mut().for_each(|it| *it = 1.0 / (1.0 + (-scale * *it).exp()));
            }
            Transform::PowerOfTwo { ratio } => {
                row.iter_mut().for_each(|it| *it = (-*it / ratio).exp2());
            }
            Transform::LogOnePlusExponential => {
                row.iter_mut().for_each(|it| *it = it.exp().ln_1p());
            }
            Transform::SignedSquare => {
                row.iter_mut().for_each(|it| *it = (*it * *it).copysign(*it));
            }
        }
    }
}

/// The least distance of two expectiles.
pub const EXPECTILE_GAP: f32 = 1e-6;

/// Between 0 and 1, without an overflow.
pub fn logistic(margin: f32) -> f32 {
    // Not `min`, which would make a number of NaN.
    let power = if 88.7 < -margin { 88.7 } else { -margin };
    // What is added last is lost in the rounding; it is there in the library, too.
    1.0 / (power.exp() + 1.0 + 1e-16)
}

/// ln(1 + e^x), without an overflow.
pub fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn softmax(row: &mut [f32]) {
    let largest = row.iter().copied().fold(row[0], f32::max);
    let mut sum = 0f64;
    for it in row.iter_mut() {
        *it = (*it - largest).exp();
        sum += f64::from(*it);
    }
    // The sum is kept in 64 bits, and rounded before the division.
    let sum = sum as f32;
    row.iter_mut().for_each(|it| *it /= sum);
}

fn arg_max(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, i| if row[best] < row[i] { i } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(transform: Transform, sums: &[f32], expect: &[f32]) {
        let mut row = sums.to_vec();
        transform.apply(&mut row);
        assert_eq!(row[..transform.width(sums.len())], *expect);
    }

    #[test]
    fn sums_become_predictions() {
        check(Transform::Identity, &[-1.5, 2.0], &[-1.5, 2.0]);
        check(Transform::Logistic, &[0.0, 1e30], &[0.5, 1.0]);
        check(Transform::Hinge, &[0.0, 1e-9, -1.0], &[0.0, 1.0, 0.0]);
        check(Transform::Exponential, &[0.0, f32::NEG_INFINITY], &[1.0, 0.0]);
        check(Transform::Softmax, &[3.0, 3.0], &[0.5, 0.5]);
        check(Transform::ArgMax, &[1.0, 4.0, 4.0], &[1.0]);
        check(Transform::Sigmoid { scale: 2.0 }, &[0.0, 1e30, -1e30], &[0.5, 1.0, 0.0]);
        check(Transform::PowerOfTwo { ratio: 2.0 }, &[4.0, -2.0], &[0.25, 2.0]);
        check(Transform::LogOnePlusExponential, &[f32::NEG_INFINITY], &[0.0]);
        check(Transform::SignedSquare, &[-3.0, 3.0, 0.0], &[-9.0, 9.0, 0.0]);
        check(Transform::Ascending, &[3.0, 1.0, 2.0], &[1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_margin_that_is_no_number_has_no_probability() {
        assert!(logistic(f32::NAN).is_nan());
        assert!(0.0 < logistic(-1e30) && logistic(-1e30) < 1e-38);
    }

    #[test]
    fn expectiles_ascend() {
        let mut row = [1.0, -50.0, 0.0];
        Transform::Expectiles.apply(&mut row);
        assert!(row[0] == 1.0 && row[0] < row[1] && row[1] < row[2], "{row:?}");
    }
}
