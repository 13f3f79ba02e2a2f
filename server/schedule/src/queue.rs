//! The jobs that wait for an instance of one model, by priority. Plain data: locks and threads are
//! elsewhere.
//!
//! A run has one shape: a job whose shapes or optional inputs differ ends the batch, and no job is overtaken. Rows of
//! text are the exception. They have a length, and `pack` finds the cheapest way to cut what waits into runs.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use telemetry::metrics;

use super::{
    pack::WINDOW,
    packing::Packing,
    policy::{BatchPolicy, Decision, Pending, decide},
    reply::Reply,
    work::Work,
};

/// What happens to a job that has waited for longer than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutAction {
    /// It is answered with an error.
    Reject,
    /// It is served after every job of its level that has not expired.
    Delay,
}

/// How one priority level treats its jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Most jobs that wait; `None` for no limit by count.
    pub max_size: Option<usize>,
    /// Longest time in the queue; `None` for no limit. Never interrupts a run.
    pub default_timeout: Option<Duration>,
    /// May a request bring its own, shorter, timeout?
    pub allow_timeout_override: bool,
    /// What happens then.
    pub timeout_action: TimeoutAction,
}

impl Default for QueuePolicy {
    fn default() -> QueuePolicy {
        QueuePolicy {
            max_size: None,
            default_timeout: None,
            allow_timeout_override: false,
            timeout_action: TimeoutAction::Reject,
        }
    }
}

impl QueuePolicy {
    /// How long a job with this `timeout` parameter may wait.
    ///
    /// The parameter can shorten the default, not lengthen it. Without a default it counts as it is,
    /// where Triton would ignore it.
    pub fn timeout(&self, requested: Option<Duration>) -> Option<Duration> {
        let requested = requested.filter(|it| self.allow_timeout_override && !it.is_zero());
        match (self.default_timeout, requested) {
            (Some(default), Some(requested)) => Some(default.min(requested)),
            (default, requested) => default.or(requested),
        }
    }
}

/// One request in the queue.
pub struct Job {
    /// What the batching decision looks at.
    pub pending: Pending,
    /// What to run.
    pub work: Work,
    /// When it has been in the queue for too long, and how long that is.
    pub expiry: Option<(Instant, Duration)>,
    /// When the answer stops being of use.
    pub deadline: Option<Instant>,
    /// Since when jobs that came later have run before it.
    pub passed_over: Option<Instant>,
    /// Has the model's process died in a run of it?
    pub has_crashed: bool,
    /// Is it a later part of a request, which counts with its first?
    pub is_part: bool,
    /// The level that it was put into; `None` before it has been in the queue.
    pub level: Option<usize>,
    /// Where the answer goes.
    pub reply: Reply,
    /// Keeps the job among those that wait, as the metrics see it.
    pub counted: Option<metrics::Pending>,
}

impl Job {
    /// A job that has not run yet, and has no limit to its time in the queue.
    pub fn new(
        pending: Pending,
        work: Work,
        deadline: Option<Instant>,
        reply: Reply,
        counted: Option<metrics::Pending>,
    ) -> Job {
        let (expiry, passed_over, has_crashed, level) = (None, None, false, None);
        let is_part = false;
        Job {
            pending,
            work,
            expiry,
            deadline,
            passed_over,
            has_crashed,
            is_part,
            level,
            reply,
            counted,
        }
    }
}

/// Why a job left the queue without having run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// Its queue timeout, of that length, has passed.
    Expired(Duration),
    /// Its deadline has passed.
    Late,
}

struct QueuedJob {
    ticket: u64,
    job: Job,
}

struct Level {
    policy: QueuePolicy,
    /// In order of arrival, so tickets ascend.
    live: VecDeque<QueuedJob>,
    /// Expired jobs under [`TimeoutAction::Delay`].
    delayed: VecDeque<QueuedJob>,
}

/// The queue of one model version.
pub struct Queue {
    batching: BatchPolicy,
    /// How rows of unequal length run together, where they do.
    packing: Option<Box<Packing>>,
    /// As configured.
    unbounded: BatchPolicy,
    /// Highest priority first; at least one.
    levels: Vec<Level>,
    /// Level of a job that names none, or one that does not exist.
    default_level: usize,
    next_ticket: u64,
    len: usize,
    /// Jobs that are no later parts.
    requests: usize,
    rows: usize,
    /// Jobs that must be here before the first batch forms; 0 once they were. Tests that count batches need it.
    hold: usize,
}

