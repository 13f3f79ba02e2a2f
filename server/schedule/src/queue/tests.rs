//! Facts about the queue.

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
    let pending = Pending { rows, enqueued_at, shape_key: 0, length: 0, is_alone: false };
    let work = Work {
        about: None,
        parts: None,
        signature: 0,
        inputs: Vec::new(),
        outputs: Vec::new(),
        rows,
    };
    let expiry = expiry.map(|at| (at, Duration::from_millis(1)));
    Job { expiry, ..Job::new(pending, work, None, Reply::none(), None) }
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
fn a_job_that_is_put_back_keeps_its_level_and_its_place_there() {
    let mut queue = queue(vec![QueuePolicy::default(); 3]);
    let middle = queue.push(2, job(1, None)).unwrap();
    let low = queue.push(3, job(1, None)).unwrap();
    let later = queue.push(3, job(1, None)).unwrap();
    let taken = queue.take(2);
    let new = queue.ticket();
    queue.put_back(new, job(1, None));
    taken.into_iter().rev().for_each(|(ticket, job)| queue.put_back(ticket, job));
    assert_eq!(next(&mut queue, Instant::now()), [new, middle, low, later]);
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
fn a_worker_looks_again_when_a_job_is_delayed_as_the_others_may_be_of_a_preferred_size() {
    let (now, hour) = (Instant::now(), Duration::from_secs(3600));
    let batching = BatchPolicy { max_rows: 8, preferred_rows: vec![4, 8], max_delay: hour };
    let mut queue = Queue::new(batching, vec![DELAYING], 0, 0);
    let expiry = now + Duration::from_secs(1);
    queue.push(0, job(1, Some(expiry))).unwrap();
    let fresh = [2, 2].map(|rows| queue.push(0, job(rows, None)).unwrap());
    assert_eq!(queue.decide(now, false), Decision::WaitUntil(expiry));
    assert_eq!(next(&mut queue, expiry), fresh);
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
