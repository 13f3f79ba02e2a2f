//! What is known of a sound before it is decoded.

use crate::{format::Format, limits::Limits, resample::bytes_of_filters};

/// Most bytes that a decoder of packets holds beside the samples and what the file itself makes it hold: packets, and
/// tables that are the same for all files.
pub(crate) const OF_DECODER: u64 = 4 << 20;

/// What the first bytes of a sound say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Its form.
    pub format: Format,
    /// Samples a second.
    pub rate: u32,
    /// Channels, which are averaged.
    pub channels: usize,
    /// Samples of each channel; `None` where they are not known before the end, as in some files of FLAC. Decoding
    /// fails when there are more.
    pub samples: Option<u64>,
    /// Bytes that its decoder holds at most beside the samples: packets, and tables that the file describes.
    pub decoder: u64,
}

impl Header {
    /// Its length, where it is known.
    pub fn seconds(&self) -> Option<f64> {
        self.samples.map(|it| it as f64 / f64::from(self.rate.max(1)))
    }

    /// Bytes that decoding takes at most and the result then holds, with the samples at `rate`, and the filters that
    /// make them, beside those at the sound's own.
    pub fn most_bytes(&self, rate: u32, limits: &Limits) -> u64 {
        let own = self.samples.unwrap_or_else(|| limits.most_samples(self.rate));
        let other = match rate == self.rate {
            true => 0,
            false => (own as f64 * f64::from(rate) / f64::from(self.rate.max(1))) as u64 + 1,
        };
        let samples = own.saturating_add(other).saturating_mul(size_of::<f32>() as u64);
        samples.saturating_add(self.decoder).saturating_add(bytes_of_filters(self.rate, rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_samples_at_both_rates() {
        let (format, rate, samples) = (Format::Wav, 8_000, Some(16_000));
        let header = Header { format, rate, channels: 2, samples, decoder: 0 };
        let limits = Limits { max_seconds: 10.0, ..Limits::default() };
        assert_eq!(header.seconds(), Some(2.0));
        assert_eq!(header.most_bytes(8_000, &limits), 64_000);
        let filters = bytes_of_filters(8_000, 16_000);
        assert_eq!(header.most_bytes(16_000, &limits), 64_000 + 128_004 + filters);
        let packets = Header { format: Format::Ogg, decoder: OF_DECODER, ..header };
        assert_eq!(packets.most_bytes(8_000, &limits), 64_000 + OF_DECODER);
        let unknown = Header { samples: None, ..header };
        assert_eq!(unknown.most_bytes(8_000, &limits), 320_000);
    }
}
