//! What is known of a process that instances of a model version run in, where that is not the server's.

use std::{fmt, time::Duration};

/// The process of a model version's instances on one device, and those that take its place, for those who watch it. It
/// may be held longer than the model: what was counted last can be read when the process is gone.
pub trait ModelProcess: Send + Sync {
    /// What it and those before it have done so far. Looks at the system at most once a second, and only where the
    /// model has run since; a few short reads then.
    fn figures(&self) -> ProcessFigures;

    /// Why no run can be made on its device at this moment, although the model is loaded: there is no process, and none
    /// that would be worth to wait for. Cheap: it is asked before every request.
    fn outage(&self) -> Option<Outage>;

    /// How many processes have ended so far, however they have. Cheap.
    fn ends(&self) -> u64 {
        0
    }

    /// Is there no process, and none started, as it would serve another model than the one that was loaded? Its files
    /// or its engine have changed since: only a load helps, also where nothing else has changed.
    fn is_to_be_loaded_again(&self) -> bool {
        false
    }
}

/// There is no process that could run a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// Why; a sentence.
    pub reason: String,
    /// How long until the next attempt to start one. Zero where it goes on, or is due.
    pub retry_after: Duration,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Why a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// A signal ended it.
    Signal,
    /// It has ended by itself.
    Exit,
    /// The system ended it, as memory had run out.
    Memory,
    /// A run or a start took too long.
    Timeout,
    /// It said what such a process never says.
    Protocol,
    /// It held more memory than it may, and another had taken its place.
    Recycle,
    /// It could not use its GPU any more.
    Device,
}

impl EndReason {
    /// Every reason, in the order of the declaration.
    pub const ALL: [EndReason; 7] = [
        EndReason::Signal,
        EndReason::Exit,
        EndReason::Memory,
        EndReason::Timeout,
        EndReason::Protocol,
        EndReason::Recycle,
        EndReason::Device,
    ];

    /// One word, as metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            EndReason::Signal => "signal",
            EndReason::Exit => "exit",
            EndReason::Memory => "memory",
            EndReason::Timeout => "timeout",
            EndReason::Protocol => "protocol",
            EndReason::Recycle => "recycle",
            EndReason::Device => "device",
        }
    }
}

/// One run in a process of its model's own, as far as the way there and back goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The process.
    pub pid: u32,
    /// From the order to run until the answer was read, less what the process says it has computed.
    pub overhead: Duration,
}

/// What the process of one loaded model version's instances on a device, and those before it, have done so far.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessFigures {
    /// The process that serves; `None` while there is none.
    pub pid: Option<u32>,
    /// Processes that were started in the place of others, by why those had ended: in the order of [`EndReason::ALL`].
    pub restarts: [u64; EndReason::ALL.len()],
    /// How long their starts took, until they had loaded their model.
    pub starts: Times,
    /// What runs took beside what the processes computed.
    pub turn_overheads: Times,
    /// Memory that they share with nobody.
    pub private_bytes: u64,
    /// Memory that they share with the server, for tensors.
    pub arena_bytes: u64,
    /// User and system time of all of them, those that have ended included.
    pub cpu_time: Duration,
    /// Lines that they have written and that were too many for the log.
    pub dropped_lines: u64,
}

impl Default for ProcessFigures {
    fn default() -> ProcessFigures {
        ProcessFigures {
            pid: None,
            restarts: [0; EndReason::ALL.len()],
            starts: Times::of_starts(),
            turn_overheads: Times::of_turns(),
            private_bytes: 0,
            arena_bytes: 0,
            cpu_time: Duration::ZERO,
            dropped_lines: 0,
        }
    }
}

impl ProcessFigures {
    /// All memory that the processes take, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.private_bytes.saturating_add(self.arena_bytes)
    }
}

/// How often something took how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    bounds: &'static [Duration],
    counts: Vec<u64>,
    sum: Duration,
}

impl Times {
    fn new(bounds: &'static [Duration]) -> Times {
        Times { bounds, counts: vec![0; bounds.len() + 1], sum: Duration::ZERO }
    }

    /// None yet, of what takes as long as the start of a process: up to a quarter of an hour.
    pub fn of_starts() -> Times {
        Times::new(&START_BOUNDS)
    }

    /// None yet, of what takes as long as the way to a process and back: from microseconds on.
    pub fn of_turns() -> Times {
        Times::new(&TURN_BOUNDS)
    }

    /// Inclusive upper bounds, rising.
    pub fn bounds(&self) -> &'static [Duration] {
        self.bounds
    }

    /// How many took no longer than each of the bounds and longer than the one before; the last is those that took
    /// longer than all of them.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// One more.
    pub fn observe(&mut self, took: Duration) {
        let place = self.bounds.partition_point(|bound| *bound < took);
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.sum += took;
    }

    /// Those of another, with the same bounds.
    pub fn add(&mut self, more: &Times) {
        self.counts.iter_mut().zip(&more.counts).for_each(|(it, more)| *it += more);
        self.sum += more.sum;
    }
}

const START_BOUNDS: [Duration; 14] = [
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
];

const TURN_BOUNDS: [Duration; 14] = [
    Duration::from_micros(5),
    Duration::from_micros(10),
    Duration::from_micros(20),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(200),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_at_the_first_bound_that_it_does_not_exceed() {
        let mut times = Times::of_starts();
        for millis in [10, 11, 900_000, 900_001] {
            times.observe(Duration::from_millis(millis));
        }
        let counted: Vec<usize> =
            (0..times.counts.len()).filter(|it| times.counts[*it] == 1).collect();
        assert_eq!(counted, [0, 1, 13, 14]);
        assert_eq!(times.sum, Duration::from_millis(1_800_022));
        let once = times.clone();
        times.add(&once);
        assert_eq!((times.counts[13], times.sum), (2, 2 * once.sum));
    }
}
