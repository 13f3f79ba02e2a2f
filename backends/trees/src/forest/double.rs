//! From sums to predictions in 64 bits, as LightGBM, scikit-learn and treelite compute them. Pure.

/// From a row's sums to its predictions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transform {
    /// The sums themselves.
    Identity,
    /// The probability of each sum by itself, after it is multiplied by a scale.
    Logistic {
        /// LightGBM's `sigmoid`.
        scale: f64,
    },
    /// Probabilities that add up to 1.
    Softmax,
    /// e to the power of each sum.
    Exponential,
    /// ln(1 + e^x) of each sum.
    LogOnePlusExponential,
    /// The square of each sum, with its sign.
    SignedSquare,
    /// 1 above zero, else 0.
    Hinge,
    /// 2 to the power of each sum, negated and divided.
    PowerOfTwo {
        /// treelite's `ratio_c`.
        ratio: f64,
    },
    /// Probabilities that add up to 1, computed in 32 bits in part, as treelite does.
    SoftmaxInSingle,
    /// 1 for what is like the data of training, -1 for what is not, of a mean depth relative to that of random trees.
    Inlier {
        /// The score below which something is not.
        offset: f64,
    },
}

impl Transform {
    /// Predictions of a row with so many sums.
    pub fn width(self, sums: usize) -> usize {
        match self {
            Transform::Identity
            | Transform::Logistic { .. }
            | Transform::Softmax
            | Transform::Exponential
            | Transform::LogOnePlusExponential
            | Transform::SignedSquare
            | Transform::Hinge
            | Transform::PowerOfTwo { .. }
            | Transform::SoftmaxInSingle
            | Transform::Inlier { .. } => sums,
        }
    }

    /// Makes predictions of the sums of one row, in place: the first [`width`](Self::width) are those. There is at
    /// least one sum.
    pub fn apply(self, row: &mut [f64]) {
        match self {
            Transform::Identity => {}
            Transform::Logistic { scale } => {
                row.iter_mut().for_each(|it| *it = 1.0 / (1.0 + (-scale * *it).exp()));
            }
            Transform::Softmax => softmax(row),
            Transform::Hinge => row.iter_mut().for_each(|it| *it = f64::from(0.0 < *it)),
            Transform::PowerOfTwo { ratio } => {
                row.iter_mut().for_each(|it| *it = (-*it / ratio).exp2());
            }
            Transform::SoftmaxInSingle => softmax_in_single(row),
            Transform::Exponential => row.iter_mut().for_each(|it| *it = it.exp()),
            Transform::LogOnePlusExponential => {
                row.iter_mut().for_each(|it| *it = it.exp().ln_1p());
            }
            Transform::Inlier { offset } => row.iter_mut().for_each(|it| {
                let score = -(-*it).exp2();
                *it = if score - offset < 0.0 { -1.0 } else { 1.0 };
            }),
            Transform::SignedSquare => {
                row.iter_mut().for_each(|it| *it = it.signum() * *it * *it);
            }
        }
    }
}

fn softmax(row: &mut [f64]) {
    let largest = row.iter().copied().fold(row[0], f64::max);
    let mut sum = 0.0;
    for it in row.iter_mut() {
        *it = (*it - largest).exp();
        sum += *it;
    }
    row.iter_mut().for_each(|it| *it /= sum);
}

fn softmax_in_single(row: &mut [f64]) {
    let mut largest = row[0] as f32;
    for it in &row[1..] {
        if f64::from(largest) < *it {
            largest = *it as f32;
        }
    }
    let mut sum = 0.0;
    for it in row.iter_mut() {
        *it = f64::from((*it - f64::from(largest)).exp() as f32);
        sum += *it;
    }
    row.iter_mut().for_each(|it| *it /= f64::from(sum as f32));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(transform: Transform, sums: &[f64], expect: &[f64]) {
        let mut row = sums.to_vec();
        transform.apply(&mut row);
        assert_eq!(row[..transform.width(sums.len())], *expect);
    }

    #[test]
    fn sums_become_predictions() {
        check(Transform::Identity, &[-1.5, 2.0], &[-1.5, 2.0]);
        check(Transform::Logistic { scale: 2.0 }, &[0.0, 1e30, -1e30], &[0.5, 1.0, 0.0]);
        check(Transform::Softmax, &[3.0, 3.0], &[0.5, 0.5]);
        check(Transform::SoftmaxInSingle, &[3.0, 3.0], &[0.5, 0.5]);
        check(Transform::Hinge, &[0.0, 1e-9, -1.0], &[0.0, 1.0, 0.0]);
        check(Transform::PowerOfTwo { ratio: 2.0 }, &[4.0, -2.0], &[0.25, 2.0]);
        check(Transform::Exponential, &[0.0, f64::NEG_INFINITY], &[1.0, 0.0]);
        check(Transform::LogOnePlusExponential, &[f64::NEG_INFINITY], &[0.0]);
        check(Transform::SignedSquare, &[-3.0, 3.0, 0.0], &[-9.0, 9.0, 0.0]);
    }
}
