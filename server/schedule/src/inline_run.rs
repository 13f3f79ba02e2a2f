//! Running on the calling task: for models so fast that a hand-off to another thread would cost more than
//! the run.

use std::{
    iter,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    fast_runs::RunKind,
    in_place_runs::EndedInPlace,
    packing::Packing,
    policy::{BatchPolicy, Decision, Pending, decide},
    queue::Job,
    reply::Reply,
    rerun::{Standing, Wish},
    run::{self, Execution, Jobs, Observed},
    shared::Shared,
    slot::Slot,
    state::State,
    thread_time::{RunTime, ThreadTime},
    waiting::Waiting,
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

/// Jobs of which nothing is known.
fn in_place<'a>(works: &'a [&'a Work], wishes: &'a dyn Fn(usize) -> Wish) -> Jobs<'a> {
    Jobs { works, standing: Standing::default(), wishes }
}

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
        (pending, work): (Pending, &Work),
        deadline: Option<Instant>,
        now: Instant,
    ) -> Option<InlineRun> {
        let threshold = self.settings.caller_runs_below;
        if threshold.is_zero() || self.order.is_some() {
            return None;
        }
        let kind = RunKind::of_job(pending, work);
        let costs = state.queue.packing().map(Packing::costs).filter(|_| 0 < pending.length);
        let is_cheap = costs
            .is_none_or(|it| 0 < it.runs() && it.time(pending.rows, pending.length) < threshold);
        if !is_cheap
            || !state.may_run_in_place(kind, pending.rows, now)
            || !state.queue.runs_at_once(pending, now)
        {
            return None;
        }
        let alone = |state: &mut State, slot: Slot| {
            state.runs.in_place.begin(slot.stop(), deadline, now);
            InlineRun::Alone(slot)
        };
        let most_rows = state.queue.batching().max_rows;
        // Those that would join a row of a text may be longer than it.
        let gains = costs.is_none() && state.times.mean(1).is_some_and(|it| COALESCE_ABOVE <= it);
        if most_rows <= pending.rows || !gains {
            return state.idle.pop().map(|it| alone(state, it));
        }
        let thread = thread::current().id();
        if let Some((id, joined, leading)) = state.coalescer.on_thread(thread) {
            let rows = joined + pending.rows;
            let run = rows.min(most_rows);
            // What they make together is a run of another size.
            let is_known =
                kind.is_like(leading) && state.may_run_in_place(kind.with_rows(run), run, now);
            let batches = u32::try_from(rows.div_ceil(most_rows)).unwrap_or(u32::MAX);
            let batch = state.times.mean(rows.min(most_rows)).unwrap_or_default();
            let fits = batch.saturating_mul(batches) <= threshold * LONGEST_COALESCED;
            return (is_known && fits).then_some(InlineRun::Joining(id));
        }
        let slot = state.idle.pop()?;
        if state.coalescer.is_worth_waiting() {
            let id = state.coalescer.open(thread, pending.rows, kind);
            return Some(InlineRun::Leading(slot, id));
        }
        Some(alone(state, slot))
    }

    /// Runs one job of that length on the calling task. `None` where it took so long that it was stopped.
    pub(super) fn run_inline(
        self: &Arc<Self>,
        mut slot: Slot,
        work: &Work,
        pending: Pending,
    ) -> Option<Result<Done, Error>> {
        let mut observed = Observed::default();
        let (mut time, stop, began) = (None, slot.stop().clone(), ThreadTime::now());
        // It is the task that waits which runs it.
        let wishes = |_| Wish::Until(stop.ends_by());
        // The first time is no list: most runs have one.
        let mut answers = run::run(
            &mut slot,
            &self.context,
            in_place(&[work], &wishes),
            &stop,
            &mut |it| match (it, time) {
                (Execution::Ran(first), None) => time = Some(*first),
                (other, _) => observed.take(&other),
            },
        );
        let ran_out = observed.has_halved(&answers);
        observed.reruns.count(&self.metrics);
        let failed = answers.iter().any(Result::is_err);
        let size = (pending.rows, pending.length, RunKind::of_job(pending, work));
        let was_stopped = match observed.times.is_empty() {
            true => self.give_back(slot, size, (began, time.as_slice()), ran_out, failed),
            false => {
                observed.times.extend(time);
                self.give_back(slot, size, (began, &observed.times), ran_out, failed)
            }
        };
        let answer = answers.pop().unwrap_or_else(|| Err(Error::Internal("no answer".into())));
        (answer.is_ok() || !was_stopped).then_some(answer)
    }

    /// Ends runs in place, begun then, of so many rows of that length and kind. The times are those of one execution
    /// each; `failed`: one has failed. Were they stopped, or have they ended themselves as late?
    fn give_back(
        self: &Arc<Self>,
        mut slot: Slot,
        (rows, length, kind): (usize, usize, RunKind),
        (began, times): (ThreadTime, &[Timings]),
        ran_out: Option<usize>,
        failed: bool,
    ) -> bool {
        self.observe(times, BatchReason::InPlace);
        let mut state = self.lock();
        let now = Instant::now();
        let EndedInPlace { took, was_stopped } = state.runs.in_place.end(slot.stop(), failed, now);
        let runs = times.iter().map(|it| (it.batch_rows, it.infer));
        let stopped = was_stopped.then_some((rows, took));
        let computed = state.fast.is_worth_a_look(took).then(|| began.elapsed());
        let held = RunTime { took, computed };
        state.fast.record_in_place(kind, runs.chain(stopped), held, now);
        if was_stopped {
            slot.renew_stop();
            // The next ones are for the workers, until the model has shown that it is fast again.
            state.times.record(rows, took);
            state.queue.learn_run(rows, length, took);
        }
        state.learn(times);
        for time in times {
            state.learn_occupancy(time.batch_rows, time.infer);
        }
        if let [time] = times
            && 0 < length
        {
            state.queue.learn_run(time.batch_rows, length, time.infer);
            self.metrics.text_run(time.batch_rows, length);
        }
        if ran_out.is_some() || (state.memory_rows().is_some() && !times.is_empty()) {
            self.learn_memory(&mut state, ran_out, now);
        }
        let surplus = state.put_back(slot);
        let has_work = !state.queue.is_empty() || state.sample.is_some();
        let wake = if has_work { state.wake_worker() } else { None };
        drop(state);
        drop(surplus);
        worker::wake(self, wake);
        if was_stopped {
            self.left_thread(took);
        }
        was_stopped
    }

    /// Puts jobs into the queue whose run in place was stopped.
    fn make_again(self: &Arc<Self>, jobs: Vec<(u64, Job)>) {
        let mut state = self.lock();
        jobs.into_iter().for_each(|(ticket, job)| state.queue.put_back(ticket, job));
        self.hints.update(&state);
        let wake = state.wake_needed_worker(Instant::now());
        drop(state);
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
    kind: RunKind,
    /// Is it counted as canceled where its client leaves?
    is_counted: bool,
    deadline: Option<Instant>,
}

