//! Running on the calling task: for models so fast that a hand-off to another thread would cost more than
//! the run.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use backend::Stop;

use super::{
    Shared,
    policy::{Decision, Pending, decide},
    queue::Job,
    reply::Reply,
    run::{self, Done, RunTime, Slot, Work},
    state::State,
};
use inference::error::Error;
use telemetry::metrics::{BatchReason, FailureReason};

/// A run must take at least that long for company to be worth a turn of the thread's other tasks: a job that
/// joins is handed from task to task and back, which costs about a microsecond.
const GATHERS_ABOVE: Duration = Duration::from_micros(3);

/// What has gathered may keep its thread for so many times the longest run that is made there.
const LONGEST_GATHERED: u32 = 4;

/// Where a job may run without leaving its thread.
pub(super) enum Here {
    /// At once, on this instance.
    Alone(Slot),
    /// On this instance, after a turn in which others may join; by the number of the gathering.
    Leading(Slot, u64),
    /// With the task that gathers on this thread; by the number of the gathering.
    Joining(u64),
}

impl Shared {
    /// The place of a job on its own thread, if it has one: the model is fast, nobody waits, the job would
    /// not wait either, and an instance is idle or taken by a task that gathers here.
    pub(super) fn place_here(
        &self,
        state: &mut State,
        pending: Pending,
        now: Instant,
    ) -> Option<Here> {
        let threshold = self.settings.caller_runs_below;
        if threshold.is_zero()
            || self.order.is_some()
            || !state.times.are_below(pending.rows, threshold)
            || !state.queue.runs_at_once(pending, now)
        {
            return None;
        }
        let most_rows = self.settings.batching.max_rows;
        let gains = state.times.mean(1).is_some_and(|it| GATHERS_ABOVE <= it);
        if most_rows <= pending.rows || !gains {
            return state.idle.pop().map(Here::Alone);
        }
        let thread = thread::current().id();
        if let Some((id, gathered)) = state.gatherings.on(thread) {
            let rows = gathered + pending.rows;
            let batches = u32::try_from(rows.div_ceil(most_rows)).unwrap_or(u32::MAX);
            let batch = state.times.mean(rows.min(most_rows)).unwrap_or_default();
            let fits = batch.saturating_mul(batches) <= threshold * LONGEST_GATHERED;
            return fits.then_some(Here::Joining(id));
        }
        let slot = state.idle.pop()?;
        if state.gatherings.are_likely() {
            let id = state.gatherings.begin(thread, pending.rows);
            return Some(Here::Leading(slot, id));
        }
        Some(Here::Alone(slot))
    }

    /// Runs one job on the calling task.
    pub(super) fn run_here(self: &Arc<Self>, mut slot: Slot, work: &Work) -> Result<Done, Error> {
        let mut observed = None;
        let stop = Stop::new();
        let mut answers =
            run::run(&mut slot, &self.context, &[work], &stop, &mut |it| observed = Some(*it));
        self.give_back(slot, observed.as_slice());
        answers.pop().unwrap_or_else(|| Err(Error::Internal("no answer".into())))
    }

    /// Ends runs that were made here. The times are those of one execution each.
    fn give_back(self: &Arc<Self>, slot: Slot, times: &[RunTime]) {
        self.observe(times, BatchReason::InPlace);
        let mut state = self.lock();
        state.learn(times);
        for time in times {
            state.learn_turn(time.rows, time.execute);
        }
        let surplus = state.put_back(slot);
        let call = if state.queue.is_empty() { None } else { state.call_worker() };
        drop(state);
        drop(surplus);
        self.wake(call);
    }
}

/// A task that has taken an instance and lets others join. Dropped before it has run, it still runs those
/// that have.
pub(super) struct Leading<'a> {
    shared: &'a Arc<Shared>,
    gathering: u64,
    /// `None` once it has run.
    slot: Option<Slot>,
    pending: Pending,
}

impl<'a> Leading<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        slot: Slot,
        gathering: u64,
        pending: Pending,
    ) -> Leading<'a> {
        Leading { shared, gathering, slot: Some(slot), pending }
    }

    /// Lets the thread's other tasks have their turn, then runs what has gathered.
    pub(super) async fn answer(mut self, work: Work) -> Result<Done, Error> {
        tokio::task::yield_now().await;
        self.run(Some(work)).unwrap_or_else(|| Err(Error::Internal("no answer".into())))
    }

    /// Runs the leading job, if it is still wanted, and those that have joined it; the leading job's answer.
    fn run(&mut self, own: Option<Work>) -> Option<Result<Done, Error>> {
        let mut slot = self.slot.take()?;
        let joined = self.shared.lock().gatherings.end(self.gathering);
        let own = own.map(|work| (None, self.pending, work));
        let joined = joined.into_iter().map(|it| {
            let Job { reply, pending, work, .. } = it;
            (Some(reply), pending, work)
        });
        let jobs: Vec<(Option<Reply>, Pending, Work)> = own.into_iter().chain(joined).collect();
        let mut times = Vec::with_capacity(1);
        let mut answers = Vec::with_capacity(jobs.len());
        let mut rest = jobs.as_slice();
        while !rest.is_empty() {
            let pending = rest.iter().map(|(_, it, _)| *it);
            let batching = &self.shared.settings.batching;
            // As if closing: whoever has gathered does not wait for more.
            let batch = match decide(pending, batching, self.pending.enqueued_at, true) {
                Decision::Run { jobs } => jobs,
                Decision::WaitUntil(_) | Decision::WaitForJob => 1,
            };
            let (batch, later) = rest.split_at(batch.min(rest.len()));
            let works: Vec<&Work> = batch.iter().map(|(_, _, it)| it).collect();
            let observe = &mut |it: &RunTime| times.push(*it);
            answers.extend(run::run(
                &mut slot,
                &self.shared.context,
                &works,
                &Stop::new(),
                observe,
            ));
            rest = later;
        }
        // Before the answers leave: a client that sends its next request at once must find it idle.
        self.shared.give_back(slot, &times);
        let mut own = None;
        for ((reply, ..), answer) in jobs.into_iter().zip(answers) {
            match reply {
                Some(reply) => reply.send(answer),
                None => own = Some(answer),
            }
        }
        own
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if self.slot.is_some() {
            self.run(None);
            let waited = self.pending.enqueued_at.elapsed();
            self.shared.metrics.failure_after(FailureReason::Canceled, waited);
        }
    }
}
