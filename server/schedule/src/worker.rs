//! The thread that forms batches and runs them, whenever it can have an instance.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use backend::{MODEL_STACK, Stop};

use super::{
    busy::Looking,
    moved::{Left, Waited},
    policy::Decision,
    queue::{Dropped, Job},
    ratelimit::{Limited, ResourcePermit},
    rerun::Standing,
    row_check::Sample,
    run::{self, Execution, Jobs, Observed},
    running::{Caller, Ended as EndedRun, Running},
    shared::Shared,
    slot::Slot,
    state::{State, Wake},
    watchdog::{RunPlace, SEEN_AFTER},
    work::Work,
};
use inference::error::Error;
use telemetry::metrics::{BatchReason, Rerun};

/// Wakes a parked worker, or starts a new one.
pub(super) fn wake(shared: &Arc<Shared>, wake: Option<Wake>) {
    match wake {
        Some(Wake::Parked) => shared.changed.notify_one(),
        Some(Wake::New(number)) => start(shared.clone(), number),
        None => (),
    }
}

/// Starts worker `number` of the scheduler, which has been counted already.
fn start(shared: Arc<Shared>, number: usize) {
    let name = format!("{}#{number}", shared.settings.model);
    let at_end = Ended { shared: shared.clone(), is_counted: true };
    let builder = thread::Builder::new().name(name).stack_size(MODEL_STACK);
    let spawned = builder.spawn(move || {
        let mut at_end = at_end;
        lower_priority(at_end.shared.settings.niceness);
        at_end.is_counted = work(&at_end.shared);
    });
    if let Err(error) = spawned {
        // The closure is gone, and with it the count of this thread. If there is no other, the queue
        // would never be served.
        let state = shared.lock();
        if state.threads == 0 {
            let reason = Error::Internal(format!("no thread to run the model on: {error}"));
            drop(fail_all(&shared, state, &reason));
        }
    }
}

/// Takes a thread out of the count, however it ends.
struct Ended {
    shared: Arc<Shared>,
    is_counted: bool,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let mut state = self.shared.lock();
        state.threads -= 1;
        // A request that came since this one has looked has found a thread too many to start another.
        let woken = state.wake_needed_worker(Instant::now());
        drop(state);
        // The others may have waited for the jobs that this one has run.
        self.shared.changed.notify_all();
        self.shared.ended.notify_all();
        wake(&self.shared, woken);
    }
}

/// Lets the threads that talk to clients go before this one.
pub(super) fn lower_priority(niceness: i32) {
    let (process, thread) = (rustix::process::getpid(), rustix::thread::gettid());
    // From the process, not from this thread, which inherits the niceness of the thread that started it.
    let lowered = rustix::process::getpriority_process(Some(process))
        .and_then(|it| rustix::process::setpriority_process(Some(thread), it + niceness));
    // Only a preference: where the system refuses it, serving goes on.
    if let Err(error) = lowered {
        tracing::debug!(%error, "cannot lower the priority of a worker thread");
    }
}

