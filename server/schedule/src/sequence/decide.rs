//! Which requests of an instance's sequences run now? Pure: data and the time go in, a decision comes out.

use std::time::Instant;

use super::settings::DirectPolicy;
use crate::policy::{BatchPolicy, Decision, Pending, decide};
use telemetry::metrics::BatchReason;

/// The next request of a sequence that is not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The row of its sequence.
    pub row: usize,
    /// When it came.
    pub enqueued_at: Instant,
    /// Requests run together only if their keys are equal: a hash of shapes, those of the state included.
    pub key: u64,
}

/// What an instance should do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Run the requests of these rows: ascending under the direct strategy, the oldest first otherwise; and why these.
    Run(Vec<usize>, BatchReason),
    /// Wait for more requests, at most until then.
    WaitUntil(Instant),
    /// There is nothing to do.
    Wait,
}

/// The next run where every sequence has its own row of `seats`. The oldest request decides on the shapes; those of
/// other shapes run afterwards. With `flushing` nothing waits.
pub fn direct(
    candidates: &[Candidate],
    seats: usize,
    policy: &DirectPolicy,
    now: Instant,
    flushing: bool,
) -> Next {
    let Some(oldest) = candidates.iter().min_by_key(|it| it.enqueued_at) else { return Next::Wait };
    let utilization = candidates.len() as f32 / seats.max(1) as f32;
    // A delay too long for the clock never ends.
    let due = oldest.enqueued_at.checked_add(policy.max_delay);
    let is_short = utilization < policy.min_utilization && !policy.max_delay.is_zero();
    match due {
        Some(due) if is_short && !flushing && now < due => return Next::WaitUntil(due),
        None if is_short && !flushing => return Next::Wait,
        _ => {}
    }
    let alike = candidates.iter().filter(|it| it.key == oldest.key);
    let mut rows: Vec<usize> = alike.map(|it| it.row).collect();
    rows.sort_unstable();
    let reason = match due {
        _ if seats <= rows.len() => BatchReason::Full,
        _ if rows.len() < candidates.len() => BatchReason::Shapes,
        Some(due) if is_short && due <= now => BatchReason::Delay,
        _ if is_short => BatchReason::Closing,
        _ => BatchReason::Idle,
    };
    Next::Run(rows, reason)
}

/// The next run where the oldest requests share a batch: the rules of the dynamic batcher, over at most one request
/// of each sequence.
pub fn oldest(
    mut candidates: Vec<Candidate>,
    policy: &BatchPolicy,
    now: Instant,
    flushing: bool,
) -> Next {
    candidates.sort_by_key(|it| it.enqueued_at);
    let pending = |it: &Candidate| Pending {
        rows: 1,
        enqueued_at: it.enqueued_at,
        shape_key: it.key,
        length: 0,
        is_alone: false,
    };
    match decide(candidates.iter().map(pending), policy, now, flushing) {
        Decision::Run { jobs, reason } => {
            Next::Run(candidates.iter().take(jobs).map(|it| it.row).collect(), reason)
        }
        Decision::WaitUntil(at) => Next::WaitUntil(at),
        Decision::WaitForJob => Next::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const DELAY: Duration = Duration::from_millis(10);

    /// Requests in these rows, of these shapes, each a millisecond younger than the one before.
    fn candidates(start: Instant, rows: &[(usize, u64)]) -> Vec<Candidate> {
        let candidate = |(age, &(row, key)): (u32, &(usize, u64))| Candidate {
            row,
            enqueued_at: start + Duration::from_millis(1) * age,
            key,
        };
        (0..).zip(rows).map(candidate).collect()
    }

    #[track_caller]
    fn check(rows: &[(usize, u64)], min_utilization: f32, age: Duration, expect: Next) {
        let start = Instant::now();
        let policy = DirectPolicy { max_delay: DELAY, min_utilization };
        let expect = match expect {
            Next::WaitUntil(_) => Next::WaitUntil(start + DELAY),
            other => other,
        };
        let candidates = candidates(start, rows);
        assert_eq!(direct(&candidates, 4, &policy, start + age, false), expect);
    }

    #[test]
    fn without_a_least_utilization_one_row_is_enough_and_the_delay_means_nothing() {
        check(&[(2, 0)], 0.0, Duration::ZERO, Next::Run(vec![2], BatchReason::Idle));
        check(&[], 0.0, Duration::ZERO, Next::Wait);
    }

    #[test]
    fn too_few_rows_wait_until_the_delay_of_the_oldest() {
        check(&[(2, 0)], 0.5, DELAY / 2, Next::WaitUntil(Instant::now()));
        check(&[(2, 0)], 0.5, DELAY, Next::Run(vec![2], BatchReason::Delay));
        let enough = Next::Run(vec![0, 2], BatchReason::Idle);
        check(&[(2, 0), (0, 0)], 0.5, Duration::ZERO, enough);
    }

    #[test]
    fn a_row_for_every_seat_is_a_full_batch() {
        let rows = [(3, 0), (1, 0), (0, 0), (2, 0)];
        check(&rows, 1.0, Duration::ZERO, Next::Run(vec![0, 1, 2, 3], BatchReason::Full));
    }

    #[test]
    fn rows_of_other_shapes_than_the_oldest_run_later() {
        let expect = Next::Run(vec![0, 3], BatchReason::Shapes);
        check(&[(3, 7), (1, 8), (0, 7)], 0.0, Duration::ZERO, expect);
    }

    #[test]
    fn nothing_waits_on_the_way_out() {
        let now = Instant::now();
        let policy = DirectPolicy { max_delay: DELAY, min_utilization: 1.0 };
        let expect = Next::Run(vec![0], BatchReason::Closing);
        assert_eq!(direct(&candidates(now, &[(0, 0)]), 4, &policy, now, true), expect);
    }

    #[test]
    fn a_delay_that_never_ends_waits_for_other_rows() {
        let now = Instant::now();
        let policy = DirectPolicy { max_delay: Duration::MAX, min_utilization: 1.0 };
        assert_eq!(direct(&candidates(now, &[(0, 0)]), 4, &policy, now, false), Next::Wait);
    }

    #[test]
    fn the_oldest_requests_go_first_whatever_their_rows() {
        let now = Instant::now();
        let candidates = candidates(now, &[(5, 0), (1, 0), (3, 0)]);
        let policy = BatchPolicy::eager(2);
        let expect = Next::Run(vec![5, 1], BatchReason::Full);
        assert_eq!(oldest(candidates, &policy, now, false), expect);
    }
}
