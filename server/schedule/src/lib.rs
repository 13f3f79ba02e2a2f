//! The scheduler of one model version: a queue, the instances that work on it, and the rules between them.
//!
//! An instance is a permit to run. A worker thread that holds one forms a batch and runs it; when the model
//! is fast, nothing waits and an instance is idle, the calling task takes it and runs in place (`here`),
//! which saves two hand-offs between threads. Everything that has a decision in it is a pure function in a file of its
//! own: [`policy`] (which jobs run now), [`admission`] (can this be answered in time), [`learn`] (how long
//! do runs take).
#![forbid(unsafe_code)]

pub mod admission;
mod gate;
mod gather;
mod glance;
mod here;
pub mod learn;
pub mod policy;
pub mod queue;
pub mod ragged;
pub mod ratelimit;
pub mod reply;
mod resize;
pub mod run;
pub mod sequence;
mod size;
mod spin;
mod state;
mod turn;
mod waiting;
mod worker;

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use admission::{LongestStay, bound, predicted_stay};
pub use gate::{Gate, Inside};
use glance::Glance;
use here::{Here, Leading};
use inference::error::Error;
use learn::RunTimes;
use policy::{BatchPolicy, Pending};
use queue::{Job, Queue, QueuePolicy};
use reply::Order;
use run::{Done, RunContext, RunTime, Slot, Work};
use state::{Call, State};
use telemetry::metrics::{BatchReason, FailureReason, ModelMetrics};
pub use turn::Turn;
use waiting::Waiting;

/// How the requests of one model version are scheduled.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the model, for error texts and thread names.
    pub model: Arc<str>,
    /// How jobs are merged.
    pub batching: BatchPolicy,
    /// One per priority level, highest first.
    pub queue_policies: Vec<QueuePolicy>,
    /// Index of the level of jobs that name none.
    pub default_level: usize,
    /// Do replies leave in the order of arrival?
    pub preserve_ordering: bool,
    /// Jobs that must wait before the first batch runs; 0 but in tests.
    pub hold: usize,
    /// How long a request may stay, by prediction.
    pub longest_stay: LongestStay,
    /// Runs expected to be shorter than this are made by the calling task. Zero: never.
    pub caller_runs_below: Duration,
    /// Longest that a worker without work looks for some before it sleeps. Zero: it sleeps at once.
    pub spin: Duration,
    /// Niceness of worker threads above that of the process.
    pub niceness: i32,
}

/// What it is by default: the threads that talk to clients go before those of models, so that health checks are
/// answered while every processor computes.
pub const NICENESS: i32 = 3;

impl Settings {
    /// The priority that a request has that asks for this one, as clients count: 1 is the highest.
    fn level(&self, asked: u64) -> u64 {
        match asked {
            1.. if asked <= self.queue_policies.len() as u64 => asked,
            _ => self.default_level as u64 + 1,
        }
    }
}

/// One request on its way to an instance.
#[derive(Debug)]
pub struct Submission {
    /// What to run.
    pub work: Work,
    /// When it came.
    pub accepted: Instant,
    /// Jobs run together only if these are equal.
    pub shape_key: u64,
    /// 1 is the highest; 0 for the default.
    pub priority: u64,
    /// The request's own limit to its time in the queue.
    pub queue_timeout: Option<Duration>,
    /// When the answer stops being of use.
    pub deadline: Option<Instant>,
}

/// Takes requests, gives answers. Dropping it closes the queue: what waits is still run, then the threads
/// end and the instances go.
pub struct Scheduler {
    shared: Arc<Shared>,
}

/// What tasks and worker threads share.
struct Shared {
    settings: Settings,
    context: RunContext,
    metrics: ModelMetrics,
    /// Where replies line up when they must leave in order.
    order: Option<Arc<Order>>,
    /// Guards the queue, the idle instances and what is learned. Never held while anything runs.
    state: Mutex<State>,
    /// Something changed for a parked worker: a job came, an instance came back, the queue closes. Only
    /// workers wait for it: it often wakes one of them, and that one must be able to act.
    changed: Condvar,
    /// A worker thread has ended.
    ended: Condvar,
    /// What can be known of the state without the lock.
    glance: Glance,
}

impl Scheduler {
    /// A scheduler over these places for instances; those that are empty are filled when there is more
    /// work than the others can do. `times` is what warming up has taught.
    pub fn new(
        settings: Settings,
        context: RunContext,
        slots: Vec<Slot>,
        times: RunTimes,
        metrics: ModelMetrics,
    ) -> Scheduler {
        let queue = Queue::new(
            settings.batching.clone(),
            settings.queue_policies.clone(),
            settings.default_level,
            settings.hold,
        );
        let order = settings.preserve_ordering.then(Arc::default);
        let state = Mutex::new(State::new(queue, slots, times));
        let (changed, ended) = (Condvar::new(), Condvar::new());
        let glance = Glance::default();
        let shared = Shared { settings, context, metrics, order, state, changed, ended, glance };
        Scheduler { shared: Arc::new(shared) }
    }