/// Runs batches until the queue is closed and empty; true then. False once another thread has taken the place of this
/// one, whose run had been given up.
fn work(shared: &Arc<Shared>) -> bool {
    let mut dropped = Vec::new();
    // When this thread's last run ended, if the next batch was ready by then: what passes from there to the next run
    // keeps that batch waiting as much as the run does.
    let mut busy_since = None;
    let mut state = shared.lock();
    loop {
        let now = Instant::now();
        let closing = state.closing;
        state.queue.expire(now, &mut dropped);
        if !dropped.is_empty() {
            drop(state);
            answer_dropped(shared, &mut dropped, now);
            state = shared.lock();
            continue;
        }
        // The answers have left.
        let has_instance = state.has_idle() && !closing;
        if let Some(sample) = state.sample.take_if(|_| has_instance)
            && let Some(slot) = state.take_idle()
        {
            match check_rows(shared, state, slot, &sample) {
                Some(locked) => state = locked,
                None => return false,
            }
            continue;
        }
        let until = match state.queue.decide(now, state.flushing) {
            Decision::Run { jobs, reason } => {
                if let Some(slot) = state.take_idle() {
                    state.spin.found(now, jobs == 1 && shared.settings.busy.is_idle());
                    let busy = &mut busy_since;
                    let locked = match slot.limit().cloned() {
                        None => run_batch(shared, state, slot, None, (jobs, reason), (now, busy)),
                        Some(limited) => run_limited(shared, state, slot, limited, busy),
                    };
                    match locked {
                        Some(locked) => state = locked,
                        None => return false,
                    }
                    continue;
                }
                if let Some(slot) = state.place_to_fill(now) {
                    busy_since = None;
                    state = fill(shared, state, slot);
                    continue;
                }
                // An instance comes back, or it is time to try again to make one, or to look for one.
                state.looks_at(now)
            }
            // Places were taken away: there are others for whatever comes.
            Decision::WaitForJob if closing || state.slots < state.threads => return true,
            Decision::WaitForJob => {
                let is_wanted = !state.has_lost_place(now);
                let is_idle = shared.settings.busy.is_idle();
                if let Some(until) = state.spin.spin_until(now, is_idle).filter(|_| is_wanted)
                    && let Some(looking) = shared.settings.busy.look()
                {
                    busy_since = None;
                    state = spin_for_work(shared, state, &looking, until);
                    continue;
                }
                None
            }
            Decision::WaitUntil(at) => Some(at),
        };
        // Nothing waits that could be run now.
        if let Some(slot) = state.lost_place(now) {
            busy_since = None;
            state = fill(shared, state, slot);
            continue;
        }
        busy_since = None;
        state.park(until);
        state = match until {
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(at) => {
                let wait = at.saturating_duration_since(now);
                let waited = shared.changed.wait_timeout(state, wait);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.unpark(until);
    }
}

/// Looks for work without going to sleep, no longer than until then, nor than another model has some.
fn spin_for_work<'a>(
    shared: &'a Shared,
    mut state: MutexGuard<'_, State>,
    looking: &Looking<'_>,
    until: Instant,
) -> MutexGuard<'a, State> {
    state.spinning += 1;
    drop(state);
    while !shared.hints.has_work() && looking.may_go_on() && Instant::now() < until {
        std::hint::spin_loop();
    }
    let mut state = shared.lock();
    state.spinning -= 1;
    shared.hints.update(&state);
    state
}

/// Runs a batch once the resources of the instance are free: of what waits by then.
fn run_limited<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'_, State>,
    slot: Slot,
    limited: Arc<Limited>,
    busy_since: &mut Option<Instant>,
) -> Option<MutexGuard<'a, State>> {
    state.awaiting.push(slot);
    drop(state);
    let permit = limited.clone().acquire();
    let mut state = shared.lock();
    // Nobody else takes it.
    let Some(slot) = state.take_awaiting(&limited) else { return Some(state) };
    let now = Instant::now();
    match state.queue.decide(now, state.flushing) {
        Decision::Run { jobs, reason } => {
            run_batch(shared, state, slot, Some(permit), (jobs, reason), (now, busy_since))
        }
        // The requests that waited have left.
        Decision::WaitUntil(_) | Decision::WaitForJob => {
            let surplus = state.put_back(slot);
            drop(state);
            drop(surplus);
            Some(shared.lock())
        }
    }
}

