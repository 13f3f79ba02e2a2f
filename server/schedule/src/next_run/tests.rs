//! Facts about queues of rows of unequal length.

use std::time::Duration;

use super::*;
use crate::{
    pack::RunBounds,
    packing::Packing,
    policy::{BatchPolicy, Decision, Pending},
    queue::QueuePolicy,
    reply::Reply,
    work::Work,
};

const MS: Duration = Duration::from_millis(1);

const BOUNDS: RunBounds = RunBounds { rows: 8, tokens: 4096 };

fn queue(levels: usize) -> Queue {
    let policies = vec![QueuePolicy::default(); levels];
    Queue::new(BatchPolicy::eager(2), policies, 0, 0).packed(Some(Packing::new(BOUNDS)))
}

/// A row of that length and kind, that came then.
fn row(length: usize, shape_key: u64, enqueued_at: Instant) -> Job {
    let pending = Pending { rows: 1, enqueued_at, shape_key, length, is_alone: false };
    let work = Work {
        about: None,
        parts: None,
        signature: 0,
        inputs: Vec::new(),
        outputs: Vec::new(),
        rows: 1,
    };
    Job::new(pending, work, None, Reply::none(), None)
}

/// The lengths of the next run, and why they are no more.
fn next(queue: &mut Queue, now: Instant) -> (Vec<usize>, BatchReason) {
    match queue.decide(now, false) {
        Decision::Run { jobs, reason } => {
            let (run, reason) = queue.take_run(jobs, reason, now);
            (run.iter().map(|(_, it)| it.pending.length).collect(), reason)
        }
        Decision::WaitUntil(_) | Decision::WaitForJob => (Vec::new(), BatchReason::Idle),
    }
}

#[test]
fn short_rows_gather_from_between_long_ones() {
    let (mut queue, now) = (queue(1), Instant::now());
    for length in [10, 400, 9, 390, 11] {
        queue.push(0, row(length, 0, now)).unwrap();
    }
    assert_eq!(next(&mut queue, now), (vec![10, 9, 11], BatchReason::Shapes));
    assert_eq!(next(&mut queue, now), (vec![400, 390], BatchReason::Idle));
    assert_eq!(next(&mut queue, now).0, [0; 0]);
    assert!(queue.is_empty() && queue.batches() == 0);
}

#[test]
fn a_run_has_the_rows_that_it_may_have() {
    let (mut queue, now) = (queue(1), Instant::now());
    (0..20).for_each(|_| assert!(queue.push(0, row(16, 0, now)).is_ok()));
    assert_eq!(queue.batches(), 3);
    let sizes = [0, 1, 2].map(|_| next(&mut queue, now).0.len());
    assert_eq!(sizes.iter().sum::<usize>(), 20);
    assert!(sizes.iter().all(|it| *it <= 8), "{sizes:?}");
}

#[test]
fn rows_of_another_kind_do_not_join() {
    let (mut queue, now) = (queue(1), Instant::now());
    for (length, kind) in [(10, 1), (10, 2), (0, 1), (11, 1), (0, 1), (0, 1)] {
        queue.push(0, row(length, kind, now)).unwrap();
    }
    assert_eq!(next(&mut queue, now).0, [10, 11]);
    assert_eq!(next(&mut queue, now).0, [10]);
    // Requests without a length keep the rows of a batch as the policy has them.
    assert_eq!(next(&mut queue, now), (vec![0, 0], BatchReason::Full));
    assert_eq!(next(&mut queue, now), (vec![0], BatchReason::Idle));
}

#[test]
fn a_higher_level_has_the_oldest_and_lower_ones_may_join() {
    let (mut queue, now) = (queue(2), Instant::now());
    queue.push(2, row(400, 0, now)).unwrap();
    queue.push(2, row(12, 0, now)).unwrap();
    queue.push(1, row(10, 0, now)).unwrap();
    assert_eq!(next(&mut queue, now).0, [10, 12]);
    assert_eq!(next(&mut queue, now).0, [400]);
}

#[test]
fn a_low_level_that_was_passed_over_for_long_goes_first() {
    let (mut queue, start) = (queue(2), Instant::now());
    queue.learn_run(1, 16, MS * 4);
    queue.push(2, row(400, 0, start)).unwrap();
    let mut now = start;
    let mut short = 0;
    loop {
        now += MS * 4;
        queue.push(1, row(10, 0, now)).unwrap();
        let (lengths, _) = next(&mut queue, now);
        if lengths == [400] {
            break;
        }
        short += 1;
        assert!(short < 1000, "it never runs");
    }
    // What waits takes some 100 ms.
    assert!((30..200).contains(&short), "after {short} others");
}

#[test]
fn a_run_may_wait_for_company_as_the_policy_says() {
    let policy = BatchPolicy { max_delay: MS * 10, ..BatchPolicy::eager(2) };
    let mut queue = Queue::new(policy, Vec::new(), 0, 0).packed(Some(Packing::new(BOUNDS)));
    let now = Instant::now();
    queue.push(0, row(10, 0, now)).unwrap();
    queue.push(0, row(400, 0, now)).unwrap();
    assert_eq!(queue.decide(now, false), Decision::WaitUntil(now + MS * 10));
    assert_eq!(next(&mut queue, now + MS * 10).0, [10]);
    (0..8).for_each(|_| assert!(queue.push(0, row(10, 0, now)).is_ok()));
    assert_eq!(next(&mut queue, now).0, [400]);
}

#[test]
fn jobs_are_taken_from_wherever_they_stand() {
    let (mut queue, now) = (queue(3), Instant::now());
    for (priority, length) in [(1, 1), (1, 2), (2, 3), (3, 4), (3, 5), (3, 6)] {
        queue.push(priority, row(length, 0, now)).unwrap();
    }
    let lengths = |jobs: Vec<(u64, Job)>| -> Vec<usize> {
        jobs.iter().map(|(_, it)| it.pending.length).collect()
    };
    assert_eq!(lengths(queue.take_at(&[1, 2, 4])), [2, 3, 5]);
    assert_eq!(lengths(queue.take(9)), [1, 4, 6]);
}

#[test]
fn a_row_that_is_to_run_alone_joins_no_other() {
    let (mut queue, now) = (queue(1), Instant::now());
    for (length, is_alone) in [(10, false), (11, true), (12, false)] {
        let mut row = row(length, 0, now);
        row.pending.is_alone = is_alone;
        queue.push(0, row).unwrap();
    }
    assert_eq!(next(&mut queue, now).0, [10, 12]);
    assert_eq!(next(&mut queue, now).0, [11]);
}

#[test]
fn where_merging_stops_each_row_runs_alone() {
    let (mut queue, now) = (queue(1), Instant::now());
    (0..3).for_each(|_| assert!(queue.push(0, row(16, 0, now)).is_ok()));
    queue.stop_merging();
    assert_eq!(next(&mut queue, now), (vec![16], BatchReason::Alone));
}
