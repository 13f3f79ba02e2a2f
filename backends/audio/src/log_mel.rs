//! Samples to logarithms of what filters hear in each moment, as transformers' feature extractors prepare them.

use std::f64::consts::PI;

use crate::{
    error::SoundError,
    mel::{Filters, Range, Scale},
    spectrum::Spectrum,
    watched::StillWanted,
};

/// `WhisperFeatureExtractor`, with the values of `preprocessor_config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whisper {
    /// Samples a second that the model takes.
    pub sampling_rate: u32,
    /// Filters.
    pub feature_size: usize,
    /// Samples of a moment.
    pub n_fft: usize,
    /// Samples from a moment to the next.
    pub hop_length: usize,
    /// Seconds to which a sound is filled up with silence, or cut.
    pub chunk_length: usize,
}

impl Default for Whisper {
    fn default() -> Whisper {
        let (sampling_rate, feature_size, chunk_length) = (16_000, 80, 30);
        Whisper { sampling_rate, feature_size, n_fft: 400, hop_length: 160, chunk_length }
    }
}

/// `ASTFeatureExtractor`, with the values of `preprocessor_config.json`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ast {
    /// Samples a second that the model takes.
    pub sampling_rate: u32,
    /// Filters.
    pub num_mel_bins: usize,
    /// Moments to which a sound is filled up with zeros, or cut.
    pub max_length: usize,
    /// Is `mean` taken away, and divided by twice `std`?
    pub do_normalize: bool,
    /// What is taken away.
    pub mean: f32,
    /// Half of what is divided by.
    pub std: f32,
}

impl Default for Ast {
    fn default() -> Ast {
        let (sampling_rate, num_mel_bins, max_length, do_normalize) = (16_000, 128, 1024, true);
        let (mean, std) = (-4.267_739_3, 4.568_997_4);
        Ast { sampling_rate, num_mel_bins, max_length, do_normalize, mean, std }
    }
}

/// Samples of a moment of [`Ast`], from one to the next, and of the transform.
const MOMENT: usize = 400;
const HOP: usize = 160;
const TRANSFORM: usize = 512;
/// How much of a sample is taken away from the next one.
const PREEMPHASIS: f64 = 0.97;

/// Makes features of samples. Immutable, shared by all threads.
#[derive(Debug, Clone, PartialEq)]
pub struct LogMel {
    kind: Kind,
    window: Vec<f64>,
    spectrum: Spectrum,
    filters: Filters,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Whisper(Whisper),
    Ast(Ast),
}

/// Hann's window whose period is so long.
fn window(length: usize, period: usize) -> Vec<f64> {
    (0..length).map(|at| 0.5 - 0.5 * (2.0 * PI * at as f64 / period as f64).cos()).collect()
}

impl LogMel {
    /// Features of `n_fft` samples, which is even.
    pub fn whisper(settings: Whisper) -> LogMel {
        let (length, rate) = (settings.n_fft, f64::from(settings.sampling_rate));
        let range = Range { tones: length / 2 + 1, rate, lowest: 0.0, highest: 8_000.0 };
        LogMel {
            kind: Kind::Whisper(settings),
            window: window(length, length),
            spectrum: Spectrum::new(length),
            filters: Filters::new(Scale::Slaney, range, settings.feature_size),
        }
    }

    /// Features as Kaldi makes them.
    pub fn ast(settings: Ast) -> LogMel {
        let rate = f64::from(settings.sampling_rate);
        let highest = f64::from(settings.sampling_rate / 2);
        let range = Range { tones: TRANSFORM / 2 + 1, rate, lowest: 20.0, highest };
        LogMel {
            kind: Kind::Ast(settings),
            window: window(MOMENT, MOMENT - 1),
            spectrum: Spectrum::new(TRANSFORM),
            filters: Filters::new(Scale::Kaldi, range, settings.num_mel_bins),
        }
    }

    /// Samples a second that the model takes.
    pub fn sampling_rate(&self) -> u32 {
        match &self.kind {
            Kind::Whisper(it) => it.sampling_rate,
            Kind::Ast(it) => it.sampling_rate,
        }
    }

