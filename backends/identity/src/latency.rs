//! How long an execution takes, slept as a GPU would or burnt as a CPU would, and how it ends early.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use backend::{BackendError, Stop};
use rustix::time::{ClockId, clock_gettime};

/// Somebody pulled the batch's [`Stop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;

pub(crate) fn stopped(_: Stopped) -> BackendError {
    BackendError::Execute("stopped".to_owned())
}

/// How the synthetic latency is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The thread sleeps: an accelerator works.
    Sleep,
    /// The thread computes until it has used that much CPU time, so that more threads than cores slow
    /// each other down as real ones do.
    Burn,
}

impl Mode {
    /// Every mode under its name in the parameter.
    pub(crate) const ALL: [(&'static str, Mode); 2] =
        [("sleep", Mode::Sleep), ("burn", Mode::Burn)];
}

/// The time of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latency {
    /// Always slept.
    pub(crate) delay: Duration,
    /// Instance i sleeps `max(instance_multiplier · i, 1)` times the delay.
    pub(crate) instance_multiplier: u64,
    /// Synthetic latency of a batch, whatever its size.
    pub(crate) alpha: Duration,
    /// Synthetic latency of each row.
    pub(crate) beta: Duration,
    /// How the synthetic latency is spent.
    pub(crate) mode: Mode,
}

impl Latency {
    /// Blocks for as long as an execution of `rows` rows takes.
    ///
    /// `factor` lengthens the synthetic latency.
    pub(crate) fn pass(
        &self,
        instance: u64,
        rows: usize,
        factor: f64,
        stop: &Stop,
    ) -> Result<(), Stopped> {
        let (sleep, burn) = self.of(instance, rows, factor);
        if !sleep.is_zero() {
            wait(stop, Some(sleep))?;
        }
        if !burn.is_zero() {
            burn_for(stop, burn)?;
        }
        Ok(())
    }

    /// Time to sleep and time to burn.
    pub(crate) fn of(&self, instance: u64, rows: usize, factor: f64) -> (Duration, Duration) {
        let times = self.instance_multiplier.saturating_mul(instance).max(1);
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        let delay = self.delay.saturating_mul(times);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let flat = self.alpha.saturating_add(self.beta.saturating_mul(rows));
        let synthetic =
            Duration::try_from_secs_f64(flat.as_secs_f64() * factor).unwrap_or(Duration::MAX);
        match self.mode {
            Mode::Sleep => (delay.saturating_add(synthetic), Duration::ZERO),
            Mode::Burn => (delay, synthetic),
        }
    }
}

/// Blocks until the limit has passed, for ever without one, or until `stop` is requested.
pub(crate) fn wait(stop: &Stop, limit: Option<Duration>) -> Result<(), Stopped> {
    // A limit past the end of the clock is none.
    let until = limit.and_then(|it| Instant::now().checked_add(it));
    // The lock guards whether the stop was pulled.
    let signal = Arc::new((Mutex::new(false), Condvar::new()));
    stop.on_stop({
        let signal = signal.clone();
        move || {
            *signal.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            signal.1.notify_one();
        }
    });
    let mut stopped = signal.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !*stopped {
        stopped = match until {
            None => signal.1.wait(stopped).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                signal.1.wait_timeout(stopped, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
    let result = if *stopped { Err(Stopped) } else { Ok(()) };
    // The hook may be waiting for it, and is waited for.
    drop(stopped);
    stop.clear_hook();
    result
}

fn burn_for(stop: &Stop, time: Duration) -> Result<(), Stopped> {
    let until = cpu_time().saturating_add(time);
    while cpu_time() < until {
        if stop.is_stopped() {
            return Err(Stopped);
        }
        for _ in 0..64 {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// CPU time that this thread has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Both parts are never negative on a clock that counts from zero.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[track_caller]
    fn check(instance_multiplier: u64, instance: u64, expect_delays: u32) {
        let latency = Latency {
            delay: MILLISECOND,
            instance_multiplier,
            alpha: Duration::ZERO,
            beta: Duration::ZERO,
            mode: Mode::Burn,
        };
        assert_eq!(latency.of(instance, 1, 1.0), (MILLISECOND * expect_delays, Duration::ZERO));
    }

    #[test]
    fn the_first_instance_sleeps_once_the_delay_whatever_the_multiplier() {
        check(0, 0, 1);
        check(5, 0, 1);
    }

    #[test]
    fn later_instances_sleep_multiplier_times_their_number() {
        check(0, 3, 1);
        check(1, 3, 3);
        check(5, 3, 15);
    }

    #[test]
    fn synthetic_latency_is_alpha_and_beta_for_each_row_spent_as_the_mode_says() {
        let mut latency = Latency {
            delay: Duration::ZERO,
            instance_multiplier: 0,
            alpha: MILLISECOND * 10,
            beta: MILLISECOND,
            mode: Mode::Sleep,
        };
        assert_eq!(latency.of(0, 4, 1.0), (MILLISECOND * 14, Duration::ZERO));
        latency.mode = Mode::Burn;
        assert_eq!(latency.of(0, 4, 1.0), (Duration::ZERO, MILLISECOND * 14));
    }

    #[test]
    fn burning_uses_cpu_time_and_sleeping_does_not() {
        let before = cpu_time();
        burn_for(&Stop::new(), MILLISECOND * 20).unwrap();
        let burnt = cpu_time();
        assert!(burnt - before >= MILLISECOND * 20);
        wait(&Stop::new(), Some(MILLISECOND * 20)).unwrap();
        assert!(cpu_time() - burnt < MILLISECOND * 10);
    }

    #[test]
    fn one_stop_serves_several_waits_until_it_is_pulled() {
        let stop = Stop::new();
        assert_eq!(wait(&stop, Some(MILLISECOND)), Ok(()));
        assert_eq!(wait(&stop, Some(Duration::ZERO)), Ok(()));
        stop.stop();
        assert_eq!(wait(&stop, None), Err(Stopped));
        assert_eq!(wait(&stop, Some(Duration::MAX)), Err(Stopped));
    }
}
