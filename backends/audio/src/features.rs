//! Samples to what a graph takes, as transformers' feature extractors prepare them.

/// `Wav2Vec2FeatureExtractor`, with the values of `preprocessor_config.json`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wav2Vec2 {
    /// Samples a second that the model takes.
    pub sampling_rate: u32,
    /// Is each sound brought to mean zero and variance one?
    pub do_normalize: bool,
    /// Does the graph get a mask?
    pub return_attention_mask: bool,
    /// What stands behind a sound that is shorter than others of its run.
    pub padding_value: f32,
}

impl Default for Wav2Vec2 {
    fn default() -> Wav2Vec2 {
        Wav2Vec2 {
            sampling_rate: 16_000,
            do_normalize: true,
            return_attention_mask: false,
            padding_value: 0.0,
        }
    }
}

/// What a graph takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    /// One for each sample.
    pub input_values: Vec<f32>,
    /// Ones, where the graph gets a mask.
    pub attention_mask: Option<Vec<i64>>,
}

impl Wav2Vec2 {
    /// Of samples at the model's rate.
    pub fn features(&self, mut samples: Vec<f32>) -> Features {
        if self.do_normalize {
            normalize(&mut samples);
        }
        let attention_mask = self.return_attention_mask.then(|| vec![1; samples.len()]);
        Features { input_values: samples, attention_mask }
    }
}

/// `(x - mean) / sqrt(variance + 1e-7)`. Sums are exact enough that their order is of no concern.
fn normalize(samples: &mut [f32]) {
    let count = samples.len().max(1) as f64;
    let sum: f64 = samples.iter().map(|it| f64::from(*it)).sum();
    let mean = (sum / count) as f32;
    let squares: f64 = samples.iter().map(|it| f64::from(*it - mean).powi(2)).sum();
    let deviation = ((squares / count) as f32 + 1e-7).sqrt();
    samples.iter_mut().for_each(|it| *it = (*it - mean) / deviation);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_has_mean_zero_and_variance_one() {
        let features = Wav2Vec2::default().features(vec![1.0, 3.0]);
        assert_eq!(features.input_values, [-1.0, 1.0]);
        assert_eq!(features.attention_mask, None);
        assert_eq!(Wav2Vec2::default().features(vec![0.25; 3]).input_values, [0.0; 3]);
    }

    #[test]
    fn values_may_stay_and_a_mask_may_be_given() {
        let settings =
            Wav2Vec2 { do_normalize: false, return_attention_mask: true, ..Wav2Vec2::default() };
        let features = settings.features(vec![1.0, 3.0]);
        assert_eq!(features.input_values, [1.0, 3.0]);
        assert_eq!(features.attention_mask, Some(vec![1, 1]));
    }
}
