//! The runs of one model version that have not ended, and what becomes of those that last too long. Plain data.
//!
//! The watchdog looks twice a second. First it asks the engine to stop. If the run does not end, its requests are
//! answered here: replies lie in this state, not on the stack of a thread that may never come back. The thread and its
//! instance are taken out of the counts, so a model loses a place and no request. The number of such threads is
//! bounded.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{Device, Stop};

use super::{
    in_place_runs::{InPlaceRuns, LONGEST_IN_PLACE},
    ratelimit::ResourcePermit,
    reply::Reply,
    rerun::Wish,
};

/// How long a run that was asked to end may still take, at most.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// The same of a run in a process of its model's own, which can be ended.
const GRACE_APART: Duration = Duration::from_secs(1);

/// A run for which no client waits any more has so much more time, at least.
const FOR_NOBODY: Duration = Duration::from_secs(10);

/// Runs that do not end keep their threads. So many instances are made anew for them; then there are fewer instances.
const MOST_REPLACED: usize = 4;

/// A request in a batch.
pub struct Caller {
    /// Which one.
    pub ticket: u64,
    /// When its answer stops being of use.
    pub deadline: Option<Instant>,
    /// Has its client left?
    pub has_left: bool,
}

impl Caller {
    /// One whose client waits.
    pub fn new(ticket: u64, deadline: Option<Instant>) -> Caller {
        Caller { ticket, deadline, has_left: false }
    }
}

/// A batch on an instance, held by a worker thread.
pub struct Running {
    /// The requests in it.
    pub callers: Vec<Caller>,
    /// Where their answers go.
    pub replies: Vec<Reply>,
    /// Their rows.
    pub rows: usize,
    /// Ends it.
    pub stop: Arc<Stop>,
    /// When it began.
    pub started: Instant,
    /// The time that it has.
    pub limit: Option<Duration>,
    /// The time that it has at least where no client waits for it any more. `None`: the same as if one did.
    pub patience: Option<Duration>,
    /// Where its instance is.
    pub device: Device,
    /// Is its instance in a process of its model's own? Then its requests are answered when its time is over, and the
    /// process is ended soon.
    pub is_apart: bool,
    /// What it has of resources: free again when it ends, and when it is given up.
    pub permit: Option<ResourcePermit>,
}

impl Running {
    /// How long it may still take once it was asked to end.
    fn grace(&self, limit: Duration) -> Duration {
        limit.min(if self.is_apart { GRACE_APART } else { GRACE })
    }

    /// How long it has lasted by now, without what it has waited for a process to run in.
    pub fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started).saturating_sub(self.stop.waited(now))
    }
}

/// How a batch has ended.
pub struct Ended {
    /// Where the answers go.
    pub replies: Vec<Reply>,
    /// Where it has lasted longer than it may, and was asked to end, or has ended itself.
    pub overdue: Option<TimeOver>,
}

/// A run has lasted longer than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOver {
    /// The time that it had.
    pub limit: Duration,
    /// Did no client wait for it any more?
    pub is_for_nobody: bool,
}

/// A run that has had its time.
pub struct Overdue {
    /// Asks it to end.
    pub stop: Arc<Stop>,
    /// Those that are answered now. None where it is known only later whether the run is to have an answer.
    pub replies: Vec<Reply>,
    /// The time that it had.
    pub limit: Duration,
}

/// A batch that was asked to end and has not. Its thread and its instance are lost as long as it runs.
pub struct Abandoned {
    /// Gives it up.
    pub stop: Arc<Stop>,
    /// Requests in it.
    pub requests: usize,
    /// Where the answers go that have not been given.
    pub replies: Vec<Reply>,
    /// The time that it had.
    pub time: TimeOver,
    /// Where its instance is.
    pub device: Device,
    /// Is another instance to be made?
    pub is_replaced: bool,
}

struct Batch {
    run: Running,
    /// When it was asked to end, and the time that it had had.
    asked: Option<(Instant, Duration)>,
}

impl Batch {
    /// Have the clients of all of its requests left? Not where it has none, as a run that compares rows.
    fn is_for_nobody(&self) -> bool {
        !self.run.callers.is_empty() && self.run.callers.iter().all(|it| it.has_left)
    }
}

/// Whose thread is lost.
struct Lost {
    stop: Arc<Stop>,
    is_replaced: bool,
}

