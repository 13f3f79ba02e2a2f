//! Functions of logits, in FP32 as the reference has them.

use crate::request::Function;

/// Scores of logits, in their place.
pub(crate) fn apply(function: Function, logits: &mut [f32]) {
    match function {
        Function::Softmax => softmax(logits),
        Function::Sigmoid => logits.iter_mut().for_each(|it| *it = sigmoid(*it)),
        Function::None => {}
    }
}

/// Shifted by the maximum, so that no exponential overflows.
pub(crate) fn softmax(values: &mut [f32]) {
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for value in values.iter_mut() {
        *value = (*value - max).exp();
        sum += *value;
    }
    values.iter_mut().for_each(|it| *it /= sum);
}

/// Between zero and one.
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Place of the greatest value, the first of equal ones. Zero for none.
pub(crate) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_softmax_sums_to_one_and_never_overflows() {
        let mut values = [-100.0, 5.0, 5.0];
        apply(Function::Softmax, &mut values);
        assert_eq!(values, [0.0, 0.5, 0.5]);
        let mut values = [3e38, -3e38];
        softmax(&mut values);
        assert_eq!(values, [1.0, 0.0]);
    }

    #[test]
    fn a_sigmoid_has_its_limits() {
        let mut values = [0.0, 200.0, -200.0];
        apply(Function::Sigmoid, &mut values);
        assert_eq!(values, [0.5, 1.0, 0.0]);
    }

    #[test]
    fn the_first_of_equal_values_is_the_greatest() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(argmax(&[]), 0);
    }
}
