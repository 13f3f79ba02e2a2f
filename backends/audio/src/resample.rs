//! Another rate: a windowed sinc, one filter for each place between two samples.

use std::f64::consts::PI;

use crate::{error::SoundError, watched::StillWanted};

/// Taps of a filter that lets all through; more where high tones are cut off.
const TAPS: f64 = 32.0;
/// How much of what the new rate can hold is kept.
const CUTOFF: f64 = 0.97;
/// The shape of the Kaiser window: what is cut off is 90 dB lower.
const BETA: f64 = 9.0;
/// Most filters. Between rates that need more, the two nearest ones are mixed.
const MOST_FILTERS: u64 = 1024;
/// So many samples are made before it is asked whether they are wanted.
const PIECE: u64 = 4096;

/// The samples at the rate `to`, as many as the sound lasts. Samples before and behind it count as silence.
///
/// Both rates are at least 1. Equal rates give the samples as they are.
pub fn resample(samples: Vec<f32>, from: u32, to: u32) -> Vec<f32> {
    resample_while(samples, from, to, &|| true).unwrap_or_default()
}

/// The same as long as it is wanted.
pub(crate) fn resample_while(
    samples: Vec<f32>,
    from: u32,
    to: u32,
    wanted: StillWanted<'_>,
) -> Result<Vec<f32>, SoundError> {
    if from == to || from == 0 || to == 0 {
        return Ok(samples);
    }
    let divisor = greatest_common_divisor(u64::from(from), u64::from(to));
    let (step, places) = (u64::from(from) / divisor, u64::from(to) / divisor);
    let bank = Bank::new(f64::from(to) / f64::from(from), places);
    let count = (samples.len() as u64 * places).div_ceil(step);
    let mut made = Vec::with_capacity(count as usize);
    for start in (0..count).step_by(PIECE as usize) {
        if !wanted() {
            return Err(SoundError::Stopped);
        }
        let piece = start..count.min(start + PIECE);
        made.extend(piece.map(|at| bank.sample(&samples, at * step / places, at * step % places)));
    }
    Ok(made)
}

/// Bytes of the filters from one rate to another, which are there beside the samples. Nothing between equal rates.
pub(crate) fn bytes_of_filters(from: u32, to: u32) -> u64 {
    if from == to || from == 0 || to == 0 {
        return 0;
    }
    let places = u64::from(to) / greatest_common_divisor(u64::from(from), u64::from(to));
    let (_, half) = width(f64::from(to) / f64::from(from));
    let (taps, count) = (2 * half as u64, places.min(MOST_FILTERS));
    // One filter is made with twice the digits.
    (count + 1) * taps * size_of::<f32>() as u64 + taps * size_of::<f64>() as u64
}

