//! Sounds that are out of bounds.

use crate::{error::SoundError, header::Header, limits::Limits};

/// Fails for a sound that is out of bounds by its header.
pub(crate) fn check(header: &Header, limits: &Limits) -> Result<(), SoundError> {
    let Header { rate, channels, .. } = *header;
    if rate < limits.min_rate.max(1) || rate > limits.max_rate {
        return Err(SoundError::Rate { rate, least: limits.min_rate, most: limits.max_rate });
    }
    if channels == 0 || channels > limits.max_channels {
        return Err(SoundError::Channels { channels, most: limits.max_channels });
    }
    match header.samples {
        Some(samples) if samples > limits.most_samples(rate) => {
            Err(too_long("", samples, rate, limits))
        }
        _ => Ok(()),
    }
}

/// The error of a sound with so many samples; `what` is `"more than "` where there may be others.
pub(crate) fn too_long(what: &'static str, samples: u64, rate: u32, limits: &Limits) -> SoundError {
    let seconds = samples as f64 / f64::from(rate.max(1));
    SoundError::TooLong { what, seconds, allowed: limits.max_seconds }
}
