//! How the requests of one model version are scheduled. Plain data.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    admission::LongestStay,
    busy::Busy,
    cost::CostTable,
    fast_runs::TimeFollows,
    packing::Packing,
    policy::BatchPolicy,
    queue::QueuePolicy,
    row_check::RowCheck,
    watchdog::{RunLimit, Watchdog},
};

/// How the requests of one model version are scheduled.
#[derive(Debug, Clone)]
pub struct QueueSettings {
    /// Name of the model, for error texts and thread names.
    pub model: Arc<str>,
    /// How jobs are merged.
    pub batching: BatchPolicy,
    /// One per priority level, highest first.
    pub queue_policies: Vec<QueuePolicy>,
    /// Index of the level of jobs that name none.
    pub default_level: usize,
    /// Do replies leave in the order of arrival?
    pub preserve_ordering: bool,
    /// Jobs that must wait before the first batch runs; 0 but in tests.
    pub hold: usize,
    /// How long a request may stay, by prediction.
    pub longest_stay: LongestStay,
    /// Runs expected to be shorter than this are made by the calling task. Zero: never.
    pub caller_runs_below: Duration,
    /// What the time of a run may depend on.
    pub time_follows: TimeFollows,
    /// Longest that a worker without work may look for some before it sleeps. Zero: it sleeps at once.
    pub spin: Duration,
    /// How rows of unequal length run together; `None` where they do not.
    pub packing: Option<Packing>,
    /// Gets what was learned of the cost of their runs when the queue closes.
    pub keep_costs: Option<KeepCosts>,
    /// What becomes of the model when its rows turn out to depend on each other.
    pub row_check: RowCheck,
    /// How long a run may take.
    pub run_limit: RunLimit,
    /// Looks after that.
    pub watchdog: Arc<Watchdog>,
    /// Knows the runs of all models.
    pub busy: Busy,
    /// Niceness of worker threads above that of the process.
    pub niceness: i32,
}

/// Takes what was learned of the cost of runs. Blocking: it may write a file.
#[derive(Clone)]
pub struct KeepCosts(pub Arc<dyn Fn(&CostTable) + Send + Sync>);

impl fmt::Debug for KeepCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeepCosts")
    }
}

/// What it is by default: the threads that talk to clients go before those of models, so that health checks are
/// answered while every processor computes.
pub const NICENESS: i32 = 3;

impl QueueSettings {
    /// The priority that a request has that asks for this one, as clients count: 1 is the highest.
    pub(crate) fn level(&self, asked: u64) -> u64 {
        match asked {
            1.. if asked <= self.queue_policies.len() as u64 => asked,
            _ => self.default_level as u64 + 1,
        }
    }
}
