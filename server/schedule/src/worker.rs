//! The threads that form batches and run them, whenever they can have an instance.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, MODEL_STACK, Outage, Stop};

use super::{
    batch_run::{BatchRun, Next},
    busy::Looking,
    policy::Decision,
    queue::{Dropped, Job},
    ratelimit::Limited,
    row_check::Sample,
    running::Running,
    shared::Shared,
    slot::Slot,
    state::{State, Wake},
};
use inference::error::Error;
use telemetry::metrics::Rerun;

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
    let builder = thread::Builder::new().name(name).stack_size(MODEL_STACK);
    let of_thread = shared.clone();
    let spawned = builder.spawn(move || {
        let mut at_end = Ended { shared: of_thread, is_counted: true };
        lower_priority(at_end.shared.settings.niceness);
        at_end.is_counted = work(&at_end.shared);
    });
    if let Err(error) = spawned {
        let mut state = shared.lock();
        state.threads -= 1;
        shared.ended.notify_all();
        // Others serve the queue. Where there are none, the next request tries it again.
        if state.threads == 0 {
            let reason = format!("no thread can be started to run the model on: {error}");
            let outage = Outage { reason, retry_after: Duration::from_secs(1) };
            let error = Error::Backend(BackendError::Unavailable(outage));
            drop(fail_all(&shared, state, &error));
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
            if !check_rows(shared, state, slot, &sample) {
                return false;
            }
            state = shared.lock();
            continue;
        }
        let until = match state.queue.decide(now, state.flushing) {
            Decision::Run { jobs, reason } => {
                if let Some(slot) = state.take_idle() {
                    state.spin.found(now, jobs == 1 && shared.settings.busy.is_idle());
                    let busy = &mut busy_since;
                    let goes_on = match slot.limit().cloned() {
                        None => {
                            let (permit, since) = (None, busy.take().unwrap_or(now));
                            let next = Next { slot, permit, jobs, reason, now, since };
                            run_batch(shared, state, next, busy)
                        }
                        Some(limited) => run_limited(shared, state, slot, limited, busy),
                    };
                    if !goes_on {
                        return false;
                    }
                    state = shared.lock();
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

/// Runs a batch that this thread could have run since then, and notes in `busy_since` from when on it could run the
/// next. False where the run was given up before it ended, and another thread works in place of this one.
fn run_batch(
    shared: &Arc<Shared>,
    mut state: MutexGuard<'_, State>,
    next: Next,
    busy_since: &mut Option<Instant>,
) -> bool {
    let now = next.now;
    let run = BatchRun::begin(next, shared, &mut state);
    let woken = state.wake_needed_worker(now);
    shared.hints.update(&state);
    drop(state);
    wake(shared, woken);
    run.make(shared, busy_since)
}

/// The same once the resources of the instance are free: of what waits by then.
fn run_limited(
    shared: &Arc<Shared>,
    mut state: MutexGuard<'_, State>,
    slot: Slot,
    limited: Arc<Limited>,
    busy_since: &mut Option<Instant>,
) -> bool {
    state.awaiting.push(slot);
    drop(state);
    let permit = Some(limited.clone().acquire());
    let mut state = shared.lock();
    // Nobody else takes it.
    let Some(slot) = state.take_awaiting(&limited) else { return true };
    let now = Instant::now();
    match state.queue.decide(now, state.flushing) {
        Decision::Run { jobs, reason } => {
            let since = busy_since.take().unwrap_or(now);
            let next = Next { slot, permit, jobs, reason, now, since };
            run_batch(shared, state, next, busy_since)
        }
        // The requests that waited have left.
        Decision::WaitUntil(_) | Decision::WaitForJob => {
            shared.put_back(state, slot);
            true
        }
    }
}

/// Compares a request that was merged with itself alone. False as for [`run_batch`].
fn check_rows<'a>(
    shared: &'a Arc<Shared>,
    mut state: MutexGuard<'a, State>,
    mut slot: Slot,
    sample: &Sample,
) -> bool {
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
            return shared.come_back(state, slot, &stop);
        }
    }
    shared.put_back(state, slot);
    true
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