impl Queue {
    /// An empty queue with one level per policy, highest priority first.
    ///
    /// `default_level` is an index into `policies`; `hold` jobs must wait before the first one runs.
    pub fn new(
        batching: BatchPolicy,
        policies: Vec<QueuePolicy>,
        default_level: usize,
        hold: usize,
    ) -> Queue {
        let policies = if policies.is_empty() { vec![QueuePolicy::default()] } else { policies };
        let default_level = default_level.min(policies.len() - 1);
        let levels = policies
            .into_iter()
            .map(|policy| Level { policy, live: VecDeque::new(), delayed: VecDeque::new() })
            .collect();
        let unbounded = batching.clone();
        let (packing, next_ticket, len, requests, rows) = (None, 0, 0, 0, 0);
        Queue {
            batching,
            packing,
            unbounded,
            levels,
            default_level,
            next_ticket,
            len,
            requests,
            rows,
            hold,
        }
    }

    /// The same, where rows of unequal length run together.
    pub fn packed(self, packing: Option<Packing>) -> Queue {
        Queue { packing: packing.map(Box::new), ..self }
    }

    /// How rows of unequal length run together; `None` where they do not.
    pub fn packing(&self) -> Option<&Packing> {
        self.packing.as_deref()
    }

    /// Takes in a run of rows of unequal length.
    pub fn learn_run(&mut self, rows: usize, length: usize, took: Duration) {
        if let Some(packing) = self.packing.as_mut().filter(|_| 0 < length) {
            packing.learn(rows, length, took);
        }
    }

    /// Jobs that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Requests that wait, each once, whatever its number of parts.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// Does nothing wait?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// From now on each job runs alone.
    pub fn stop_merging(&mut self) {
        self.packing = None;
        self.unbounded = BatchPolicy::one_by_one();
        self.batching = BatchPolicy::one_by_one();
    }

    /// From now on a batch has at most so many rows; as many as are configured where it is `None`.
    pub fn bound_rows(&mut self, most: Option<usize>) {
        self.batching = match most {
            Some(most) => self.unbounded.up_to(most),
            None => self.unbounded.clone(),
        };
        if let Some(packing) = &mut self.packing {
            packing.bound_rows(most);
        }
    }

    /// Most rows of a batch as configured.
    pub fn configured_rows(&self) -> usize {
        let packed = self.packing().map_or(0, Packing::configured_rows);
        self.unbounded.max_rows.max(packed)
    }

    /// How jobs are merged.
    pub fn batching(&self) -> &BatchPolicy {
        &self.batching
    }

    /// Batches that the waiting jobs make when they are as full as they may be.
    pub fn batches(&self) -> usize {
        let packed = self.packing().map_or(0, |it| it.bounds().rows);
        match self.batching.max_rows.max(packed) {
            0 => self.len,
            max_rows => self.rows.div_ceil(max_rows),
        }
    }

    /// Rows of a typical one of these.
    pub fn rows_per_batch(&self) -> usize {
        self.rows.checked_div(self.batches()).unwrap_or(1).max(1)
    }

    /// The policy of a request's priority: 1 is the highest level, 0 or an unknown one the default.
    pub fn policy(&self, priority: u64) -> &QueuePolicy {
        &self.levels[self.level(priority)].policy
    }

    fn level(&self, priority: u64) -> usize {
        let index = usize::try_from(priority).ok().and_then(|it| it.checked_sub(1));
        index.filter(|&it| it < self.levels.len()).unwrap_or(self.default_level)
    }

    /// Puts a job at the end of its level and returns the ticket by which it can be withdrawn.
    ///
    /// # Errors
    /// The level's limit, when that many jobs wait in it already.
    pub fn push(&mut self, priority: u64, job: Job) -> Result<u64, usize> {
        let level = &self.levels[self.level(priority)];
        if let Some(limit) = level.policy.max_size
            && limit <= level.live.len() + level.delayed.len()
        {
            return Err(limit);
        }
        Ok(self.push_admitted(priority, job))
    }

