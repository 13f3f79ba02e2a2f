//! How many samples make a frame, and what a network takes that compares all frames of a sound with each other.

use crate::folder::Config;

/// The frames of a sound model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frames {
    /// Samples of the shortest sound that gives a frame.
    pub(super) least_samples: usize,
    /// Samples from one frame to the next.
    step: usize,
    /// How often each frame is compared with each other one at the same time; `None` where no file says it.
    heads: Option<usize>,
    /// Numbers that the first convolution gives, and after how many samples it gives them again.
    first: (usize, usize),
}

/// Bytes of comparing two frames: a number, and the part that it is of all of its row.
const BYTES_OF_PAIR: f64 = 8.0;

impl Frames {
    /// Of a model with these convolutions in front.
    pub(super) fn of(config: &Config) -> Frames {
        let inner = |most: usize, (kernel, stride): &(usize, usize)| {
            most.saturating_sub(1).saturating_mul(*stride).saturating_add(*kernel)
        };
        let step = config.convolutions.iter().map(|it| it.1).fold(1, usize::saturating_mul);
        Frames {
            least_samples: config.convolutions.iter().rev().fold(1, inner),
            step,
            heads: config.heads.filter(|_| 1 < step),
            first: (
                config.convolution_width.filter(|_| 1 < step).unwrap_or(0),
                config.convolutions.first().map_or(1, |it| it.1),
            ),
        }
    }

    /// Bytes that a network takes for a sound of so many samples: to compare its frames, and for what the first
    /// convolution gives.
    pub(super) fn bytes(&self, samples: usize) -> usize {
        let frames = (samples / self.step.max(1)) as f64;
        let compared = self.heads.map_or(0.0, |it| it as f64 * BYTES_OF_PAIR * frames * frames);
        let (width, step) = self.first;
        let first = (samples / step.max(1)).saturating_mul(width).saturating_mul(size_of::<f32>());
        // A number that is too large for the type becomes its largest.
        (compared as usize).saturating_add(first)
    }

    /// Samples of the longest sound whose frames can be compared in so many bytes; `None` where nothing is known.
    pub(super) fn longest_samples(&self, bytes: u64) -> Option<f64> {
        let of_head = bytes as f64 / self.heads? as f64;
        Some((of_head / BYTES_OF_PAIR).sqrt() * self.step as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wav2vec2() -> Frames {
        let kernels = [10, 3, 3, 3, 3, 2, 2];
        let strides = [5, 2, 2, 2, 2, 2, 2];
        let convolutions = kernels.into_iter().zip(strides).collect();
        let convolution_width = Some(512);
        Frames::of(&Config {
            convolutions,
            convolution_width,
            heads: Some(12),
            ..Config::default()
        })
    }

    #[test]
    fn a_frame_of_wav2vec2_is_of_400_samples_and_320_lie_between_two() {
        let frames = wav2vec2();
        assert_eq!((frames.least_samples, frames.step), (400, 320));
    }

    #[test]
    fn the_memory_of_a_sound_grows_with_its_square() {
        let frames = wav2vec2();
        // 12 heads of 15,000 frames squared.
        let bytes = 12 * 8 * 15_000u64.pow(2);
        let seconds = |bytes| frames.longest_samples(bytes).unwrap() / 16_000.0;
        assert_eq!(seconds(bytes), 300.0);
        assert_eq!(seconds(bytes / 4), 150.0);
        assert_eq!(Frames::of(&Config::default()).longest_samples(1 << 30), None);
        assert_eq!(Frames::of(&Config::default()).least_samples, 1);
    }

    #[test]
    fn a_sound_takes_what_its_frames_and_the_first_convolution_take() {
        let frames = wav2vec2();
        // A second: 50 frames squared of 12 heads, and 512 numbers after every 5 samples.
        assert_eq!(frames.bytes(16_000), 12 * 8 * 50 * 50 + 3_200 * 512 * 4);
        assert_eq!(frames.bytes(0), 0);
        assert_eq!(Frames::of(&Config::default()).bytes(1 << 30), 0);
    }

    #[test]
    fn steps_that_no_number_holds_are_the_greatest_number() {
        let convolutions = vec![(usize::MAX, 1 << 40), (3, 1 << 40)];
        let frames = Frames::of(&Config { convolutions, heads: Some(0), ..Config::default() });
        assert_eq!((frames.least_samples, frames.step), (usize::MAX, usize::MAX));
        assert_eq!(frames.longest_samples(1 << 30), Some(f64::INFINITY));
    }
}
