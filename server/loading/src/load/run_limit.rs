//! A bound for the runs of an instance before it serves: a model may never end one, and its load would not end either.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, Device, Stop};

/// On the CPU, where no flag says.
const ON_CPU: Duration = Duration::from_secs(120);

/// On a GPU: TensorRT compiles in the first run, for minutes.
const ON_GPU: Duration = Duration::from_secs(900);

/// A run that was stopped so long ago and goes on is given up: before its load is, so that what ends it by force lets
/// the load fail in order.
const DEAF: Duration = Duration::from_secs(2);

/// So much later a run ends itself that cannot be stopped in between.
const LATER: Duration = Duration::from_millis(100);

/// The flag that says otherwise.
pub(crate) const FLAG: &str = "--load-run-limit-secs";

/// Stops runs when their time is over, until it is dropped.
pub(crate) struct RunLimit {
    stop: Arc<Stop>,
    limit: Duration,
    started: Instant,
    /// Its drop ends the thread that waits.
    _over: mpsc::Sender<()>,
}

impl RunLimit {
    /// The time that there is. `limit` is the flag's, `None` for the device's own.
    pub(crate) fn of(limit: Option<Duration>, device: Device) -> Duration {
        limit.unwrap_or(match device {
            Device::Cpu => ON_CPU,
            Device::Gpu(_) => ON_GPU,
        })
    }

    /// The time begins. `limit` is the flag's, `None` for the device's own.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(limit: Option<Duration>, device: Device) -> Result<RunLimit, BackendError> {
        RunLimit::of_length(RunLimit::of(limit, device))
    }

    /// Another within this one, of so long at most.
    ///
    /// # Errors
    /// When there is no time left, or the system has no thread for it.
    pub(crate) fn at_most(&self, longest: Duration) -> Result<RunLimit, BackendError> {
        self.check()?;
        // What has to be ended by force takes longer.
        let left = self.limit.saturating_sub(self.started.elapsed()).saturating_sub(DEAF);
        RunLimit::of_length(left.min(longest))
    }

    fn of_length(limit: Duration) -> Result<RunLimit, BackendError> {
        let (over, is_over) = mpsc::channel::<()>();
        let stop = Arc::new(Stop::new());
        // A run that ends itself does so when it has been stopped.
        stop.end_by(Instant::now().checked_add(limit + LATER));
        let stopped = stop.clone();
        let wait = move || {
            let is_late =
                |limit| is_over.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_late(limit) {
                stopped.stop();
                if is_late(DEAF) {
                    stopped.give_up();
                }
            }
        };
        let spawned = thread::Builder::new().name("run-limit".to_owned()).spawn(wait);
        spawned.map_err(|it| BackendError::Load(format!("cannot start a thread: {it}")))?;
        Ok(RunLimit { stop, limit, started: Instant::now(), _over: over })
    }

    /// For the runs.
    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// One of so many equal parts of the time that there was.
    pub(crate) fn part(&self, parts: u32) -> Duration {
        self.limit / parts.max(1)
    }

    /// Is there time left? Asked after each run, before what it gave is looked at.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        match self.stop.is_stopped() {
            false => Ok(()),
            true => Err(BackendError::Load(format!(
                "its runs before it serves took longer than {} s and were stopped ({FLAG})",
                self.limit.as_secs_f64()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_stopped_when_their_time_is_over_and_not_before() {
        let limit = RunLimit::start(None, Device::Cpu).unwrap();
        assert!(limit.check().is_ok());
        let short = Duration::from_millis(5);
        let within = limit.at_most(short).unwrap();
        assert_eq!(
            (within.limit, limit.at_most(2 * ON_CPU).unwrap().limit <= ON_CPU),
            (short, true)
        );
        let limit = RunLimit::start(Some(Duration::from_millis(5)), Device::Gpu(0)).unwrap();
        let (stopped, is_stopped) = mpsc::channel();
        limit.stop().on_stop(move || stopped.send(()).unwrap());
        is_stopped.recv().unwrap();
        assert!(limit.check().unwrap_err().to_string().contains("0.005 s"));
    }
}
