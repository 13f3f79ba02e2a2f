//! Why does a batch have the size that it has? Pure: what was taken, what was left and the rules go in, a reason
//! comes out.

use std::time::Instant;

use super::policy::{BatchPolicy, Pending};
use telemetry::metrics::BatchReason;

/// The reason for the size of a batch that was formed at `now`: its jobs, and the job that would have been next.
/// `closing`: nothing waited.
pub fn reason(
    batch: impl IntoIterator<Item = Pending>,
    next: Option<Pending>,
    policy: &BatchPolicy,
    now: Instant,
    closing: bool,
) -> BatchReason {
    if policy.max_rows == 0 {
        return BatchReason::Alone;
    }
    let mut batch = batch.into_iter();
    let Some(first) = batch.next() else { return BatchReason::Idle };
    let (rows, oldest) = batch.fold((first.rows, first.enqueued_at), |(rows, oldest), it| {
        (rows + it.rows, oldest.min(it.enqueued_at))
    });
    let overdue = !policy.max_delay.is_zero() && oldest + policy.max_delay <= now;
    let preferred = policy.preferred_rows.contains(&rows);
    match next {
        _ if policy.max_rows <= rows => BatchReason::Full,
        Some(next) if next.shape_key != first.shape_key => BatchReason::Shapes,
        Some(next) if policy.max_rows < rows + next.rows => BatchReason::Full,
        // Nothing but a preferred size keeps out a job that fits.
        Some(_) => BatchReason::Preferred,
        None if overdue => BatchReason::Delay,
        None if preferred => BatchReason::Preferred,
        None if closing && !policy.max_delay.is_zero() => BatchReason::Closing,
        None => BatchReason::Idle,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DELAY: Duration = Duration::from_millis(10);

    fn policy(preferred: &[usize], max_delay: Duration) -> BatchPolicy {
        BatchPolicy { max_rows: 8, preferred_rows: preferred.to_vec(), max_delay }
    }

    /// Jobs of these sizes, `age` old, and one more of that size.
    #[track_caller]
    fn check(
        rows: &[usize],
        next: Option<usize>,
        age: Duration,
        policy: &BatchPolicy,
        expect: BatchReason,
    ) {
        let start = Instant::now();
        let job = |rows| Pending { rows, enqueued_at: start, shape_key: 0 };
        let batch = rows.iter().map(|it| job(*it));
        assert_eq!(reason(batch, next.map(job), policy, start + age, false), expect);
    }

    #[test]
    fn a_model_that_does_not_batch_runs_alone() {
        check(&[1], Some(1), DELAY, &BatchPolicy::one_by_one(), BatchReason::Alone);
    }

    #[test]
    fn a_batch_is_full_with_all_rows_or_when_the_next_job_has_too_many() {
        let eager = BatchPolicy::eager(8);
        check(&[4, 4], None, DELAY, &eager, BatchReason::Full);
        check(&[20], Some(1), DELAY, &eager, BatchReason::Full);
        check(&[6], Some(3), DELAY, &eager, BatchReason::Full);
    }

    #[test]
    fn what_is_there_runs_when_an_instance_is_free() {
        check(&[1, 1], None, DELAY, &BatchPolicy::eager(8), BatchReason::Idle);
    }

    #[test]
    fn a_preferred_size_cuts_and_a_passed_delay_does_not_wait_for_one() {
        check(&[4], Some(1), DELAY / 2, &policy(&[4], DELAY), BatchReason::Preferred);
        check(&[4], None, DELAY / 2, &policy(&[4], DELAY), BatchReason::Preferred);
        check(&[3], Some(3), DELAY / 2, &policy(&[4], DELAY), BatchReason::Preferred);
        check(&[3], None, DELAY, &policy(&[4], DELAY), BatchReason::Delay);
    }

    #[test]
    fn other_shapes_and_the_end_are_reasons() {
        let now = Instant::now();
        let job = |shape_key| Pending { rows: 1, enqueued_at: now, shape_key };
        let policy = policy(&[4], DELAY);
        assert_eq!(reason([job(1)], Some(job(2)), &policy, now, false), BatchReason::Shapes);
        assert_eq!(reason([job(1)], None, &policy, now, true), BatchReason::Closing);
    }
}
