//! Running on the calling task: for models so fast that a hand-off to another thread would cost more than
//! the run.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use backend::Stop;

use super::{
    policy::{BatchPolicy, Decision, Pending, decide},
    queue::Job,
    reply::Reply,
    run,
    shared::Shared,
    slot::Slot,
    state::State,
    work::{Done, Work},
    worker,
};
use inference::{error::Error, timings::Timings};
use telemetry::metrics::{BatchReason, FailureReason};

/// A run must take at least that long for it to pay to let the thread's other tasks run first: a job that joins is
/// handed from task to task and back, which costs about a microsecond.
const COALESCE_ABOVE: Duration = Duration::from_micros(3);

/// A coalesced batch may keep its thread for so many times the longest run that is made in place.
const LONGEST_COALESCED: u32 = 4;

/// Where a job may run without leaving its thread.
pub(super) enum InlineRun {
    /// At once, on this instance.
    Alone(Slot),
    /// On this instance, after the thread's other tasks have had a chance to join; by the number of the group.
    Leading(Slot, u64),
    /// With the task that leads the group of this thread; by the number of the group.
    Joining(u64),
}

impl Shared {
    /// How a job runs on its own thread, if it may: the model is fast, no request waits, the job would not wait
    /// either, and an instance is idle or taken by a task of this thread that lets others join.
    pub(super) fn inline_place(
        &self,
        state: &mut State,
        pending: Pending,
        now: Instant,
    ) -> Option<InlineRun> {
        let threshold = self.settings.caller_runs_below;
        if threshold.is_zero()
            || self.order.is_some()
            || !state.times.are_below(pending.rows, threshold)
            || !state.queue.runs_at_once(pending, now)
        {
            return None;
        }
        let most_rows = state.queue.batching().max_rows;
        let gains = state.times.mean(1).is_some_and(|it| COALESCE_ABOVE <= it);
        if most_rows <= pending.rows || !gains {
            return state.idle.pop().map(InlineRun::Alone);
        }
        let thread = thread::current().id();
        if let Some((id, joined)) = state.coalescer.on_thread(thread) {
            let rows = joined + pending.rows;
            let batches = u32::try_from(rows.div_ceil(most_rows)).unwrap_or(u32::MAX);
            let batch = state.times.mean(rows.min(most_rows)).unwrap_or_default();
            let fits = batch.saturating_mul(batches) <= threshold * LONGEST_COALESCED;
            return fits.then_some(InlineRun::Joining(id));
        }
        let slot = state.idle.pop()?;
        if state.coalescer.is_worth_waiting() {
            let id = state.coalescer.open(thread, pending.rows);
            return Some(InlineRun::Leading(slot, id));
        }
        Some(InlineRun::Alone(slot))
    }

    /// Runs one job on the calling task.
    pub(super) fn run_inline(self: &Arc<Self>, mut slot: Slot, work: &Work) -> Result<Done, Error> {
        let mut observed = None;
        let stop = Stop::new();
        let mut answers =
            run::run(&mut slot, &self.context, &[work], &stop, &mut |it| observed = Some(*it));
        self.give_back(slot, observed.as_slice());
        answers.pop().unwrap_or_else(|| Err(Error::Internal("no answer".into())))
    }

    /// Ends runs in place. The times are those of one execution each.
    fn give_back(self: &Arc<Self>, slot: Slot, times: &[Timings]) {
        self.observe(times, BatchReason::InPlace);
        let mut state = self.lock();
        state.learn(times);
        for time in times {
            state.learn_occupancy(time.batch_rows, time.infer);
        }
        let surplus = state.put_back(slot);
        let has_work = !state.queue.is_empty() || state.sample.is_some();
        let wake = if has_work { state.wake_worker() } else { None };
        drop(state);
        drop(surplus);
        worker::wake(self, wake);
    }
}

/// A task that has taken an instance and lets others join. Dropped before it has run, it still runs those
/// that have.
pub(super) struct Leading<'a> {
    shared: &'a Arc<Shared>,
    group: u64,
    /// `None` once it has run.
    slot: Option<Slot>,
    pending: Pending,
}

impl<'a> Leading<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        slot: Slot,
        group: u64,
        pending: Pending,
    ) -> Leading<'a> {
        Leading { shared, group, slot: Some(slot), pending }
    }

    /// Lets the thread's other tasks run first, then runs all that have joined.
    pub(super) async fn answer(mut self, work: Work) -> Result<Done, Error> {
        tokio::task::yield_now().await;
        self.run(Some(work)).unwrap_or_else(|| Err(Error::Internal("no answer".into())))
    }

    /// Runs the leading job, if it is still wanted, and those that have joined it; the leading job's answer.
    fn run(&mut self, own: Option<Work>) -> Option<Result<Done, Error>> {
        let mut slot = self.slot.take()?;
        let joined = self.shared.lock().coalescer.close(self.group);
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
            let alone = BatchPolicy::one_by_one();
            let batching = match self.shared.has_stopped_merging() {
                true => &alone,
                false => &self.shared.settings.batching,
            };
            // As if closing: those that have joined do not wait for more.
            let batch = match decide(pending, batching, self.pending.enqueued_at, true) {
                Decision::Run { jobs, .. } => jobs,
                Decision::WaitUntil(_) | Decision::WaitForJob => 1,
            };
            let (batch, later) = rest.split_at(batch.min(rest.len()));
            let works: Vec<&Work> = batch.iter().map(|(_, _, it)| it).collect();
            let observe = &mut |it: &Timings| times.push(*it);
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
        if let [_] = times.as_slice() {
            let works: Vec<&Work> = jobs.iter().map(|(_, _, it)| it).collect();
            self.shared.sample(&mut self.shared.lock(), &works, &answers);
        }
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

#[cfg(test)]
mod tests;