    /// The shape of the features of any sound.
    pub fn shape(&self) -> [usize; 2] {
        match &self.kind {
            Kind::Whisper(it) => [it.feature_size, moments(it)],
            Kind::Ast(it) => [it.max_length, it.num_mel_bins],
        }
    }

    /// Samples of the shortest sound.
    pub fn least_samples(&self) -> usize {
        match &self.kind {
            Kind::Whisper(_) => 1,
            Kind::Ast(_) => MOMENT,
        }
    }

    /// The features of samples at the model's rate, which are as many as the shape says.
    ///
    /// # Errors
    /// [`SoundError::Stopped`] where they are not wanted any more, which is asked for every moment.
    pub fn features(
        &self,
        samples: &[f32],
        wanted: StillWanted<'_>,
    ) -> Result<Vec<f32>, SoundError> {
        match &self.kind {
            Kind::Whisper(settings) => self.of_whisper(settings, samples, wanted),
            Kind::Ast(settings) => self.of_ast(settings, samples, wanted),
        }
    }

    fn of_whisper(
        &self,
        settings: &Whisper,
        samples: &[f32],
        wanted: StillWanted<'_>,
    ) -> Result<Vec<f32>, SoundError> {
        let count = settings.chunk_length * settings.sampling_rate as usize;
        let moments = moments(settings);
        let half = settings.n_fft as i64 / 2;
        // Both ends are mirrored.
        let sample = |at: i64| {
            let last = count as i64 - 1;
            let at = if last < at.abs() { 2 * last - at.abs() } else { at.abs() };
            usize::try_from(at).ok().and_then(|it| samples.get(it)).map_or(0.0, |it| f64::from(*it))
        };
        let mut features = vec![0.0f32; settings.feature_size * moments];
        for moment in 0..moments {
            check(wanted)?;
            let first = (moment * settings.hop_length) as i64 - half;
            let window = self.window.iter().zip(first..);
            let piece: Vec<f64> = window.map(|(window, at)| sample(at) * window).collect();
            let power = self.spectrum.power(&piece);
            for (filter, sum) in self.filters.sums(&power).enumerate() {
                features[filter * moments + moment] = sum.max(1e-10).log10() as f32;
            }
        }
        let loudest = features.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        features.iter_mut().for_each(|it| *it = (it.max(loudest - 8.0) + 4.0) / 4.0);
        Ok(features)
    }

    fn of_ast(
        &self,
        settings: &Ast,
        samples: &[f32],
        wanted: StillWanted<'_>,
    ) -> Result<Vec<f32>, SoundError> {
        let mut features = Vec::with_capacity(settings.max_length * settings.num_mel_bins);
        let starts = (0..(samples.len() + 1).saturating_sub(MOMENT)).step_by(HOP);
        for first in starts.take(settings.max_length) {
            check(wanted)?;
            let mut piece: Vec<f64> =
                samples[first..first + MOMENT].iter().map(|it| f64::from(*it)).collect();
            let mean = piece.iter().sum::<f64>() / MOMENT as f64;
            piece.iter_mut().for_each(|it| *it -= mean);
            for at in (1..MOMENT).rev() {
                piece[at] -= PREEMPHASIS * piece[at - 1];
            }
            piece[0] *= 1.0 - PREEMPHASIS;
            piece.iter_mut().zip(&self.window).for_each(|(it, window)| *it *= window);
            piece.resize(TRANSFORM, 0.0);
            let power = self.spectrum.power(&piece);
            let floor = f64::from(f32::EPSILON);
            features.extend(self.filters.sums(&power).map(|it| it.max(floor).ln() as f32));
        }
        features.resize(settings.max_length * settings.num_mel_bins, 0.0);
        if settings.do_normalize {
            let (mean, width) = (settings.mean, settings.std * 2.0);
            features.iter_mut().for_each(|it| *it = (*it - mean) / width);
        }
        Ok(features)
    }
}

/// How many moments a chunk has.
fn moments(settings: &Whisper) -> usize {
    settings.chunk_length * settings.sampling_rate as usize / settings.hop_length
}

fn check(wanted: StillWanted<'_>) -> Result<(), SoundError> {
    if wanted() { Ok(()) } else { Err(SoundError::Stopped) }
}
