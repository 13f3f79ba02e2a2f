//! The thread of one instance: it runs the requests of the sequences that sit there.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, MODEL_STACK, Stop};

use super::{
    batch::{self, Rows, RunMode},
    decide::{Candidate, Next, direct, oldest},
    kept_state::on_kept_state,
    row::{Ran, Row},
    running::Running,
    settings::Strategy,
    shared::{Job, LockedState, Shared, Wake, refuse},
    table::{CarriedState, Number, Taken},
};
use crate::{
    ratelimit::ResourcePermit,
    reply::Reply,
    slot::Slot,
    watchdog::{RunPlace, SEEN_AFTER},
    worker::lower_priority,
};
use inference::error::Error;
use telemetry::metrics::BatchReason;

/// Wakes the threads of instances that have work, or starts them.
pub(super) fn start_or_wake(shared: &Arc<Shared>, woken: Vec<Wake>) {
    for Wake { instance, slot } in woken {
        match slot {
            Some(slot) => start(shared, instance, slot),
            None => shared.wake(instance),
        }
    }
}

/// Starts the thread of an instance, which has been counted already.
fn start(shared: &Arc<Shared>, instance: usize, slot: Slot) {
    let name = format!("{}#{}", shared.settings.model, instance + 1);
    let at_end = Ended(shared.clone());
    let spare = slot.another();
    // Taken by the thread, or by this function where the thread could not be started.
    let handed_over = Arc::new(Mutex::new(Some(slot)));
    let take =
        |slot: &Mutex<Option<Slot>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    let slot = handed_over.clone();
    let builder = thread::Builder::new().name(name).stack_size(MODEL_STACK);
    let spawned = builder.spawn(move || {
        let at_end = at_end;
        lower_priority(at_end.0.settings.niceness);
        if let Some(slot) = take(&slot) {
            // What an engine does is caught before it comes here: this would be a defect of the scheduler.
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&at_end.0, instance, slot)));
            if outcome.is_err() {
                recover(&at_end.0, instance, spare);
            }
        }
    });
    if let Err(error) = spawned {
        // The next sequence that sits there tries again.
        let mut state = shared.lock();
        state.unstarted[instance] = take(&handed_over);
        let jobs = state.table.lose(instance);
        drop(state);
        refuse(jobs, &Error::Internal(format!("no thread to run the model on: {error}")));
    }
}

/// After a panic of the instance's thread: the sequences that sat there are over, and the next that sits down there
/// gets another thread.
fn recover(shared: &Arc<Shared>, instance: usize, spare: Slot) {
    let model = &*shared.settings.model;
    tracing::error!(model, instance, "the thread of an instance panicked; its sequences are lost");
    let mut state = shared.lock();
    if let Some(place) = state.unstarted.get_mut(instance) {
        *place = Some(spare);
    }
    let running = state.running.get_mut(instance).and_then(Option::take);
    let jobs = state.table.lose(instance);
    // Some may have waited for a seat.
    let woken = shared.reseat(&mut state, Instant::now());
    drop(state);
    // Those that waited for its answers hear that they were lost.
    drop(running);
    let reason = Error::Internal(format!("the thread that ran model '{model}' was lost"));
    refuse(jobs, &reason);
    start_or_wake(shared, woken);
}

/// Takes a thread out of the count, however it ends.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.lock().threads -= 1;
        // The others may have waited for what this one has run.
        self.0.wake_all();
        self.0.ended.notify_all();
    }
}