/// How much of what the old rate can hold is kept, and half of the taps of a filter that does so.
fn width(ratio: f64) -> (f64, usize) {
    // Only what the lower rate cannot hold is cut off.
    let factor = (ratio * CUTOFF).min(1.0);
    (factor, (TAPS / factor / 2.0).ceil() as usize)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Filters for places between two samples.
#[derive(Debug)]
struct Bank {
    /// One behind the other. The last is that of the first place, a sample later.
    filters: Vec<f32>,
    taps: usize,
    /// Places between two samples of which some sample of the result may stand at each.
    places: u64,
    /// Filters between two samples: as many, or fewer.
    count: u64,
}

impl Bank {
    fn new(ratio: f64, places: u64) -> Bank {
        let (factor, half) = width(ratio);
        let (taps, count) = (2 * half, places.min(MOST_FILTERS));
        let mut filters = Vec::with_capacity((count as usize + 1) * taps);
        for filter in 0..=count {
            let place = filter as f64 / count as f64;
            let weights = (0..taps).map(|tap| {
                let distance = tap as f64 - (half - 1) as f64 - place;
                sinc(distance * factor) * window(distance / half as f64)
            });
            let weights: Vec<f64> = weights.collect();
            let sum: f64 = weights.iter().sum();
            filters.extend(weights.iter().map(|it| (it / sum) as f32));
        }
        Bank { filters, taps, places, count }
    }

    /// The value `place / places` behind the sample `whole`.
    fn sample(&self, samples: &[f32], whole: u64, place: u64) -> f32 {
        let first = whole as i64 - (self.taps as i64 / 2 - 1);
        let skipped = (-first).clamp(0, self.taps as i64) as usize;
        let from = first.max(0) as usize;
        let heard = samples.get(from..).unwrap_or_default();
        let with = |filter: u64| {
            let filter = &self.filters[filter as usize * self.taps..][..self.taps];
            dot(heard, &filter[skipped..])
        };
        let (filter, rest) = (place * self.count / self.places, place * self.count % self.places);
        match rest {
            0 => with(filter),
            rest => {
                let share = rest as f32 / self.places as f32;
                with(filter) * (1.0 - share) + with(filter + 1) * share
            }
        }
    }
}

/// The sum of products up to the end of the shorter one, in eight sums that the processor has at once.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let count = a.len().min(b.len());
    let (a, a_rest) = a[..count].as_chunks::<8>();
    let (b, b_rest) = b[..count].as_chunks::<8>();
    let mut sums = [0.0f32; 8];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

/// Kaiser's window between -1 and 1, zero outside.
fn window(x: f64) -> f64 {
    let inside = 1.0 - x * x;
    if inside < 0.0 { 0.0 } else { bessel(BETA * inside.sqrt()) / bessel(BETA) }
}

/// The modified Bessel function of order zero, as the sum of its series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term, mut number) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 {
        term *= (x / 2.0 / number).powi(2);
        sum += term;
        number += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(frequency: f64, rate: u32, seconds: f64) -> Vec<f32> {
        let count = (seconds * f64::from(rate)) as usize;
        let value = |at: usize| (2.0 * PI * frequency * at as f64 / f64::from(rate)).sin() as f32;
        (0..count).map(value).collect()
    }

    /// How much lower than a tone what is left of it is, in decibel, away from the ends.
    fn distance(frequency: f64, from: u32, to: u32) -> f64 {
        let found = resample(tone(frequency, from, 0.3), from, to);
        let expected = tone(frequency, to, 0.3);
        assert!(found.len().abs_diff(expected.len()) <= 1);
        let inner = found.len() / 5..found.len() * 4 / 5;
        let square = |it: f32| f64::from(it) * f64::from(it);
        let wrong: f64 = inner.clone().map(|at| square(found[at] - expected[at])).sum();
        let whole: f64 = inner.map(|at| square(expected[at])).sum();
        10.0 * (whole / wrong).log10()
    }

    #[test]
    fn tones_keep_their_form() {
        for (from, to) in [(44_100, 16_000), (48_000, 16_000), (8_000, 16_000), (22_050, 16_000)] {
            for frequency in [50.0, 440.0, 3_000.0] {
                let found = distance(frequency, from, to);
                assert!(found > 60.0, "{frequency} Hz from {from} to {to}: {found} dB");
            }
        }
        // Rates without a common divisor, for which filters are mixed.
        let found = distance(1_000.0, 44_101, 16_000);
        assert!(found > 60.0, "{found} dB");
    }

    #[test]
    fn what_the_rate_cannot_hold_is_cut_off() {
        let found = resample(tone(11_000.0, 44_100, 0.3), 44_100, 16_000);
        let inner = &found[1_000..3_800];
        let loudest = inner.iter().fold(0.0f32, |most, it| most.max(it.abs()));
        assert!(loudest < 1e-3, "{loudest}");
    }

    #[test]
    fn a_constant_stays_and_lengths_are_those_of_the_sound() {
        let found = resample(vec![0.5; 4_410], 44_100, 16_000);
        assert_eq!(found.len(), 1_600);
        assert!(found[100..1_500].iter().all(|it| (it - 0.5).abs() < 1e-5));
        assert_eq!(resample(vec![0.5; 3], 8_000, 16_000).len(), 6);
        assert_eq!(resample(vec![0.5; 1], 44_100, 16_000).len(), 1);
        assert_eq!(resample(vec![0.5, 0.25], 16_000, 16_000), [0.5, 0.25]);
        assert!(resample(Vec::new(), 8_000, 16_000).is_empty());
    }

    #[test]
    fn the_widest_rates_need_little_memory() {
        let bank = Bank::new(16_000.0 / 191_999.0, 16_000);
        assert!(bank.filters.len() < 1 << 20, "{}", bank.filters.len());
        assert_eq!(resample(vec![0.0; 192], 191_999, 4_000).len(), 5);
    }
}
