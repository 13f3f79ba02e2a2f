//! The scheduler of one model version: a queue, the instances that work on it, and the rules between them.
//!
//! An instance is a permit to run. A worker thread that holds one forms a batch and runs it; when the model
//! is fast, nothing waits and an instance is idle, the calling task takes it and runs in place, which saves
//! two hand-offs between threads. Everything that has a decision in it is a pure function in a file of its
//! own: [`policy`] (which jobs run now), [`admission`] (can this be answered in time), [`learn`] (how long
//! do runs take).

pub mod admission;
pub mod learn;
pub mod policy;
pub mod queue;
pub mod reply;
pub mod run;
mod state;
mod worker;

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use backend::Stop;
use tokio::{sync::oneshot, time::timeout_at};

use crate::{
    error::Error,
    metrics::{FailureReason, ModelMetrics},
};
use admission::{LongestStay, bound, predicted_stay};
use learn::RunTimes;
use policy::{BatchPolicy, Pending};
use queue::{Job, Queue, QueuePolicy};
use reply::{Order, Reply};
use run::{Done, RunContext, RunTime, Slot, Work};
use state::State;

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
}

/// One request on its way to an instance.
#[derive(Debug)]
pub struct Submission {
    /// What to run.
    pub work: Work,
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
        let shared = Shared { settings, context, metrics, order, state, changed, ended };
        Scheduler { shared: Arc::new(shared) }
    }

    /// Would a request that came now be refused? Cheap enough to ask before its body is read.
    ///
    /// # Errors
    /// [`Error::Overloaded`] or [`Error::ShuttingDown`].
    pub fn admit(&self) -> Result<(), Error> {
        let state = self.shared.lock();
        let admitted = match state.closing {
            true => Err(Error::ShuttingDown),
            false => self.shared.admit(&state, 1, None, Instant::now()),
        };
        drop(state);
        self.shared.count(admitted)
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
        let answer = match self.shared.enter(submission) {
            Ok(Entered::Ran(done)) => Ok(done),
            Ok(Entered::Queued(waiting)) => waiting.answer().await,
            Err(error) => Err(error),
        };
        self.shared.count(answer)
    }

    /// From now on nothing waits for company: the server is on its way out. Requests are still taken.
    pub fn hurry(&self) {
        let mut state = self.shared.lock();
        state.hurrying = true;
        let wake = state.wants_worker(Instant::now());
        drop(state);
        // Whoever waits for a full batch must look again; and what was held has no worker yet.
        self.shared.changed.notify_all();
        if wake {
            self.shared.wake();
        }
    }

    /// Takes nothing more. What waits is run without delay, then the threads end.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        // Both at once: a worker that sees the end of the queue must not leave what is held back.
        (state.closing, state.hurrying) = (true, true);
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

    /// Counts a request that failed. Here and nowhere else, but for those whose client has left.
    fn count<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer {
            self.metrics.failure(match error {
                Error::Backend(_) | Error::Internal(_) => FailureReason::Backend,
                Error::DeadlineExceeded { .. } => FailureReason::Canceled,
                _ => FailureReason::Rejected,
            });
        }
        answer
    }

    /// Runs the request in place or puts it into the queue.
    fn enter(self: &Arc<Self>, submission: Submission) -> Result<Entered<'_>, Error> {
        let Submission { work, shape_key, priority, queue_timeout, deadline } = submission;
        let now = Instant::now();
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
        if let Some(slot) = self.idle_for_caller(&mut state, pending, now) {
            drop(state);
            return self.run_here(slot, &work).map(Entered::Ran);
        }
        self.admit(&state, pending.rows, deadline, now)?;
        let policy = state.queue.policy(priority);
        let limit = policy.timeout(queue_timeout);
        let rejects = policy.timeout_action == queue::TimeoutAction::Reject;
        let expiry = limit.and_then(|it| Some((now.checked_add(it)?, it)));
        let (reply, receiver) = Reply::channel(self.order.as_ref());
        let counted = Some(self.metrics.pending());
        let job = Job { pending, work, expiry, deadline, reply, counted };
        let ticket = match state.queue.push(priority, job) {
            Ok(ticket) => ticket,
            Err(limit) => {
                return Err(self.queue_full(limit, priority));
            }
        };
        let wake = state.wants_worker(now);
        drop(state);
        // The lock is released first: the woken worker would only block on it.
        if wake {
            self.wake();
        }
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

    /// An idle instance, if this job may run on the calling task: the model is fast, nobody waits, and the
    /// job would not wait either.
    fn idle_for_caller(&self, state: &mut State, pending: Pending, now: Instant) -> Option<Slot> {
        let threshold = self.settings.caller_runs_below;
        if threshold.is_zero() || self.order.is_some() || state.idle.is_empty() {
            return None;
        }
        let fast = state.times.are_below(pending.rows, threshold);
        if fast && state.queue.runs_at_once(pending, now) { state.idle.pop() } else { None }
    }

    fn run_here(self: &Arc<Self>, mut slot: Slot, work: &Work) -> Result<Done, Error> {
        let mut observed = None;
        let stop = Stop::new();
        let mut answers =
            run::run(&mut slot, &self.context, &[work], &stop, &mut |it| observed = Some(*it));
        let answer = answers.pop().unwrap_or_else(|| Err(Error::Internal("no answer".into())));
        self.observe(observed.as_slice());
        let mut state = self.lock();
        state.learn(observed.as_slice());
        state.put_back(slot);
        let wake = !state.queue.is_empty();
        drop(state);
        if wake {
            self.wake();
        }
        answer
    }

    /// Tells the metrics of executions.
    fn observe(&self, times: &[RunTime]) {
        for it in times {
            self.metrics.execution(it.rows);
        }
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
                "its queue holds max_queue_size {limit} requests of priority {priority}"
            ),
            retry_after: Duration::from_secs(1),
        }
    }

    /// Wakes a parked worker, or starts one.
    fn wake(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.is_any_parked() {
            drop(state);
            self.changed.notify_one();
        } else if state.threads < state.slots {
            state.threads += 1;
            let number = state.threads;
            drop(state);
            worker::start(self.clone(), number);
        }
    }
}