/// Runs a batch that this thread could have run since `busy_since`, if that is known, and notes there from when on it
/// could run the next. `None` where the run was given up before it ended, and another thread works in place of this
/// one.
fn run_batch<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'_, State>,
    mut slot: Slot,
    permit: Option<ResourcePermit>,
    (jobs, reason): (usize, BatchReason),
    (now, busy_since): (Instant, &mut Option<Instant>),
) -> Option<MutexGuard<'a, State>> {
    let (taken, reason) = state.queue.take_run(jobs, reason, now);
    let occupied_since = busy_since.take().unwrap_or(now);
    let stop = Arc::new(Stop::new());
    let rows = taken.iter().map(|(_, it)| it.pending.rows).sum();
    let lengths = || taken.iter().map(|(_, it)| it.pending.length);
    let length = lengths().max().unwrap_or(0);
    let is_padded = lengths().any(|it| it != length);
    // As long as one of them may wait.
    let deadline =
        taken.iter().map(|(_, it)| it.deadline).reduce(|a, b| Some(a?.max(b?))).flatten();
    // Runs of other signatures than the first have times of their own, of which nothing is known.
    let is_known = taken.iter().all(|(_, it)| it.work.signature == 0);
    let place = if is_known { slot.run_place() } else { RunPlace::Server };
    let usual = state.usual_time(rows);
    let (limit, patience) = (shared.settings.run_limit.of(usual, place), place.patience(usual));
    let ends = limit.and_then(|it| now.checked_add(it + SEEN_AFTER));
    stop.end_by(deadline);
    stop.limit_to(ends);
    let has_crashed = matches!(&taken[..], [(_, only)] if only.has_crashed);
    let standing = Standing { has_crashed, moves: state.may_move(&slot) };
    let mut callers = Vec::with_capacity(taken.len());
    let mut replies = Vec::with_capacity(taken.len());
    let mut works: Vec<Work> = Vec::with_capacity(taken.len());
    let mut waited = Vec::new();
    for (ticket, job) in taken {
        // Its metrics do not count it among those that wait any more.
        let Job { reply, work, pending, deadline, level, .. } = job;
        callers.push(Caller::new(ticket, deadline));
        replies.push(reply);
        works.push(work);
        if standing.moves {
            waited.push(Waited { ticket, pending, deadline, level });
        }
    }
    let (device, is_apart) = (slot.device(), slot.is_apart());
    let (run_stop, started) = (stop.clone(), now);
    let run = Running {
        callers,
        replies,
        rows,
        stop: run_stop,
        started,
        limit,
        patience,
        device,
        is_apart,
        permit,
    };
    state.runs.begin(run);
    let busy_run = shared.settings.busy.begin();
    slot.may_run_wide(busy_run.is_only && state.queue.is_empty());
    let woken = state.wake_needed_worker(now);
    shared.hints.update(&state);
    drop(state);
    wake(shared, woken);

    let owned = works;
    let works: Vec<&Work> = owned.iter().collect();
    let mut observed = Observed { times: Vec::with_capacity(1), ..Observed::default() };
    let observe = &mut |it: Execution<'_>| observed.take(&it);
    let wishes = |place| shared.lock().runs.wish(&stop, place, Instant::now());
    let jobs = Jobs { works: &works, standing, wishes: &wishes };
    let answers = run::run(&mut slot, &shared.context, jobs, &stop, observe);
    slot.may_run_wide(false);
    drop(busy_run);
    let ran_out = observed.has_halved(&answers);
    let failed = answers.iter().any(Result::is_err);
    let is_one_run = !failed && !observed.has_repeated();
    observed.reruns.count(&shared.metrics);
    shared.remember_killers(&works, &answers, &observed.killers);
    let times = observed.times;
    // A batch that succeeds takes one execution.
    shared.observe(&times, if 1 < times.len() { BatchReason::Retry } else { reason });

    // The instance goes back before the answers leave: a client that sends its next request at once must
    // find it idle.
    let mut state = shared.lock();
    let Some(EndedRun { replies, overdue }) = state.runs.end(&stop, failed, Instant::now()) else {
        return come_back(shared, state, slot, &stop);
    };
    // The shapes of a padded run are not those that each of its requests has alone.
    if times.len() == 1 && !is_padded {
        shared.sample(&mut state, &works, &answers);
    }
    // Runs with more threads say nothing of those that have company.
    let learns = !slot.has_run_wide();
    if is_known && learns {
        state.learn(&times);
    }
    let now = Instant::now();
    if !times.is_empty() {
        shared.learn_memory(&mut state, ran_out, now);
    }
    if let [time] = times.as_slice()
        && 0 < length
    {
        if learns {
            state.queue.learn_run(time.batch_rows, length, time.infer);
        }
        shared.metrics.text_run(time.batch_rows, length);
    }
    // A batch of which something failed, or was run again, took longer than the next one will.
    if let ([time], true) = (times.as_slice(), is_one_run && learns) {
        let occupied = now.saturating_duration_since(occupied_since);
        state.learn_occupancy(time.batch_rows, occupied.saturating_sub(stop.waited(now)));
    }
    let moved = observed.moved;
    let replies = match moved.is_empty() {
        true => replies,
        false => {
            let is_overdue = overdue.is_some();
            Left { waited, works: owned, replies, moved, is_overdue }.put_back(shared, &mut state)
        }
    };
    *busy_since = state.is_backlogged(now).then_some(now);
    let surplus = state.put_back(slot);
    shared.hints.update(&state);
    drop(state);
    drop(surplus);
    let answers = match overdue {
        Some(time) => shared.overdue_answers(answers, time),
        None => answers,
    };
    for (reply, answer) in replies.into_iter().zip(answers) {
        reply.send(answer);
    }
    Some(shared.lock())
}

