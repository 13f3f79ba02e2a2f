//! How long a run took, and how long of that its thread was computing: the rest it may have waited for a processor.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What a thread has computed so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadTime(Duration);

impl ThreadTime {
    /// This thread's. A call of the system, of some 200 ns.
    pub(crate) fn now() -> ThreadTime {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        ThreadTime(Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0)))
    }

    /// What this thread, which is the same, has computed since then.
    pub(crate) fn elapsed(self) -> Duration {
        ThreadTime::now().0.saturating_sub(self.0)
    }
}

/// How long a run took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunTime {
    pub(crate) took: Duration,
    /// How long its thread was computing; `None` where nobody has looked.
    pub(crate) computed: Option<Duration>,
}

impl From<Duration> for RunTime {
    fn from(took: Duration) -> RunTime {
        RunTime { took, computed: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_thread_that_sleeps_computes_nothing_and_one_that_computes_does() {
        let (began, started) = (Instant::now(), ThreadTime::now());
        std::thread::sleep(Duration::from_millis(50));
        assert!(started.elapsed() < began.elapsed() / 2);
        let started = ThreadTime::now();
        while started.elapsed() < Duration::from_millis(5) {}
    }
}
