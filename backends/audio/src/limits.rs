//! Bounds of what is read.

/// Bounds of what is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The longest sound.
    pub max_seconds: f64,
    /// The lowest rate, in samples a second.
    pub min_rate: u32,
    /// The highest rate.
    pub max_rate: u32,
    /// Most channels.
    pub max_channels: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_seconds: 600.0, min_rate: 4_000, max_rate: 192_000, max_channels: 8 }
    }
}

impl Limits {
    /// Most samples of each channel at this rate.
    pub(crate) fn most_samples(&self, rate: u32) -> u64 {
        (self.max_seconds.max(0.0) * f64::from(rate)) as u64
    }
}