    /// Would a request that came now be refused? Cheap enough to ask before its body is read.
    ///
    /// # Errors
    /// [`Error::Overloaded`] or [`Error::ShuttingDown`].
    pub fn admit(&self) -> Result<(), Error> {
        if !self.shared.glance.is_taken() {
            return Ok(());
        }
        let state = self.shared.lock();
        let admitted = match state.closing {
            true => Err(Error::ShuttingDown),
            false => self.shared.admit(&state, 1, None, Instant::now()),
        };
        drop(state);
        self.shared.count(admitted, Duration::ZERO)
    }

    /// Runs one request, now or when its turn comes.
    ///
    /// # Errors
    /// When it is refused, expires, is late, or its run fails.
    ///
    /// # Cancel safety
    /// Dropping the future takes the request out of the queue. If it runs already, its result is dropped;
    /// when nobody waits for any result of the batch, the batch is asked to stop.
    pub async fn submit(&self, submission: Submission) -> Result<Done, Error> {
        self.submit_in_turn(submission, None).await
    }

    /// Where answers leave in the order of their requests: the place of one that has come now, for whoever may have an
    /// answer without a run. `None` where they do not.
    pub fn turn(&self) -> Option<Turn> {
        self.shared.order.as_ref().map(Turn::new)
    }

    /// [`Scheduler::submit`] for a request that has its place among the answers already.
    pub async fn submit_in_turn(
        &self,
        submission: Submission,
        turn: Option<Turn>,
    ) -> Result<Done, Error> {
        let accepted = submission.accepted;
        let answer = match self.shared.enter(submission, turn) {
            Ok(Entered::Ran(done)) => Ok(done),
            Ok(Entered::Leads(leading, work)) => leading.answer(work).await,
            Ok(Entered::Queued(waiting)) => waiting.answer().await,
            Err(error) => Err(error),
        };
        let took = if answer.is_err() { accepted.elapsed() } else { Duration::ZERO };
        self.shared.count(answer, took)
    }

    /// From now on nothing waits for company: the server is on its way out. Requests are still taken.
    pub fn hurry(&self) {
        let mut state = self.shared.lock();
        state.hurrying = true;
        let call = state.call_wanted_worker(Instant::now());
        drop(state);
        // Whoever waits for a full batch must look again; and what was held has no worker yet.
        self.shared.changed.notify_all();
        self.shared.wake(call);
    }