/// An instance that is lost, and could not be made anew, is looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Runs batches until the scheduler is closed and nothing is left for this instance.
fn work(shared: &Arc<Shared>, instance: usize, mut slot: Slot) {
    let mut make_after = Instant::now();
    let mut state = shared.lock();
    loop {
        let now = Instant::now();
        let is_lost = slot.is_lost();
        note_lost(&mut state, instance, is_lost, now);
        if is_lost && make_after <= now && !state.closing {
            state = restore(shared, state, instance, &mut slot);
            make_after = Instant::now() + LOOK_AGAIN;
            continue;
        }
        let woken = shared.reseat(&mut state, now);
        if !woken.is_empty() {
            drop(state);
            start_or_wake(shared, woken);
            state = shared.lock();
        }
        let until = match next(shared, &state, instance, now) {
            Next::Run(rows, reason) => {
                state = match slot.limit().cloned() {
                    None => run(shared, state, instance, &mut slot, None, (&rows, reason)),
                    Some(limited) => {
                        drop(state);
                        let permit = Some(limited.acquire());
                        let state = shared.lock();
                        // Of what waits by now.
                        match next(shared, &state, instance, Instant::now()) {
                            Next::Run(rows, reason) => {
                                run(shared, state, instance, &mut slot, permit, (&rows, reason))
                            }
                            Next::WaitUntil(_) | Next::Wait => state,
                        }
                    }
                };
                continue;
            }
            Next::WaitUntil(at) => Some(at),
            Next::Wait if state.closing && state.table.queued() == 0 => return,
            Next::Wait => None,
        };
        let until = until
            .into_iter()
            .chain(state.table.next_expiry(instance, shared.patience(&state)))
            .chain(slot.is_lost().then_some(make_after))
            .min();
        let Some(changed) = shared.changed.get(instance) else { return };
        state = match until {
            None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(at) => {
                let wait = at.saturating_duration_since(now);
                changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// The instance was lost with its process: what sequences had left behind there is gone, which they hear at once. It is
/// made anew, and warmed, where there is another process or one is started.
fn restore<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'_, LockedState>,
    instance: usize,
    slot: &mut Slot,
) -> MutexGuard<'a, LockedState> {
    let jobs = match shared.settings.engine_keeps_state {
        true => state.table.lose_state(instance, &[], |job: &Job| job.start),
        false => Vec::new(),
    };
    let woken = shared.reseat(&mut state, Instant::now());
    drop(state);
    start_or_wake(shared, woken);
    refuse(jobs, &shared.lost());
    if !slot.is_due(Instant::now()) {
        return shared.lock();
    }
    shared.lock().restoring += 1;
    if let Err(error) = slot.fill_anew() {
        tracing::error!(model = %shared.settings.model, %error, "cannot make an instance");
    }
    let mut state = shared.lock();
    state.restoring -= 1;
    state
}

/// Notes since when an instance is lost, or that it is not.
fn note_lost(state: &mut LockedState, instance: usize, is_lost: bool, now: Instant) {
    if let Some(since) = state.lost_since.get_mut(instance) {
        *since = is_lost.then_some(since.unwrap_or(now));
    }
}

/// What should this instance do?
fn next(shared: &Shared, state: &LockedState, instance: usize, now: Instant) -> Next {
    if 0 < state.hold && !state.flushing {
        return Next::Wait;
    }
    let candidates = state.table.heads(instance).map(|it| Candidate {
        row: it.row,
        enqueued_at: it.job.enqueued_at,
        key: it.job.shape_key ^ state_key(shared, it.job, it.carried),
    });
    let candidates: Vec<Candidate> = candidates.collect();
    match &shared.settings.strategy {
        Strategy::Direct(policy) => {
            direct(&candidates, shared.settings.seats, policy, now, state.flushing)
        }
        Strategy::Oldest { batching, .. } => oldest(candidates, batching, now, state.flushing),
    }
}

fn state_key(shared: &Shared, job: &Job, carried: Option<&CarriedState>) -> u64 {
    carried.filter(|_| !job.start).map_or(shared.initial_key, |it| it.key)
}

fn run<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'_, LockedState>,
    instance: usize,
    slot: &mut Slot,
    permit: Option<ResourcePermit>,
    (rows, reason): (&[usize], BatchReason),
) -> MutexGuard<'a, LockedState> {
    let mut taken = state.table.take(instance, rows);
    let replies = taken.iter_mut().map(|it| {
        let mut reply = mem::replace(&mut it.job.reply, Reply::none());
        reply.line_up(shared.order.as_ref());
        reply
    });
    let now = Instant::now();
    let running = Running::new(replies.collect(), permit, now);
    let stop = running.stop.clone();
    let limit = shared.settings.run_limit.of(None, RunPlace::Server);
    stop.limit_to(limit.and_then(|it| now.checked_add(it + SEEN_AFTER)));
    if let Some(place) = state.running.get_mut(instance) {
        *place = Some(running);
    }
    drop(state);
    // They do not wait any more.
    taken.iter_mut().for_each(|it| drop(it.job.counted.take()));
    let Answered { answers, begun } = answers(shared, slot, &taken, reason, &stop);

    // The sequences go on before the answers leave: a client that sends its next request at once must find its own.
    let mut state = shared.lock();
    let now = Instant::now();
    let ran = state.running.get_mut(instance).and_then(Option::take);
    // None of those whose run was given up: they have been answered.
    let was_asked = ran.as_ref().is_some_and(|it| it.asked.is_some());
    let failed = answers.iter().any(Result::is_err);
    let overdue = ran.as_ref().and_then(|it| it.overdue(failed, now, limit));
    let to = ran.map_or(Vec::new(), |it| it.replies);
    let is_whole = slot.is_made() && !was_asked;
    // What the engine keeps is gone with its instance: only what has begun on another goes on.
    let begun = match is_whole {
        true => begun,
        false => shared.settings.engine_keeps_state.then(Vec::new),
    };
    let mut ended = Vec::with_capacity(taken.len());
    for (taken, answer) in taken.into_iter().zip(answers) {
        let Taken { number, job, carried, .. } = taken;
        // A request that failed has changed nothing; but a start is one all the same.
        let before = carried.filter(|_| !job.start);
        let (carried, answer) = match answer {
            Ok(Ran { done, carried }) => (carried, Ok(done)),
            Err(error) => (before, Err(error)),
        };
        state.table.finish(number, carried, job.end, now);
        let is_lost = begun.as_ref().is_some_and(|it| !it.contains(&number));
        ended.push(match (answer, overdue) {
            (Err(_), Some(limit)) => Err(shared.overdue(limit)),
            (Err(Error::Backend(BackendError::Crashed(how))), None) if is_lost => {
                Err(Error::Backend(BackendError::Crashed(format!("{how}; {GONE}"))))
            }
            (answer, _) => answer,
        });
    }
    // Before others sit down there: they have left nothing on the instance that is lost.
    let jobs =
        begun.map_or(Vec::new(), |it| state.table.lose_state(instance, &it, |job: &Job| job.start));
    let woken = shared.reseat(&mut state, now);
    drop(state);
    start_or_wake(shared, woken);
    refuse(jobs, &shared.lost());
    if let Some(limit) = overdue.filter(|_| !to.is_empty()) {
        shared.note_stopped(limit);
    }
    for (reply, answer) in to.into_iter().zip(ended) {
        reply.send(answer);
    }
    shared.lock()
}