    /// The same for a job that is not refused.
    pub fn push_admitted(&mut self, priority: u64, job: Job) -> u64 {
        let index = self.level(priority);
        let ticket = self.ticket();
        self.enter(&job);
        let job = Job { level: Some(index), ..job };
        self.levels[index].live.push_back(QueuedJob { ticket, job });
        if self.hold <= self.len {
            self.hold = 0;
        }
        ticket
    }

    /// Puts a job back that has a ticket already, in the order of arrival: into its level, or the default one where it
    /// has been in none.
    pub fn put_back(&mut self, ticket: u64, job: Job) {
        self.enter(&job);
        let index = job.level.filter(|it| *it < self.levels.len()).unwrap_or(self.default_level);
        let live = &mut self.levels[index].live;
        let at = live.partition_point(|it| it.ticket < ticket);
        live.insert(at, QueuedJob { ticket, job });
    }

    /// The next ticket: above all that were given before.
    pub fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// What should a free instance do?
    pub fn decide(&self, now: Instant, closing: bool) -> Decision {
        if 0 < self.hold && !closing {
            return Decision::WaitForJob;
        }
        let jobs = self.waiting().map(|(_, it)| it.job.pending);
        let decision = match self.packing.as_deref() {
            None => decide(jobs, &self.batching, now, closing),
            Some(packing) => {
                // How many there are decides whether they run, and their lengths which of them do.
                let most = packing.bounds().rows;
                let policy = BatchPolicy {
                    max_rows: most,
                    preferred_rows: vec![most],
                    max_delay: self.batching.max_delay,
                };
                decide(jobs.map(|it| Pending { shape_key: 0, ..it }), &policy, now, closing)
            }
        };
        match decision {
            // Without a job that is delayed then, the others may be of a preferred size.
            Decision::WaitUntil(due) => {
                Decision::WaitUntil(self.next_delayed().map_or(due, |it| it.min(due)))
            }
            decision => decision,
        }
    }

    /// When the next job of a batch is to be delayed.
    fn next_delayed(&self) -> Option<Instant> {
        let delays = |it: &&Level| it.policy.timeout_action == TimeoutAction::Delay;
        let levels = self.levels.iter().filter(delays);
        let jobs = levels.flat_map(|it| it.live.iter().take(self.batching.max_rows));
        jobs.filter_map(|it| it.job.expiry).map(|(at, _)| at).min()
    }