/// The runs of one model version.
#[derive(Default)]
pub struct Runs {
    /// On worker threads; at most one per place.
    batches: Vec<Batch>,
    /// On the threads of those that asked.
    pub(crate) in_place: InPlaceRuns,
    lost: Vec<Lost>,
}

impl Runs {
    /// A worker starts a batch.
    pub fn begin(&mut self, run: Running) {
        self.batches.push(Batch { run, asked: None });
    }

    /// A worker has finished the batch of that stop. `None` where it was abandoned before. One that `failed` after its
    /// limit has ended itself, though it may not have been asked yet.
    pub fn end(&mut self, stop: &Arc<Stop>, failed: bool, now: Instant) -> Option<Ended> {
        let at = self.batches.iter().position(|it| Arc::ptr_eq(&it.run.stop, stop))?;
        let batch = self.batches.swap_remove(at);
        let is_for_nobody = batch.is_for_nobody();
        let Batch { run, asked, .. } = batch;
        let took = run.lasted(now);
        let outlasted = || run.limit.filter(|limit| failed && *limit <= took);
        let limit = asked.map(|(_, limit)| limit).or_else(outlasted);
        let overdue = limit.map(|limit| TimeOver { limit, is_for_nobody });
        Some(Ended { replies: run.replies, overdue })
    }

    /// Does a batch run on a worker thread?
    pub fn has_batch(&self) -> bool {
        !self.batches.is_empty()
    }

    /// Those on worker threads.
    pub fn batches(&self) -> impl Iterator<Item = &Running> {
        self.batches.iter().map(|it| &it.run)
    }

    /// No client waits for this ticket any more. If that was the last of its batch: the batch's stop.
    pub fn leave(&mut self, ticket: u64, now: Instant) -> Option<Arc<Stop>> {
        let (batch, place) = self.batches.iter_mut().find_map(|it| {
            let place = it.run.callers.iter().position(|it| it.ticket == ticket)?;
            Some((it, place))
        })?;
        batch.run.callers[place].has_left = true;
        if !batch.is_for_nobody() {
            return None;
        }
        let run = &mut batch.run;
        if let Some(patience) = run.patience {
            let limit = run.lasted(now).saturating_add(FOR_NOBODY).max(patience);
            run.limit = Some(run.limit.map_or(limit, |it| it.min(limit)));
        }
        Some(run.stop.clone())
    }

    /// Does somebody wait for the answer of the request at that place of the batch of that stop?
    pub fn wish(&self, stop: &Arc<Stop>, place: usize, now: Instant) -> Wish {
        let batch = self.batches.iter().find(|it| Arc::ptr_eq(&it.run.stop, stop));
        let caller = batch.and_then(|it| it.run.callers.get(place));
        let waits = |it: &&Caller| !it.has_left && it.deadline.is_none_or(|it| now < it);
        caller.filter(waits).map_or(Wish::Gone, |it| Wish::Until(it.deadline))
    }

    /// The runs that have lasted too long by now, each once.
    pub fn overdue(&mut self, now: Instant) -> Vec<Overdue> {
        let mut overdue = Vec::new();
        for batch in self.batches.iter_mut().filter(|it| it.asked.is_none()) {
            let run = &mut batch.run;
            let Some(limit) = run.limit.filter(|it| *it <= run.lasted(now)) else { continue };
            batch.asked = Some((now, limit));
            let answered = if run.is_apart { mem::take(&mut run.replies) } else { Vec::new() };
            overdue.push(Overdue { stop: run.stop.clone(), replies: answered, limit });
        }
        let in_place = self.in_place.overdue(now).into_iter();
        let in_place =
            in_place.map(|stop| Overdue { stop, replies: Vec::new(), limit: LONGEST_IN_PLACE });
        overdue.extend(in_place);
        overdue
    }

    /// Those that were asked to end a while before and have not: they are to be given up.
    pub fn abandon(&mut self, now: Instant) -> Vec<Abandoned> {
        let is_deaf = |it: &Batch| {
            let (asked, limit) = it.asked?;
            let is_deaf = it.run.grace(limit) <= now.saturating_duration_since(asked);
            is_deaf.then_some(limit)
        };
        let mut abandoned = Vec::new();
        while let Some((at, limit)) =
            self.batches.iter().enumerate().find_map(|(at, it)| Some((at, is_deaf(it)?)))
        {
            let batch = self.batches.swap_remove(at);
            let time = TimeOver { limit, is_for_nobody: batch.is_for_nobody() };
            let Running { callers, replies, stop, device, permit, .. } = batch.run;
            // Others are not to wait for a run that does not end.
            drop(permit);
            let (is_replaced, requests) = (self.lost.len() < MOST_REPLACED, callers.len());
            self.lost.push(Lost { stop: stop.clone(), is_replaced });
            abandoned.push(Abandoned { stop, requests, replies, time, device, is_replaced });
        }
        abandoned
    }

