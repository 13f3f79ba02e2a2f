//! A bound for the runs of an instance before it serves: a model may never end one, and its load would not end either.

use std::{
    sync::{Arc, Weak, mpsc},
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
    /// The thread that waits, for this one and those within it. It ends with the last of them.
    waiter: mpsc::Sender<Waiting>,
    /// Its drop is the end of this one.
    _over: Arc<()>,
}

/// One that is waited for.
struct Waiting {
    stop: Arc<Stop>,
    at: Instant,
    is_stopped: bool,
    /// Nobody has it once it is over.
    over: Weak<()>,
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
        let (waiter, waiting) = mpsc::channel();
        let builder = thread::Builder::new().name("run-limit".to_owned());
        let spawned = builder.spawn(move || wait(&waiting));
        spawned.map_err(|it| BackendError::Load(format!("cannot start a thread: {it}")))?;
        Ok(RunLimit::of_length(RunLimit::of(limit, device), waiter))
    }

    /// Another within this one, of so long at most.
    ///
    /// # Errors
    /// When there is no time left.
    pub(crate) fn at_most(&self, longest: Duration) -> Result<RunLimit, BackendError> {
        self.check()?;
        // What has to be ended by force takes longer.
        let left = self.limit.saturating_sub(self.started.elapsed()).saturating_sub(DEAF);
        Ok(RunLimit::of_length(left.min(longest), self.waiter.clone()))
    }

    fn of_length(limit: Duration, waiter: mpsc::Sender<Waiting>) -> RunLimit {
        let (stop, over, started) = (Arc::new(Stop::new()), Arc::new(()), Instant::now());
        // A run that ends itself does so when it has been stopped.
        stop.end_by(started.checked_add(limit + LATER));
        if let Some(at) = started.checked_add(limit) {
            let over = Arc::downgrade(&over);
            // The thread is there as long as this one.
            let _ = waiter.send(Waiting { stop: stop.clone(), at, is_stopped: false, over });
        }
        RunLimit { stop, limit, started, waiter, _over: over }
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

/// Stops what is late, and gives up what goes on all the same, until nobody waits any more.
fn wait(waiting: &mpsc::Receiver<Waiting>) {
    let mut all: Vec<Waiting> = Vec::new();
    loop {
        let next = all.iter().map(|it| it.at).min();
        let heard = match next {
            Some(at) => waiting.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => waiting.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
        };
        match heard {
            Ok(another) => all.push(another),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        all.retain_mut(|it| it.over.strong_count() > 0 && (now < it.at || it.is_late(now)));
    }
}

impl Waiting {
    /// Its time is over. Is it waited for once more?
    fn is_late(&mut self, now: Instant) -> bool {
        match self.is_stopped {
            false => self.stop.stop(),
            true => self.stop.give_up(),
        }
        self.at = now + DEAF;
        !std::mem::replace(&mut self.is_stopped, true)
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

    #[test]
    fn one_that_goes_on_is_given_up_and_what_is_around_it_is_not_stopped() {
        let limit = RunLimit::start(None, Device::Cpu).unwrap();
        let within = limit.at_most(Duration::from_millis(5)).unwrap();
        drop(limit.at_most(Duration::from_millis(1)).unwrap());
        let (given_up, is_given_up) = mpsc::channel();
        within.stop().on_give_up(move || given_up.send(()).unwrap());
        is_given_up.recv().unwrap();
        assert!(within.stop().is_stopped() && limit.check().is_ok());
    }
}
