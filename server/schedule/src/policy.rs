//! Which queued jobs run now? Pure: data and the time go in, a decision comes out.
//!
//! These are the rules of Triton's dynamic batcher, but for one thing: a batch is formed when an
//! instance is free to take it, never ahead of need, so it is never smaller than it could be.

use std::time::{Duration, Instant};

use telemetry::metrics::BatchReason;

/// When is a batch ready?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPolicy {
    /// Most rows in one batch; a larger first job runs alone. 0: jobs are never merged.
    pub max_rows: usize,
    /// Sizes worth waiting for, ascending; `[max_rows]` when the configuration names none.
    pub preferred_rows: Vec<usize>,
    /// Longest a job waits for others, counted from the oldest in the batch. Zero: a free instance
    /// takes what is there.
    pub max_delay: Duration,
}

impl BatchPolicy {
    /// Every job runs alone, in the order of arrival.
    pub fn one_by_one() -> BatchPolicy {
        BatchPolicy { max_rows: 0, preferred_rows: Vec::new(), max_delay: Duration::ZERO }
    }

    /// The same with batches of no more rows than that.
    pub fn up_to(&self, rows: usize) -> BatchPolicy {
        let max_rows = self.max_rows.min(rows);
        let fits = |it: &usize| *it <= max_rows;
        let mut preferred_rows: Vec<usize> =
            self.preferred_rows.iter().copied().filter(fits).collect();
        if preferred_rows.is_empty() {
            preferred_rows.push(max_rows);
        }
        BatchPolicy { max_rows, preferred_rows, max_delay: self.max_delay }
    }

    /// Batches of up to `max_rows` from whatever is queued when an instance is free.
    pub fn eager(max_rows: usize) -> BatchPolicy {
        BatchPolicy { max_rows, preferred_rows: vec![max_rows], max_delay: Duration::ZERO }
    }
}

/// What the decision needs to know of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Rows in the batch dimension; 1 for a model without one.
    pub rows: usize,
    /// When it was put into the queue.
    pub enqueued_at: Instant,
    /// Jobs run together only if their keys are equal: a hash of the shapes that may vary and of the
    /// optional inputs that are present.
    pub shape_key: u64,
    /// Its length in tokens, where rows of unequal length may run together; else 0.
    pub length: usize,
    /// Does it share a batch with no other job?
    pub is_alone: bool,
}

/// What a free instance should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Run the first `jobs` jobs as one batch.
    Run {
        /// At least 1.
        jobs: usize,
        /// Why the batch has this size.
        reason: BatchReason,
    },
    /// Wait for more jobs, at most until then.
    WaitUntil(Instant),
    /// There is nothing to do.
    WaitForJob,
}

