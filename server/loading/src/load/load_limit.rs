//! How long an engine may take to make a model of its files.

use std::time::Duration;

use backend::{BackendError, Stop};

use crate::load::load_watch::PhaseLimit;

/// On the CPU, where no flag says.
const ON_CPU: Duration = Duration::from_secs(600);

/// On a GPU: TensorRT builds its engines, for minutes.
const ON_GPU: Duration = Duration::from_secs(3600);

/// Bytes of a model's files that even a slow disk gives in a second.
const BYTES_PER_SECOND: u64 = 10_000_000;

/// The limit for a model of so many bytes. `flag` is what the flag says.
pub(crate) fn of_engine(flag: Option<Duration>, uses_gpus: bool, bytes: u64) -> PhaseLimit {
    let of_device = if uses_gpus { ON_GPU } else { ON_CPU };
    let limit = flag.unwrap_or(of_device + Duration::from_secs(bytes / BYTES_PER_SECOND));
    PhaseLimit { limit, flag: "--load-limit-secs" }
}

/// Was it in time?
///
/// # Errors
/// Where it was asked to end.
pub(crate) fn check(limit: PhaseLimit, stop: &Stop) -> Result<(), BackendError> {
    let PhaseLimit { limit, flag } = limit;
    match stop.is_stopped() {
        false => Ok(()),
        true => Err(BackendError::Load(format!(
            "its load took longer than {} s and was stopped ({flag})",
            limit.as_secs_f64()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_model_has_more_time_and_a_flag_goes_before() {
        let seconds = |flag: Option<u64>, uses_gpus, bytes| {
            of_engine(flag.map(Duration::from_secs), uses_gpus, bytes).limit.as_secs()
        };
        assert_eq!(seconds(None, false, 1_000), 600);
        assert_eq!(seconds(None, false, 2_000_000_000), 800);
        assert_eq!(seconds(None, true, 2_000_000_000), 3800);
        assert_eq!(seconds(Some(5), true, 2_000_000_000), 5);
    }
}
