//! The jobs that wait for an instance of one model, by priority. Plain data: locks and threads are
//! elsewhere.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use telemetry::metrics;

use super::{
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
    pub fn timeout(&self, asked: Option<Duration>) -> Option<Duration> {
        let asked = asked.filter(|it| self.allow_timeout_override && !it.is_zero());
        match (self.default_timeout, asked) {
            (Some(default), Some(asked)) => Some(default.min(asked)),
            (default, asked) => default.or(asked),
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
    /// Where the answer goes.
    pub reply: Reply,
    /// Keeps the job among those that wait, as the metrics see it.
    pub counted: Option<metrics::Pending>,
}

/// Why a job left the queue without having run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// Its queue timeout, of that length, has passed.
    Expired(Duration),
    /// Its deadline has passed.
    Late,
}

struct Entry {
    ticket: u64,
    job: Job,
}

struct Level {
    policy: QueuePolicy,
    /// In order of arrival, so tickets ascend.
    live: VecDeque<Entry>,
    /// Expired jobs under [`TimeoutAction::Delay`].
    delayed: VecDeque<Entry>,
}

/// The queue of one model version.
pub struct Queue {
    batching: BatchPolicy,
    /// Highest priority first; at least one.
    levels: Vec<Level>,
    /// Level of a job that names none, or one that does not exist.
    default_level: usize,
    next_ticket: u64,
    len: usize,
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
        Queue { batching, levels, default_level, next_ticket: 0, len: 0, rows: 0, hold }
    }

    /// Jobs that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Does nothing wait?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How jobs are merged.
    pub fn batching(&self) -> &BatchPolicy {
        &self.batching
    }

    /// Batches that the waiting jobs make when they are as full as they may be.
    pub fn batches(&self) -> usize {
        match self.batching.max_rows {
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
        let index = self.level(priority);
        let level = &self.levels[index];
        if let Some(limit) = level.policy.max_size
            && limit <= level.live.len() + level.delayed.len()
        {
            return Err(limit);
        }
        let ticket = self.ticket();
        self.len += 1;
        self.rows += job.pending.rows;
        self.levels[index].live.push_back(Entry { ticket, job });
        if self.hold <= self.len {
            self.hold = 0;
        }
        Ok(ticket)
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
        let jobs = self.levels.iter().flat_map(|it| it.live.iter().chain(&it.delayed));
        decide(jobs.map(|it| it.job.pending), &self.batching, now, closing)
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
        self.len -= taken.len();
        self.rows -= taken.iter().map(|(_, it)| it.pending.rows).sum::<usize>();
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
        self.len -= 1;
        self.rows -= job.pending.rows;
        Some(job)
    }

    /// Sorts out the expired and the late among the jobs that the next batch could take: behind the others
    /// of their level, or out of the queue into `dropped`, as their policy says.
    pub fn expire(&mut self, now: Instant, dropped: &mut Vec<(Job, Dropped)>) {
        // More jobs than rows fit a batch never join it; each has at least one row, or none at all.
        let mut reach = self.batching.max_rows.max(1);
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
                self.len -= 1;
                self.rows -= entry.job.pending.rows;
                let reason = match expired {
                    Some((_, limit)) if !late => Dropped::Expired(limit),
                    _ => Dropped::Late,
                };
                dropped.push((entry.job, reason));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAYING: QueuePolicy = QueuePolicy {
        max_size: None,
        default_timeout: None,
        allow_timeout_override: false,
        timeout_action: TimeoutAction::Delay,
    };

    fn queue(policies: Vec<QueuePolicy>) -> Queue {
        Queue::new(BatchPolicy::eager(8), policies, 0, 0)
    }

    fn job(rows: usize, expiry: Option<Instant>) -> Job {
        let enqueued_at = Instant::now();
        Job {
            pending: Pending { rows, enqueued_at, shape_key: 0 },
            work: Work { inputs: Vec::new(), outputs: Vec::new(), rows },
            expiry: expiry.map(|at| (at, Duration::from_millis(1))),
            deadline: None,
            reply: Reply::detached(),
            counted: None,
        }
    }

    /// The tickets of the next batch.
    fn next(queue: &mut Queue, now: Instant) -> Vec<u64> {
        queue.expire(now, &mut Vec::new());
        match queue.decide(now, false) {
            Decision::Run { jobs, .. } => {
                queue.take(jobs).into_iter().map(|(ticket, _)| ticket).collect()
            }
            Decision::WaitUntil(_) | Decision::WaitForJob => Vec::new(),
        }
    }

    #[test]
    fn higher_levels_go_first_and_a_batch_spans_levels() {
        let mut queue = queue(vec![QueuePolicy::default(); 3]);
        let low = queue.push(3, job(1, None)).unwrap();
        let high = queue.push(1, job(1, None)).unwrap();
        let middle = queue.push(2, job(1, None)).unwrap();
        assert_eq!(next(&mut queue, Instant::now()), [high, middle, low]);
    }

    #[test]
    fn an_unknown_priority_means_the_default_level() {
        let mut queue = Queue::new(BatchPolicy::eager(8), vec![QueuePolicy::default(); 2], 1, 0);
        let unknown = queue.push(9, job(1, None)).unwrap();
        let zero = queue.push(0, job(1, None)).unwrap();
        let high = queue.push(1, job(1, None)).unwrap();
        assert_eq!(next(&mut queue, Instant::now()), [high, unknown, zero]);
    }

    #[test]
    fn a_full_level_refuses_and_says_its_limit() {
        let full = QueuePolicy { max_size: Some(1), ..QueuePolicy::default() };
        let mut queue = queue(vec![full, QueuePolicy::default()]);
        queue.push(1, job(1, None)).unwrap();
        assert_eq!(queue.push(1, job(1, None)), Err(1));
        assert!(queue.push(2, job(1, None)).is_ok());
    }

    #[test]
    fn an_expired_job_is_dropped_with_its_limit() {
        let mut queue = queue(vec![QueuePolicy::default()]);
        let now = Instant::now();
        queue.push(0, job(1, Some(now))).unwrap();
        let mut dropped = Vec::new();
        queue.expire(now, &mut dropped);
        assert_eq!(dropped[0].1, Dropped::Expired(Duration::from_millis(1)));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_delayed_job_goes_behind_its_level_and_is_never_dropped() {
        let mut queue = queue(vec![DELAYING, QueuePolicy::default()]);
        let now = Instant::now();
        let expired = queue.push(1, job(4, Some(now))).unwrap();
        let lower = queue.push(2, job(2, None)).unwrap();
        let fresh = queue.push(1, job(2, None)).unwrap();
        assert_eq!(next(&mut queue, now), [fresh, expired, lower]);
    }

    #[test]
    fn a_late_job_is_dropped_even_where_expired_ones_are_delayed() {
        let mut queue = queue(vec![DELAYING]);
        let now = Instant::now();
        queue.push(0, Job { deadline: Some(now), ..job(1, Some(now)) }).unwrap();
        let mut dropped = Vec::new();
        queue.expire(now, &mut dropped);
        assert_eq!(dropped[0].1, Dropped::Late);
    }

    #[test]
    fn a_withdrawn_job_is_gone_wherever_it_was() {
        let mut queue = queue(vec![DELAYING]);
        let now = Instant::now();
        let delayed = queue.push(0, job(1, Some(now))).unwrap();
        let live = queue.push(0, job(1, None)).unwrap();
        queue.expire(now, &mut Vec::new());
        assert!(queue.withdraw(delayed).is_some());
        assert!(queue.withdraw(live).is_some());
        assert!(queue.withdraw(live).is_none());
        assert!(queue.is_empty());
        assert_eq!(queue.batches(), 0);
    }

    #[test]
    fn a_held_queue_starts_once_enough_jobs_wait() {
        let mut queue = Queue::new(BatchPolicy::eager(8), vec![], 0, 2);
        let first = queue.push(0, job(1, None)).unwrap();
        assert_eq!(next(&mut queue, Instant::now()), [0u64; 0]);
        let second = queue.push(0, job(1, None)).unwrap();
        assert_eq!(next(&mut queue, Instant::now()), [first, second]);
        let third = queue.push(0, job(1, None)).unwrap();
        assert_eq!(next(&mut queue, Instant::now()), [third]);
    }

    #[test]
    fn a_request_can_only_shorten_the_timeout() {
        let ms = Duration::from_millis;
        let mut policy = QueuePolicy { default_timeout: Some(ms(10)), ..QueuePolicy::default() };
        assert_eq!(policy.timeout(Some(ms(5))), Some(ms(10)));
        policy.allow_timeout_override = true;
        assert_eq!(policy.timeout(Some(ms(5))), Some(ms(5)));
        assert_eq!(policy.timeout(Some(ms(50))), Some(ms(10)));
        assert_eq!(policy.timeout(Some(ms(0))), Some(ms(10)));
        policy.default_timeout = None;
        assert_eq!(policy.timeout(Some(ms(5))), Some(ms(5)));
    }
}
