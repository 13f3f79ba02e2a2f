//! Logits over the vocabulary to a sparse vector.

use crate::{error::RowError, folder::Splade, outputs::RowOutput};

/// The weights above zero and their tokens: `ln(1 + max(0, logit))`, the greatest or the sum over the tokens of the
/// row.
///
/// # Errors
/// When the output has not the shape `[tokens, vocabulary]`, or a value is no number.
pub(crate) fn weights(output: &RowOutput<'_>, splade: Splade) -> Result<Vec<(u32, f32)>, RowError> {
    let [_, width] = *output.dims else {
        let problem = format!("a row has the shape {:?}, not [tokens, vocabulary]", output.dims);
        return Err(RowError::Output { output: output.name.to_owned(), problem });
    };
    let mut weights = vec![0.0f32; width];
    for row in output.values.chunks_exact(width.max(1)) {
        for (weight, logit) in weights.iter_mut().zip(row) {
            match splade.is_sum {
                true => *weight += weight_of(*logit, splade),
                // The function grows with its argument, so one logarithm at the end is enough.
                false if *logit > *weight || logit.is_nan() => *weight = *logit,
                false => {}
            }
        }
    }
    if !splade.is_sum {
        weights.iter_mut().for_each(|it| *it = weight_of(*it, splade));
    }
    if let Some(position) = weights.iter().position(|it| !it.is_finite()) {
        return Err(RowError::NotANumber { output: output.name.to_owned(), position });
    }
    let numbered = (0..).zip(weights);
    Ok(numbered.filter(|(_, weight)| *weight > 0.0).collect())
}

fn weight_of(logit: f32, splade: Splade) -> f32 {
    // `max` would make a number of what is none.
    let positive = if logit < 0.0 { 0.0 } else { logit };
    let weight = positive.ln_1p();
    if splade.is_logarithm_twice { weight.ln_1p() } else { weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(splade: Splade, expect: &[(u32, f32)]) {
        let values = vec![1.0, -1.0, 3.0, 0.0, -2.0, 1.0].into();
        let output = RowOutput { name: "logits", dims: vec![2, 3], values };
        assert_eq!(weights(&output, splade).unwrap(), expect);
    }

    #[test]
    fn the_greatest_or_the_sum_counts() {
        let (one, three) = (1f32.ln_1p(), 3f32.ln_1p());
        check(Splade::default(), &[(0, one), (2, three)]);
        let sum = Splade { is_sum: true, ..Splade::default() };
        check(sum, &[(0, one), (2, three + one)]);
        let twice = Splade { is_logarithm_twice: true, ..Splade::default() };
        check(twice, &[(0, one.ln_1p()), (2, three.ln_1p())]);
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        for is_sum in [false, true] {
            let values = vec![f32::NAN, 1.0].into();
            let output = RowOutput { name: "logits", dims: vec![2, 1], values };
            assert!(weights(&output, Splade { is_sum, ..Splade::default() }).is_err());
        }
    }
}