/// What became of the job of the task that leads.
enum Led {
    Answered(Result<Done, Error>),
    /// Its run took so long that it was stopped.
    Stopped(Work),
}

/// A job of a group.
struct Member {
    /// `None` for the one that leads.
    joined: Option<Joined>,
    pending: Pending,
    work: Work,
}

/// What a job brought that has joined.
struct Joined {
    ticket: u64,
    reply: Reply,
    deadline: Option<Instant>,
}

impl Member {
    /// Does nobody wait for its answer any more? Not the one that leads: its task runs.
    fn is_gone(&self) -> bool {
        let Some(Joined { reply, deadline, .. }) = &self.joined else { return false };
        !reply.is_awaited() || deadline.is_some_and(|it| it <= Instant::now())
    }
}

impl<'a> Leading<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        slot: Slot,
        group: u64,
        (pending, kind, is_counted): (Pending, RunKind, bool),
        deadline: Option<Instant>,
    ) -> Leading<'a> {
        Leading { shared, group, slot: Some(slot), pending, kind, is_counted, deadline }
    }

    /// Lets the thread's other tasks run first, then runs all that have joined.
    pub(super) async fn answer(mut self, work: Work) -> Result<Done, Error> {
        tokio::task::yield_now().await;
        let Some(led) = self.run(Some(work)) else {
            return Err(Error::Internal("no answer".into()));
        };
        let work = match led {
            Led::Answered(answer) => return answer,
            Led::Stopped(work) => work,
        };
        // It is queued now, and has waited in no queue before.
        let pending = Pending { enqueued_at: Instant::now(), ..self.pending };
        let (shared, deadline) = (self.shared, self.deadline);
        let (reply, receiver) = Reply::channel(None);
        let ticket = shared.lock().queue.ticket();
        let counted = Some(shared.metrics.pending());
        let job = Job::new(pending, work, deadline, reply, counted);
        shared.make_again(vec![(ticket, job)]);
        let (ticket, accepted, expiry) = (Some(ticket), self.pending.enqueued_at, None);
        let is_counted = self.is_counted;
        Waiting { shared, ticket, receiver, accepted, expiry, deadline, is_counted }.answer().await
    }

    /// Runs the leading job, if it is still wanted, and those that have joined it; what became of the leading job.
    fn run(&mut self, own: Option<Work>) -> Option<Led> {
        let mut slot = self.slot.take()?;
        let (stop, began) = (slot.stop().clone(), ThreadTime::now());
        let mut state = self.shared.lock();
        let joined = state.coalescer.close(self.group);
        let bounded = state.memory_rows().map(|_| state.queue.batching().clone());
        state.runs.in_place.begin(&stop, None, Instant::now());
        drop(state);
        let own = own.map(|work| Member { joined: None, pending: self.pending, work });
        let joined = joined.into_iter().map(|(ticket, it)| {
            let Job { reply, pending, work, deadline, .. } = it;
            Member { joined: Some(Joined { ticket, reply, deadline }), pending, work }
        });
        let jobs: Vec<Member> = own.into_iter().chain(joined).collect();
        let mut observed = Observed { times: Vec::with_capacity(1), ..Observed::default() };
        let mut answers = Vec::with_capacity(jobs.len());
        let mut rest = jobs.as_slice();
        while !rest.is_empty() && !stop.is_over() {
            let pending = rest.iter().map(|it| it.pending);
            let alone = BatchPolicy::one_by_one();
            let batching = match self.shared.has_stopped_merging() {
                true => &alone,
                false => bounded.as_ref().unwrap_or(&self.shared.settings.batching),
            };
            // As if closing: those that have joined do not wait for more.
            let batch = match decide(pending, batching, self.pending.enqueued_at, true) {
                Decision::Run { jobs, .. } => jobs,
                Decision::WaitUntil(_) | Decision::WaitForJob => 1,
            };
            let (batch, later) = rest.split_at(batch.min(rest.len()));
            let works: Vec<&Work> = batch.iter().map(|it| &it.work).collect();
            let observe = &mut |it: Execution<'_>| observed.take(&it);
            let is_gone = |place: usize| batch.get(place).is_none_or(Member::is_gone);
            let wishes = |place| match is_gone(place) {
                true => Wish::Gone,
                false => Wish::Until(stop.ends_by()),
            };
            answers.extend(run::run(
                &mut slot,
                &self.shared.context,
                in_place(&works, &wishes),
                &stop,
                observe,
            ));
            rest = later;
        }
        // Before the answers leave: a client that sends its next request at once must find it idle.
        let ran_out = observed.has_halved(&answers);
        observed.reruns.count(&self.shared.metrics);
        if let [_] = observed.times.as_slice() {
            // Those that it had: others may have been left for later runs.
            let works: Vec<&Work> = jobs.iter().map(|it| &it.work).take(answers.len()).collect();
            self.shared.sample(&mut self.shared.lock(), &works, &answers);
        }
        let size = (self.pending.rows, 0, self.kind);
        let failed = !rest.is_empty() || answers.iter().any(Result::is_err);
        let times = (began, observed.times.as_slice());
        let was_stopped = self.shared.give_back(slot, size, times, ran_out, failed);
        self.answer_all(jobs, answers, was_stopped)
    }

    /// Answers the jobs that have run, and has the others made again; what became of the leading job.
    fn answer_all(
        &self,
        jobs: Vec<Member>,
        answers: Vec<Result<Done, Error>>,
        was_stopped: bool,
    ) -> Option<Led> {
        let (mut own, mut again) = (None, Vec::new());
        let answers = answers.into_iter().map(Some).chain(iter::repeat_with(|| None));
        for (member, answer) in jobs.into_iter().zip(answers) {
            let Member { joined, pending, work } = member;
            match (joined, answer.filter(|it| it.is_ok() || !was_stopped)) {
                (Some(joined), Some(answer)) => joined.reply.send(answer),
                (Some(Joined { ticket, reply, deadline }), None) => {
                    let counted = Some(self.shared.metrics.pending());
                    again.push((ticket, Job::new(pending, work, deadline, reply, counted)));
                }
                (None, Some(answer)) => own = Some(Led::Answered(answer)),
                (None, None) => own = Some(Led::Stopped(work)),
            }
        }
        if !again.is_empty() {
            self.shared.make_again(again);
        }
        own
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if self.slot.is_some() {
            self.run(None);
            if !self.is_counted {
                return;
            }
            let waited = self.pending.enqueued_at.elapsed();
            self.shared.metrics.failure_after(FailureReason::Canceled, waited);
        }
    }
}

#[cfg(test)]
mod tests;
