//! Token vectors to one: sums in FP32, in the order of the tokens.

use crate::folder::PoolingMode;

/// Vectors of the tokens of one row, without padding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenVectors<'a> {
    /// One behind the other.
    pub(crate) values: &'a [f32],
    /// Length of each.
    pub(crate) width: usize,
}

impl<'a> TokenVectors<'a> {
    fn rows(self) -> std::slice::ChunksExact<'a, f32> {
        self.values.chunks_exact(self.width.max(1))
    }
}

/// The pooled vectors of all modes, one behind the other. The first `skipped` tokens, those of a prompt, do not
/// count.
pub(crate) fn pool(tokens: TokenVectors<'_>, modes: &[PoolingMode], skipped: usize) -> Vec<f32> {
    let mut pooled = Vec::with_capacity(tokens.width * modes.len());
    for mode in modes {
        pool_one(tokens, *mode, skipped, &mut pooled);
    }
    pooled
}

fn pool_one(tokens: TokenVectors<'_>, mode: PoolingMode, skipped: usize, pooled: &mut Vec<f32>) {
    let from = pooled.len();
    let counted = tokens.rows().skip(skipped);
    let count = counted.len();
    match mode {
        PoolingMode::Cls => {
            // Where all are skipped the reference takes the first.
            let first = counted.clone().next().or_else(|| tokens.rows().next());
            pooled.extend_from_slice(first.unwrap_or_default());
        }
        PoolingMode::LastToken => match counted.clone().next_back() {
            Some(last) => pooled.extend_from_slice(last),
            None => pooled.resize(from + tokens.width, 0.0),
        },
        PoolingMode::Max => {
            pooled.resize(from + tokens.width, f32::NEG_INFINITY);
            for row in counted {
                for (max, value) in pooled[from..].iter_mut().zip(row) {
                    // What is no number stays, so that it is found later.
                    if *value > *max || value.is_nan() {
                        *max = *value;
                    }
                }
            }
        }
        PoolingMode::Mean | PoolingMode::MeanSqrtLen => {
            pooled.resize(from + tokens.width, 0.0);
            for row in counted {
                pooled[from..].iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            let count = (count as f32).max(1e-9);
            let divisor = if mode == PoolingMode::Mean { count } else { count.sqrt() };
            pooled[from..].iter_mut().for_each(|it| *it /= divisor);
        }
        PoolingMode::WeightedMean => {
            pooled.resize(from + tokens.width, 0.0);
            let mut sum_of_weights = 0.0f32;
            // The weights of a prompt's tokens are left out; those of the others stay what they were.
            for (at, row) in counted.enumerate() {
                let weight = (skipped + at + 1) as f32;
                sum_of_weights += weight;
                pooled[from..].iter_mut().zip(row).for_each(|(sum, value)| *sum += value * weight);
            }
            let divisor = sum_of_weights.max(1e-9);
            pooled[from..].iter_mut().for_each(|it| *it /= divisor);
        }
    }
}

/// Brings a vector to length one; one of zeros stays.
pub(crate) fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|it| it * it).sum::<f32>().sqrt().max(1e-12);
    vector.iter_mut().for_each(|it| *it /= length);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tokens of two values.
    const TOKENS: TokenVectors<'static> =
        TokenVectors { values: &[1.0, 6.0, 2.0, 5.0, 6.0, -2.0], width: 2 };

    #[track_caller]
    fn check(mode: PoolingMode, skipped: usize, expect: [f32; 2]) {
        assert_eq!(pool(TOKENS, &[mode], skipped), expect);
    }

    #[test]
    fn each_mode_is_its_formula() {
        check(PoolingMode::Cls, 0, [1.0, 6.0]);
        check(PoolingMode::LastToken, 0, [6.0, -2.0]);
        check(PoolingMode::Max, 0, [6.0, 6.0]);
        check(PoolingMode::Mean, 0, [3.0, 3.0]);
        let root = 3f32.sqrt();
        check(PoolingMode::MeanSqrtLen, 0, [9.0 / root, 9.0 / root]);
        check(PoolingMode::WeightedMean, 0, [23.0 / 6.0, 10.0 / 6.0]);
    }

    #[test]
    fn tokens_of_a_prompt_do_not_count() {
        check(PoolingMode::Cls, 1, [2.0, 5.0]);
        check(PoolingMode::LastToken, 1, [6.0, -2.0]);
        check(PoolingMode::Max, 1, [6.0, 5.0]);
        check(PoolingMode::Mean, 1, [4.0, 1.5]);
        check(PoolingMode::WeightedMean, 1, [22.0 / 5.0, 4.0 / 5.0]);
        check(PoolingMode::Mean, 3, [0.0, 0.0]);
        check(PoolingMode::LastToken, 3, [0.0, 0.0]);
        check(PoolingMode::Cls, 3, [1.0, 6.0]);
    }

    #[test]
    fn modes_stand_one_behind_the_other_in_their_order() {
        let modes = [PoolingMode::Mean, PoolingMode::Cls];
        assert_eq!(pool(TOKENS, &modes, 0), [3.0, 3.0, 1.0, 6.0]);
    }

    #[test]
    fn a_vector_of_zeros_stays_what_it_is() {
        let mut vector = [3.0, 4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
        let mut zeros = [0.0; 2];
        normalize(&mut zeros);
        assert_eq!(zeros, [0.0; 2]);
    }
}