/// What should a free instance do with this queue? `queue` is in the order of service.
///
/// With `closing` nothing waits. Looks at no more jobs than fit one batch, and the one after them.
pub fn decide(
    queue: impl IntoIterator<Item = Pending>,
    policy: &BatchPolicy,
    now: Instant,
    closing: bool,
) -> Decision {
    let mut queue = queue.into_iter();
    let Some(first) = queue.next() else { return Decision::WaitForJob };
    if policy.max_rows == 0 || first.is_alone {
        return Decision::Run { jobs: 1, reason: BatchReason::Alone };
    }
    let is_preferred = |rows| policy.preferred_rows.contains(&rows);
    let largest = policy.preferred_rows.last().copied().unwrap_or(policy.max_rows);

    let (mut jobs, mut rows, mut oldest) = (1, first.rows, first.enqueued_at);
    // Why the job after the last one cannot join; `None` where there is none.
    let mut blocked = None;
    let mut best = is_preferred(rows).then_some(jobs);
    for next in queue {
        if best.is_none() && largest < rows + next.rows {
            best = Some(jobs);
        }
        if next.shape_key != first.shape_key || next.is_alone {
            blocked = Some(BatchReason::Shapes);
            break;
        }
        if policy.max_rows < rows + next.rows {
            blocked = Some(BatchReason::Full);
            break;
        }
        (jobs, rows, oldest) = (jobs + 1, rows + next.rows, oldest.min(next.enqueued_at));
        if is_preferred(rows) {
            best = Some(jobs);
        }
    }

    let due = oldest + policy.max_delay;
    let waits = !policy.max_delay.is_zero();
    let overdue = waits && due <= now;
    let reason = match blocked {
        // Only a preferred size keeps out a job that fits.
        _ if !overdue && best.is_some_and(|it| it < jobs) => BatchReason::Preferred,
        _ if policy.max_rows <= rows => BatchReason::Full,
        Some(blocked) => blocked,
        None if overdue => BatchReason::Delay,
        None if is_preferred(rows) => BatchReason::Preferred,
        None if closing && waits => BatchReason::Closing,
        None => BatchReason::Idle,
    };
    match best {
        Some(jobs) if !overdue => Decision::Run { jobs, reason },
        _ if blocked.is_some() || largest <= rows || overdue || !waits || closing => {
            Decision::Run { jobs, reason }
        }
        _ => Decision::WaitUntil(due),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DELAY: Duration = Duration::from_millis(10);

    fn policy(preferred: &[usize], max_delay: Duration) -> BatchPolicy {
        BatchPolicy { max_rows: 8, preferred_rows: preferred.to_vec(), max_delay }
    }

    /// Jobs of these sizes, the first of them `age` old, under a policy; is this the decision?
    #[track_caller]
    fn check(rows: &[usize], age: Duration, policy: &BatchPolicy, expect: Expect) {
        let start = Instant::now();
        let queue = rows.iter().map(|&rows| Pending {
            rows,
            enqueued_at: start,
            shape_key: 0,
            length: 0,
            is_alone: false,
        });
        let expected = match expect {
            Expect::Run(jobs, reason) => Decision::Run { jobs, reason },
            Expect::WaitUntilDue => Decision::WaitUntil(start + policy.max_delay),
        };
        assert_eq!(decide(queue, policy, start + age, false), expected);
    }

    enum Expect {
        Run(usize, BatchReason),
        WaitUntilDue,
    }
    use BatchReason::{Alone, Closing, Delay, Full, Idle, Preferred, Shapes};
    use Expect::{Run, WaitUntilDue};

    #[test]
    fn a_job_that_shares_no_batch_runs_alone_before_and_behind_others() {
        let now = Instant::now();
        let job = |shape_key, is_alone| Pending {
            rows: 1,
            enqueued_at: now,
            shape_key,
            length: 0,
            is_alone,
        };
        let jobs_of = |queue: [Pending; 3]| match decide(queue, &BatchPolicy::eager(8), now, false)
        {
            Decision::Run { jobs, .. } => jobs,
            other => panic!("{other:?}"),
        };
        assert_eq!(jobs_of([job(1, true), job(1, true), job(1, true)]), 1);
        assert_eq!(jobs_of([job(1, false), job(1, false), job(1, true)]), 2);
    }

    #[test]
    fn an_empty_queue_waits_for_a_job() {
        let decision = decide([], &policy(&[4], DELAY), Instant::now(), true);
        assert_eq!(decision, Decision::WaitForJob);
    }

    #[test]
    fn without_merging_one_job_runs_at_a_time() {
        check(&[1, 1, 1], Duration::ZERO, &BatchPolicy::one_by_one(), Run(1, Alone));
    }

    #[test]
    fn without_delay_all_that_is_there_runs() {
        check(&[1], Duration::ZERO, &BatchPolicy::eager(8), Run(1, Idle));
        check(&[1, 1, 1], Duration::ZERO, &BatchPolicy::eager(8), Run(3, Idle));
        check(&[3, 3, 3], Duration::ZERO, &BatchPolicy::eager(8), Run(2, Full));
        check(&[4, 4], Duration::ZERO, &BatchPolicy::eager(8), Run(2, Full));
        check(&[6, 3], Duration::ZERO, &BatchPolicy::eager(8), Run(1, Full));
    }

    #[test]
    fn a_preferred_size_cuts_the_batch_also_without_delay() {
        check(&[1; 6], Duration::ZERO, &policy(&[4], Duration::ZERO), Run(4, Preferred));
        check(&[1; 2], Duration::ZERO, &policy(&[4], Duration::ZERO), Run(2, Idle));
    }

    #[test]
    fn the_largest_preferred_size_that_can_be_reached_wins() {
        check(&[1; 7], Duration::ZERO, &policy(&[2, 4, 6], DELAY), Run(6, Preferred));
        check(&[1; 5], Duration::ZERO, &policy(&[2, 4, 6], DELAY), Run(4, Preferred));
        check(&[1; 1], Duration::ZERO, &policy(&[2, 4, 6], DELAY), WaitUntilDue);
    }

    #[test]
    fn beyond_the_largest_preferred_size_the_batch_stops_before_it() {
        check(&[5, 3], Duration::ZERO, &policy(&[4], DELAY), Run(1, Preferred));
        check(&[3, 3], Duration::ZERO, &policy(&[4], DELAY), Run(1, Preferred));
    }

    #[test]
    fn a_short_batch_waits_until_the_delay_of_its_oldest_job() {
        check(&[1, 1], DELAY / 2, &policy(&[4], DELAY), WaitUntilDue);
    }

    #[test]
    fn after_the_delay_everything_up_to_the_maximum_runs_uncut() {
        check(&[1; 6], DELAY, &policy(&[4], DELAY), Run(6, Delay));
        check(&[1; 12], DELAY, &policy(&[4], DELAY), Run(8, Full));
        check(&[1, 1], DELAY, &policy(&[4], DELAY), Run(2, Delay));
    }

    #[test]
    fn a_job_that_does_not_fit_ends_the_batch_and_none_is_skipped() {
        check(&[2, 7, 1], Duration::ZERO, &policy(&[8], DELAY), Run(1, Full));
    }

    #[test]
    fn a_job_larger_than_the_maximum_runs_alone() {
        check(&[20, 1], Duration::ZERO, &policy(&[8], DELAY), Run(1, Full));
    }

    #[test]
    fn other_shapes_end_the_batch_at_once() {
        let now = Instant::now();
        let job = |shape_key| Pending {
            rows: 1,
            enqueued_at: now,
            shape_key,
            length: 0,
            is_alone: false,
        };
        let queue = [job(1), job(1), job(2), job(1)];
        let expected = Decision::Run { jobs: 2, reason: Shapes };
        assert_eq!(decide(queue, &policy(&[8], DELAY), now, false), expected);
    }

    #[test]
    fn nothing_waits_when_the_queue_is_closing() {
        let now = Instant::now();
        let queue =
            [Pending { rows: 1, enqueued_at: now, shape_key: 0, length: 0, is_alone: false }];
        let expected = Decision::Run { jobs: 1, reason: Closing };
        assert_eq!(decide(queue, &policy(&[8], DELAY), now, true), expected);
    }

    proptest! {
        #[test]
        fn a_batch_fits_is_uniform_and_never_waits_past_the_delay(
            jobs in prop::collection::vec((1usize..10, 0u64..2, 0u64..20), 0..12),
            preferred in prop::collection::btree_set(1usize..9, 1..4),
            delay in 0u64..15,
        ) {
            let start = Instant::now();
            let now = start + Duration::from_millis(20);
            let policy = policy(&preferred.into_iter().collect::<Vec<_>>(), Duration::from_millis(delay));
            let queue: Vec<Pending> = jobs
                .iter()
                .map(|&(rows, shape_key, at)| Pending {
                    rows, shape_key, enqueued_at: start + Duration::from_millis(at), length: 0, is_alone: false,
                })
                .collect();
            match decide(queue.iter().copied(), &policy, now, false) {
                Decision::Run { jobs, .. } => {
                    let batch = &queue[..jobs];
                    let rows: usize = batch.iter().map(|it| it.rows).sum();
                    prop_assert!(jobs == 1 || rows <= policy.max_rows);
                    prop_assert!(batch.iter().all(|it| it.shape_key == batch[0].shape_key));
                }
                Decision::WaitUntil(at) => {
                    let oldest = queue.iter().map(|it| it.enqueued_at).min().unwrap();
                    prop_assert!(now < at);
                    prop_assert!(at <= oldest + policy.max_delay);
                }
                Decision::WaitForJob => prop_assert!(queue.is_empty()),
            }
        }
    }
}