    /// When the next of them has lasted too long, or is to be given up. `None` where none may.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = |it: &Batch| match (it.asked, it.run.limit) {
            (Some((asked, limit)), _) => asked.checked_add(it.run.grace(limit)),
            // A run that waits for a process gets as much later as it waits.
            (None, Some(limit)) => {
                it.run.started.checked_add(limit)?.checked_add(it.run.stop.waited(now))
            }
            (None, None) => None,
        };
        self.batches.iter().filter_map(due).chain(self.in_place.next_due()).min()
    }

    /// The thread of an abandoned batch is back after all. Has its instance been replaced?
    pub fn is_back(&mut self, stop: &Arc<Stop>) -> bool {
        let at = self.lost.iter().position(|it| Arc::ptr_eq(&it.stop, stop));
        at.is_some_and(|at| self.lost.swap_remove(at).is_replaced)
    }

    /// Places that have no instance, since a run that does not end has it.
    pub fn places_lost(&self) -> usize {
        self.lost.iter().filter(|it| !it.is_replaced).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const PATIENCE: Duration = Duration::from_secs(50);

    /// A run that somebody waited for has lasted too long.
    const OVER: TimeOver = TimeOver { limit: LIMIT, is_for_nobody: false };

    fn begin(runs: &mut Runs, now: Instant) -> Arc<Stop> {
        begin_within(runs, now, Some(LIMIT), false)
    }

    fn begin_within(
        runs: &mut Runs,
        now: Instant,
        limit: Option<Duration>,
        is_apart: bool,
    ) -> Arc<Stop> {
        let stop = Arc::new(Stop::new());
        let (callers, replies) = (vec![Caller::new(1, None)], vec![Reply::none()]);
        runs.begin(Running {
            callers,
            replies,
            rows: 1,
            stop: stop.clone(),
            started: now,
            limit,
            patience: is_apart.then_some(PATIENCE),
            device: Device::Cpu,
            is_apart,
            permit: None,
        });
        stop
    }

    #[test]
    fn a_batch_is_asked_to_end_once_and_abandoned_when_it_does_not() {
        let (mut runs, now) = (Runs::default(), Instant::now());
        let stop = begin(&mut runs, now);
        assert_eq!(runs.next_due(now), Some(now + LIMIT));
        assert!(runs.overdue(now + LIMIT / 2).is_empty());
        assert!(matches!(&runs.overdue(now + LIMIT)[..], [it] if it.replies.is_empty()));
        assert!(runs.overdue(now + LIMIT * 2).is_empty());
        assert_eq!(runs.next_due(now), Some(now + LIMIT + GRACE));
        assert!(runs.abandon(now + LIMIT).is_empty());
        let abandoned = runs.abandon(now + LIMIT + GRACE);
        assert!(matches!(abandoned[..], [Abandoned { time: OVER, is_replaced: true, .. }]));
        assert_eq!(abandoned[0].replies.len(), 1);
        assert_eq!(runs.next_due(now), None);
        assert!(runs.end(&stop, true, now).is_none() && runs.is_back(&stop));
    }

    #[test]
    fn a_batch_in_a_process_of_its_own_is_answered_at_its_limit_and_soon_given_up() {
        let (mut runs, now) = (Runs::default(), Instant::now());
        begin_within(&mut runs, now, Some(LIMIT), true);
        assert!(matches!(&runs.overdue(now + LIMIT)[..], [it] if it.replies.len() == 1));
        assert!(runs.abandon(now + LIMIT + GRACE_APART / 2).is_empty());
        let abandoned = runs.abandon(now + LIMIT + GRACE_APART);
        assert!(matches!(&abandoned[..], [it] if it.replies.is_empty() && it.requests == 1));
    }

    #[test]
    fn a_batch_that_nobody_waits_for_has_ten_seconds_more_or_its_patience() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        for (limit, is_apart, left_after, expected) in [
            (Some(hour), true, second, Some(PATIENCE)),
            (Some(hour), true, PATIENCE, Some(PATIENCE + FOR_NOBODY)),
            (None, true, second, Some(PATIENCE)),
            (Some(2 * second), true, second, Some(2 * second)),
            (Some(hour), false, second, Some(hour)),
            (None, false, second, None),
        ] {
            let (mut runs, now) = (Runs::default(), Instant::now());
            let stop = begin_within(&mut runs, now, limit, is_apart);
            let asked = runs.leave(1, now + left_after).unwrap();
            assert!(Arc::ptr_eq(&asked, &stop));
            assert_eq!(runs.next_due(now), expected.map(|it| now + it));
        }
    }

    #[test]
    fn a_run_that_nobody_waited_for_says_so_when_it_has_lasted_too_long() {
        let over = TimeOver { limit: PATIENCE, is_for_nobody: true };
        let (mut runs, now) = (Runs::default(), Instant::now());
        let stop = begin_within(&mut runs, now, None, true);
        runs.leave(1, now);
        runs.overdue(now + PATIENCE);
        assert_eq!(runs.end(&stop, true, now + PATIENCE).unwrap().overdue, Some(over));
        begin_within(&mut runs, now, None, true);
        runs.leave(1, now);
        runs.overdue(now + PATIENCE);
        let abandoned = runs.abandon(now + PATIENCE + GRACE_APART);
        assert!(matches!(&abandoned[..], [it] if it.time == over));
    }

    #[test]
    fn a_batch_that_ends_when_it_is_asked_says_so() {
        let (mut runs, now) = (Runs::default(), Instant::now());
        let (slow, quick) = (begin(&mut runs, now), begin(&mut runs, now + LIMIT));
        runs.overdue(now + LIMIT);
        let mut overdue = |stop: &_| runs.end(stop, true, now + LIMIT).unwrap().overdue;
        assert_eq!([overdue(&slow), overdue(&quick)], [Some(OVER), None]);
        assert!(runs.abandon(now + LIMIT * 9).is_empty());
    }

    #[test]
    fn a_run_that_has_ended_itself_before_it_was_asked_is_overdue_all_the_same() {
        let (mut runs, now) = (Runs::default(), Instant::now());
        let mut ended = |failed, took| {
            let stop = begin(&mut runs, now);
            runs.end(&stop, failed, now + took).unwrap().overdue
        };
        assert_eq!(ended(true, LIMIT), Some(OVER));
        assert_eq!([ended(true, LIMIT / 2), ended(false, LIMIT)], [None, None]);
    }

    #[test]
    fn without_a_limit_a_batch_may_take_any_time() {
        let (mut runs, now) = (Runs::default(), Instant::now());
        begin_within(&mut runs, now, None, false);
        assert!(runs.overdue(now + LIMIT * 1000).is_empty());
        assert_eq!(runs.next_due(now), None);
    }

    #[test]
    fn an_answer_is_wished_for_until_its_own_deadline_and_as_long_as_its_client_is_there() {
        let (mut runs, now) = (Runs::default(), Instant::now());
        let stop = begin(&mut runs, now);
        let later = now + LIMIT;
        let callers = [(2, Some(later)), (3, None), (4, None)];
        runs.batches[0].run.callers = callers.map(|(it, by)| Caller::new(it, by)).into();
        assert!(runs.leave(4, now).is_none(), "others wait for the run");
        let wishes = |runs: &Runs, at| [0, 1, 2, 3].map(|it| runs.wish(&stop, it, at));
        let [until_then, always] = [Wish::Until(Some(later)), Wish::Until(None)];
        assert_eq!(wishes(&runs, now), [until_then, always, Wish::Gone, Wish::Gone]);
        assert_eq!(wishes(&runs, later), [Wish::Gone, always, Wish::Gone, Wish::Gone]);
    }

    #[test]
    fn so_many_instances_are_replaced_and_no_more_until_a_run_has_come_back() {
        let (mut runs, now) = (Runs::default(), Instant::now());
        let stops: Vec<_> = (0..=MOST_REPLACED).map(|_| begin(&mut runs, now)).collect();
        runs.overdue(now + LIMIT);
        let abandoned = runs.abandon(now + LIMIT * 2);
        assert_eq!(abandoned.iter().filter(|it| it.is_replaced).count(), MOST_REPLACED);
        assert_eq!(runs.places_lost(), 1);
        let replaced = stops.iter().filter(|it| runs.is_back(it)).count();
        assert_eq!((replaced, runs.places_lost()), (MOST_REPLACED, 0));
    }
}