/// What a request hears whose process has died in its run with the state of its sequence.
const GONE: &str = "the state of its sequence is lost with it: begin it again with sequence_start";

/// What came of a run.
struct Answered {
    /// One for each request, in their order.
    answers: Vec<Result<Ran, Error>>,
    /// Where the engine keeps state, and what it kept is gone: the sequences that have begun on another instance.
    begun: Option<Vec<Number>>,
}

fn answers(
    shared: &Shared,
    slot: &mut Slot,
    taken: &[Taken<Job>],
    reason: BatchReason,
    stop: &Stop,
) -> Answered {
    fn row(it: &Taken<Job>) -> Row<'_> {
        let Job { work, start, end, .. } = &it.job;
        Row { work, id: &it.id, start: *start, end: *end, carried: it.carried.as_ref() }
    }
    let (layout, rows) = match &shared.settings.strategy {
        Strategy::Direct(_) => {
            let last = taken.iter().map(|it| it.row + 1).max().unwrap_or(0);
            let mut rows = vec![None; last];
            taken.iter().for_each(|it| rows[it.row] = Some(row(it)));
            (Rows::Fixed, rows)
        }
        Strategy::Oldest { .. } => (Rows::Free, taken.iter().map(|it| Some(row(it))).collect()),
    };
    let (rerun, keeps_state) = (shared.settings.rerun, shared.settings.engine_keeps_state);
    let answers_calls = shared.settings.answers_calls;
    let mode = RunMode { rows: layout, rerun, answers_calls, keeps_state };
    let mut times = Vec::with_capacity(1);
    let wiring = &shared.settings.wiring;
    let run = |slot: &mut Slot, rows: &[Option<Row<'_>>]| {
        batch::run(slot, wiring, rows, mode, stop, &mut |it: &_| times.push(*it))
    };
    let _busy_run = shared.settings.busy.begin();
    let (attempts, begun) = match keeps_state {
        true => on_kept_state(slot, &rows, stop, || shared.lost(), run),
        false => ({ run }(slot, &rows), None),
    };
    attempts.reruns.count(&shared.metrics);
    // A batch that succeeds takes one execution.
    shared.observe(&times, if 1 < times.len() { BatchReason::Retry } else { reason });
    let numbers = |begun: Vec<bool>| {
        let all = taken.iter().zip(begun);
        all.filter(|(_, begun)| *begun).map(|(it, _)| it.number).collect()
    };
    Answered { answers: attempts.answers, begun: begun.map(numbers) }
}