/// After a run that had been given up, and has ended after all. Its requests have been answered.
fn come_back<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'_, State>,
    slot: Slot,
    stop: &Arc<Stop>,
) -> Option<MutexGuard<'a, State>> {
    tracing::warn!(model = %shared.settings.model, "a run that was given up has ended after all");
    if !state.is_wanted_back(stop) {
        drop(state);
        drop(slot);
        return None;
    }
    let surplus = state.put_back(slot);
    shared.hints.update(&state);
    drop(state);
    drop(surplus);
    Some(shared.lock())
}

/// Compares a request that was merged with itself alone. `None` as for [`run_batch`].
fn check_rows<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'a, State>,
    mut slot: Slot,
    sample: &Sample,
) -> Option<MutexGuard<'a, State>> {
    // Instances that wait for resources are not to wait for this.
    if slot.limit().is_none() {
        let (stop, rows) = (Arc::new(Stop::new()), sample.rows());
        let run = Running {
            callers: Vec::new(),
            replies: Vec::new(),
            rows,
            stop: stop.clone(),
            started: Instant::now(),
            limit: shared.settings.run_limit.of(state.usual_time(rows), slot.run_place()),
            patience: None,
            device: slot.device(),
            is_apart: slot.is_apart(),
            permit: None,
        };
        state.runs.begin(run);
        drop(state);
        shared.check_rows(&mut slot, sample, &stop);
        state = shared.lock();
        if state.runs.end(&stop, false, Instant::now()).is_none() {
            return come_back(shared, state, slot, &stop);
        }
    }
    let surplus = state.put_back(slot);
    shared.hints.update(&state);
    drop(state);
    drop(surplus);
    Some(shared.lock())
}

/// Makes one more instance. While that takes its time, the others go on with the queue.
fn fill<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'_, State>,
    mut slot: Slot,
) -> MutexGuard<'a, State> {
    let device = slot.device();
    state.filling.push(device);
    shared.hints.update(&state);
    drop(state);
    let made = slot.fill_anew();
    let mut state = shared.lock();
    state.has_filled(device);
    match made {
        Ok(()) => {
            if let Some(surplus) = state.put_back(slot) {
                drop(state);
                drop(surplus);
                return shared.lock();
            }
        }
        Err(error) => {
            tracing::error!(model = %shared.settings.model, %error, "cannot make an instance");
            state.put_back_unmade(slot, Instant::now());
            if state.is_without_instances() {
                return fail_all(shared, state, &Error::Backend(error));
            }
        }
    }
    state
}

/// Answers everything that waits with this error.
fn fail_all<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'_, State>,
    error: &Error,
) -> MutexGuard<'a, State> {
    let jobs = state.take_all();
    drop(state);
    shared.count_unrun(&jobs, Rerun::Failed);
    for job in jobs {
        job.reply.send(Err(error.clone()));
    }
    shared.lock()
}

fn answer_dropped(shared: &Shared, dropped: &mut Vec<(Job, Dropped)>, now: Instant) {
    shared.count_unrun(dropped.iter().map(|(it, _)| it), Rerun::Late);
    for (job, reason) in dropped.drain(..) {
        let model = shared.settings.model.to_string();
        let error = match reason {
            Dropped::Late => Error::DeadlineExceeded { model },
            Dropped::Expired(limit) => {
                let waited = now.saturating_duration_since(job.pending.enqueued_at);
                Error::QueueTimeout { model, waited, limit }
            }
        };
        job.reply.send(Err(error));
    }
}