/// What became of a request at the door.
enum Entered<'a> {
    /// It ran in place.
    Ran(Done),
    /// It waits for an instance.
    Queued(Waiting<'a>),
}

/// A request that waits for its answer. Dropped before it has one, it leaves the queue or its batch.
struct Waiting<'a> {
    shared: &'a Shared,
    /// Its place in the queue or in a batch; `None` once it has left.
    ticket: Option<u64>,
    receiver: oneshot::Receiver<Result<Done, Error>>,
    entered: Instant,
    /// When it must have left the queue, and how long that is.
    expiry: Option<(Instant, Duration)>,
    deadline: Option<Instant>,
}

impl Waiting<'_> {
    /// Waits for the answer, the end of the time in the queue, or the deadline.
    async fn answer(mut self) -> Result<Done, Error> {
        let shared = self.shared;
        let model = || shared.settings.model.to_string();
        let deadline = self.deadline;
        let sooner = |at: Instant| deadline.is_none_or(|it| at < it);
        if let Some((at, limit)) = self.expiry.filter(|(at, _)| sooner(*at)) {
            if let Ok(answer) = timeout_at(at.into(), &mut self.receiver).await {
                return self.finish(answer.ok());
            }
            let error =
                Error::QueueTimeout { model: model(), waited: self.entered.elapsed(), limit };
            // Gone from the queue means that it runs: the queue timeout has no say any more.
            if self.withdraw() {
                return Err(error);
            }
        }
        let Some(at) = self.deadline else {
            let answer = (&mut self.receiver).await;
            return self.finish(answer.ok());
        };
        match timeout_at(at.into(), &mut self.receiver).await {
            Ok(answer) => self.finish(answer.ok()),
            Err(_) => {
                self.abandon();
                Err(Error::DeadlineExceeded { model: model() })
            }
        }
    }

    /// The answer came, or the other end was lost without one.
    fn finish(&mut self, answer: Option<Result<Done, Error>>) -> Result<Done, Error> {
        self.ticket = None;
        let lost = || Err(Error::Internal("the reply to a request was lost".into()));
        answer.unwrap_or_else(lost)
    }

    /// Takes the job out of the queue. False if it is not there any more.
    fn withdraw(&mut self) -> bool {
        let Some(ticket) = self.ticket else { return false };
        let job = self.shared.lock().queue.withdraw(ticket);
        if job.is_some() {
            self.ticket = None;
        }
        job.is_some()
    }

    /// Nobody wants the answer any more.
    fn abandon(&mut self) {
        if !self.withdraw()
            && let Some(ticket) = self.ticket.take()
        {
            let stop = self.shared.lock().leave_batch(ticket);
            if let Some(stop) = stop {
                stop.stop();
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.abandon();
            self.shared.metrics.failure(FailureReason::Canceled);
        }
    }
}

#[cfg(test)]
mod tests;