    /// Takes nothing more. What waits is run without delay, then the threads end.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        // Both at once: a worker that sees the end of the queue must not leave what is held back.
        (state.closing, state.hurrying) = (true, true);
        self.shared.glance.update(&state);
        drop(state);
        self.hurry();
    }

    /// Waits until every worker thread has ended, which happens after [`Scheduler::close`]. Blocking.
    ///
    /// Returns the number of threads that were still running after `patience`.
    pub fn wait_closed(&self, patience: Duration) -> usize {
        let until = Instant::now() + patience;
        let mut state = self.shared.lock();
        while 0 < state.threads {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.threads
    }

    /// Drops the instances, once nothing runs any more: after [`Scheduler::wait_closed`]. Without it they go
    /// with the last thread, a moment later.
    pub fn release(&self) {
        let mut state = self.shared.lock();
        if 0 < state.threads {
            return;
        }
        let idle = std::mem::take(&mut state.idle);
        let unmade = std::mem::take(&mut state.unmade);
        let kinds = std::mem::take(&mut state.kinds);
        drop(state);
        drop((idle, unmade, kinds));
    }

    /// Most batches that run at once.
    pub fn instances(&self) -> usize {
        self.shared.lock().slots
    }

    /// Requests that wait for an instance.
    pub fn queued(&self) -> usize {
        self.shared.lock().queue.len()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this lock; if it did, the data would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that failed after so long. Here and nowhere else, but for those whose client has left.
    fn count<T>(&self, answer: Result<T, Error>, took: Duration) -> Result<T, Error> {
        if let Err(error) = &answer {
            let reason = match error {
                Error::Backend(_) => FailureReason::Backend,
                Error::Internal(_) => FailureReason::Other,
                Error::DeadlineExceeded { .. } => FailureReason::Canceled,
                _ => FailureReason::Rejected,
            };
            self.metrics.failure_after(reason, took);
        }
        answer
    }

    /// Runs the request in place or puts it into the queue.
    fn enter(
        self: &Arc<Self>,
        submission: Submission,
        turn: Option<Turn>,
    ) -> Result<Entered<'_>, Error> {
        let Submission { work, accepted: now, shape_key, priority, queue_timeout, deadline } =
            submission;
        // A request without rows still takes a place in its batch.
        let pending = Pending { rows: work.rows.max(1), enqueued_at: now, shape_key };
        let mut state = self.lock();
        if state.closing {
            return Err(Error::ShuttingDown);
        }
        if deadline.is_some_and(|it| it <= now) {
            let model = self.settings.model.to_string();
            return Err(Error::DeadlineExceeded { model });
        }
        let joining = match self.place_here(&mut state, pending, now) {
            Some(Here::Alone(slot)) => {
                drop(state);
                return self.run_here(slot, &work).map(Entered::Ran);
            }
            Some(Here::Leading(slot, gathering)) => {
                return Ok(Entered::Leads(Leading::new(self, slot, gathering, pending), work));
            }
            Some(Here::Joining(gathering)) => Some(gathering),
            None => {
                self.admit(&state, pending.rows, deadline, now)?;
                None
            }
        };
        let policy = state.queue.policy(priority);
        let limit = policy.timeout(queue_timeout);
        let rejects = policy.timeout_action == queue::TimeoutAction::Reject;
        let expiry = limit.and_then(|it| Some((now.checked_add(it)?, it)));
        let Turn { reply, receiver } = match turn {
            Some(turn) => turn,
            None => Turn::of(self.order.as_ref()),
        };
        let counted = Some(self.metrics.pending());
        let job = Job { pending, work, expiry, deadline, reply, counted };
        let (ticket, call) = match joining {
            Some(gathering) => {
                let ticket = state.queue.ticket();
                state.gatherings.join(gathering, ticket, job);
                (ticket, None)
            }
            None => {
                let ticket = state.queue.push(priority, job);
                let ticket = ticket.map_err(|limit| self.queue_full(limit, priority))?;
                self.glance.update(&state);
                (ticket, state.call_wanted_worker(now))
            }
        };
        drop(state);
        // The lock is released first: the woken worker would only block on it.
        self.wake(call);
        let expiry = expiry.filter(|_| rejects);
        let ticket = Some(ticket);
        Ok(Entered::Queued(Waiting {
            shared: self,
            ticket,
            receiver,
            entered: now,
            expiry,
            deadline,
        }))
    }

    /// Tells the metrics, and whoever looks closely, of executions, and why they had their size.
    fn observe(&self, times: &[RunTime], reason: BatchReason) {
        run::observe(times, reason, &self.settings.model, &self.metrics);
    }

    /// Refuses what could not be answered in time. A request that finds an idle instance, or a place for
    /// one, is never refused.
    fn admit(
        &self,
        state: &State,
        rows: usize,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<(), Error> {
        if state.has_room(now) {
            return Ok(());
        }
        let load = state.load(rows, now);
        let stay = predicted_stay(&load);
        let longest = bound(self.settings.longest_stay, &load);
        let left = deadline.map(|it| it.saturating_duration_since(now));
        let Some(limit) = longest.into_iter().chain(left).min() else { return Ok(()) };
        if stay <= limit {
            return Ok(());
        }
        Err(Error::Overloaded {
            model: self.settings.model.to_string(),
            reason: format!(
                "{} requests wait, an answer would take about {} ms, the limit is {} ms",
                state.queue.len(),
                stay.as_millis(),
                limit.as_millis()
            ),
            retry_after: (stay - limit).max(Duration::from_secs(1)),
        })
    }

    fn queue_full(&self, limit: usize, priority: u64) -> Error {
        Error::Overloaded {
            model: self.settings.model.to_string(),
            reason: format!(
                "its queue holds max_queue_size {limit} requests of priority {}",
                self.settings.level(priority)
            ),
            retry_after: Duration::from_secs(1),
        }
    }

    /// Wakes a parked worker, or starts the one that was called.
    fn wake(self: &Arc<Self>, call: Option<Call>) {
        match call {
            Some(Call::Parked) => self.changed.notify_one(),
            Some(Call::New(number)) => worker::start(self.clone(), number),
            None => (),
        }
    }
}

/// What became of a request at the door.
enum Entered<'a> {
    /// It ran in place.
    Ran(Done),
    /// It has an instance, and others may join it before it runs.
    Leads(Leading<'a>, Work),
    /// It waits for an instance.
    Queued(Waiting<'a>),
}

#[cfg(test)]
mod here_tests;
#[cfg(test)]
mod tests;