    /// All that wait, in the order of service, with their level.
    fn waiting(&self) -> impl Iterator<Item = (usize, &QueuedJob)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, it)| it.live.iter().chain(&it.delayed).map(move |it| (level, it)))
    }

    /// The first so many that wait, and the first of each level: place in the order of service, level, job.
    pub fn window(&self, most: usize) -> impl Iterator<Item = (usize, usize, &Job)> {
        let mut start = 0;
        self.levels.iter().enumerate().flat_map(move |(number, level)| {
            let first = start;
            start += level.live.len() + level.delayed.len();
            let most = most.saturating_sub(first).max(1);
            let jobs = level.live.iter().chain(&level.delayed).take(most).enumerate();
            jobs.map(move |(at, it)| (first + at, number, &it.job))
        })
    }

    /// Takes the jobs at these places in the order of service, which ascend.
    pub fn take_at(&mut self, places: &[usize]) -> Vec<(u64, Job)> {
        let mut taken = Vec::with_capacity(places.len());
        let (mut start, mut places) = (0, places.iter().copied().peekable());
        for level in &mut self.levels {
            for jobs in [&mut level.live, &mut level.delayed] {
                let end = start + jobs.len();
                let own: Vec<usize> = std::iter::from_fn(|| places.next_if(|it| *it < end))
                    .map(|it| it - start)
                    .collect();
                if let Some(last) = own.last() {
                    let (mut own, mut kept) = (own.iter().copied().peekable(), Vec::new());
                    for (at, entry) in jobs.drain(..=*last).enumerate() {
                        match own.next_if_eq(&at) {
                            Some(_) => taken.push((entry.ticket, entry.job)),
                            None => kept.push(entry),
                        }
                    }
                    kept.into_iter().rev().for_each(|it| jobs.push_front(it));
                }
                start = end;
            }
        }
        taken.iter().for_each(|(_, it)| self.leave(it));
        taken
    }

    /// Notes of the jobs that could have run, and came before that, that others have run in place of them.
    pub fn pass_over(&mut self, newest: Instant, now: Instant) {
        let mut left = WINDOW;
        for level in &mut self.levels {
            let most = left.max(1);
            for entry in level.live.iter_mut().chain(&mut level.delayed).take(most) {
                left = left.saturating_sub(1);
                if entry.job.pending.enqueued_at < newest {
                    entry.job.passed_over.get_or_insert(now);
                }
            }
        }
    }

    fn enter(&mut self, job: &Job) {
        let pending = job.pending;
        self.len += 1;
        self.requests += usize::from(!job.is_part);
        self.rows += pending.rows;
        if let Some(packing) = self.packing.as_mut().filter(|_| 0 < pending.length) {
            packing.enter(pending.length);
        }
    }

    fn leave(&mut self, job: &Job) {
        let pending = job.pending;
        self.len -= 1;
        self.requests -= usize::from(!job.is_part);
        self.rows -= pending.rows;
        if let Some(packing) = self.packing.as_mut().filter(|_| 0 < pending.length) {
            packing.leave(pending.length);
        }
    }

    /// Would a job that came now into the empty queue run at once?
    pub fn runs_at_once(&self, pending: Pending, now: Instant) -> bool {
        let alone = decide([pending], &self.batching, now, false);
        self.is_empty() && self.hold == 0 && matches!(alone, Decision::Run { .. })
    }

    /// Takes the first jobs in the order of service: those that [`Queue::decide`] meant.
    pub fn take(&mut self, jobs: usize) -> Vec<(u64, Job)> {
        let mut taken = Vec::with_capacity(jobs);
        for level in &mut self.levels {
            while taken.len() < jobs
                && let Some(entry) = level.live.pop_front().or_else(|| level.delayed.pop_front())
            {
                taken.push((entry.ticket, entry.job));
            }
        }
        taken.iter().for_each(|(_, it)| self.leave(it));
        taken
    }

    /// Takes one job out again; `None` when it is not in the queue any more. O(log jobs), or O(jobs) for
    /// one that was delayed.
    pub fn withdraw(&mut self, ticket: u64) -> Option<Job> {
        let job = self.levels.iter_mut().find_map(|level| {
            let entry = match level.live.binary_search_by_key(&ticket, |it| it.ticket) {
                Ok(at) => level.live.remove(at),
                Err(_) => {
                    let at = level.delayed.iter().position(|it| it.ticket == ticket)?;
                    level.delayed.remove(at)
                }
            };
            entry.map(|it| it.job)
        })?;
        self.leave(&job);
        Some(job)
    }

    /// Sorts out the expired and the late among the jobs that the next batch could take: behind the others
    /// of their level, or out of the queue into `dropped`, as their policy says.
    pub fn expire(&mut self, now: Instant, dropped: &mut Vec<(Job, Dropped)>) {
        // More jobs than rows fit a batch never join it; each has at least one row, or none at all.
        let packed = if self.packing.is_some() { WINDOW } else { 1 };
        let mut reach = self.batching.max_rows.max(packed);
        let already = dropped.len();
        for level in &mut self.levels {
            let mut at = 0;
            while at < level.live.len() && 0 < reach {
                let job = &level.live[at].job;
                let late = job.deadline.is_some_and(|it| it <= now);
                let expired = job.expiry.filter(|(at, _)| *at <= now);
                if !late && expired.is_none() {
                    (at, reach) = (at + 1, reach - 1);
                    continue;
                }
                let Some(entry) = level.live.remove(at) else { break };
                if !late && level.policy.timeout_action == TimeoutAction::Delay {
                    level.delayed.push_back(entry);
                    continue;
                }
                let reason = match expired {
                    Some((_, limit)) if !late => Dropped::Expired(limit),
                    _ => Dropped::Late,
                };
                dropped.push((entry.job, reason));
            }
        }
        dropped.iter().skip(already).for_each(|(it, _)| self.leave(it));
    }
}

#[cfg(test)]
mod tests;
