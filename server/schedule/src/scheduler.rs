//! The scheduler of one model version: takes requests, gives answers.

use std::{
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::{
    admission::ExpectedWait,
    fast_runs::{FastRuns, RunKind},
    inline_run::{InlineRun, Leading},
    killers::Killers,
    learn::RunTimes,
    lock_free_hints::LockFreeHints,
    packing::Packing,
    policy::Pending,
    queue::{Job, Queue, TimeoutAction},
    reply_slot::ReplySlot,
    request_queue::RequestQueue,
    run_context::RunContext,
    settings::QueueSettings,
    shared::Shared,
    slot::Slot,
    spin::Spin,
    state::State,
    waiting::Waiting,
    work::{Done, Work},
    worker,
};
use inference::error::Error;
use telemetry::metrics::{FailureReason, ModelMetrics};

/// One request on its way to an instance.
#[derive(Debug, Clone)]
pub struct Submission {
    /// What to run.
    pub work: Work,
    /// When it came.
    pub accepted: Instant,
    /// Jobs run together only if these are equal.
    pub shape_key: u64,
    /// Its length in tokens, where it may run with rows of another length; else 0.
    pub length: usize,
    /// Does it share a batch with no other request, whatever the model does?
    pub is_alone: bool,
    /// 1 is the highest; 0 for the default.
    pub priority: u64,
    /// The request's own limit to its time in the queue.
    pub queue_timeout: Option<Duration>,
    /// When the answer stops being of use.
    pub deadline: Option<Instant>,
    /// Whether it is all of a client's request.
    pub extent: Extent,
}

/// How much of a client's request a submission is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// All of it as the model sees it, which may run in place. Whoever has made it of the request counts its failure.
    Made,
    /// Its first part. Parts are never run by the calling task, which has other clients, and their failures are counted
    /// by whoever puts them together.
    FirstPart,
    /// A later part, which is not refused for having to wait, as the request was taken.
    LaterPart,
}

/// Takes requests, gives answers. Dropping it closes the queue: what waits is still run, then the threads
/// end and the instances go.
pub struct Scheduler {
    pub(crate) shared: Arc<Shared>,
}

impl Scheduler {
    /// A scheduler over these places for instances; those that are empty are filled when there is more
    /// work than the others can do. `times` is what warming up has taught.
    pub fn new(
        settings: QueueSettings,
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
        let queue = queue.packed(settings.packing.clone());
        let order = settings.preserve_ordering.then(Arc::default);
        let mut state = State::new(queue, slots, times);
        state.spin = Spin::new(settings.spin);
        state.fast = FastRuns::new(settings.caller_runs_below, settings.time_follows);
        let (is_apart, state) = (state.is_apart(), Mutex::new(state));
        let (changed, ended) = (Condvar::new(), Condvar::new());
        let hints = LockFreeHints::default();
        let shared = Shared {
            settings,
            context,
            metrics,
            order,
            state,
            changed,
            ended,
            is_apart,
            hints,
            killers: Killers::default(),
            mismatch: OnceLock::new(),
        };
        let shared = Arc::new(shared);
        let watched: Weak<Shared> = Arc::downgrade(&shared);
        shared.settings.watchdog.watch(watched);
        Scheduler { shared }
    }

    /// Runs one request, at once or from the queue.
    ///
    /// # Errors
    /// When it is refused, expires, is late, or its run fails.
    ///
    /// # Cancel safety
    /// Dropping the future takes the request out of the queue. If it runs already, its result is dropped;
    /// when no client waits for a result of the batch any more, the batch is asked to stop.
    pub async fn submit(&self, submission: Submission) -> Result<Done, Error> {
        self.submit_with_slot(submission, None).await
    }

    /// The place in the order of replies of a request that has come now and may be answered without a run. `None` where
    /// replies have no order.
    pub fn reply_slot(&self) -> Option<ReplySlot> {
        self.shared.order.as_ref().map(|it| ReplySlot::new(Some(it)))
    }

    /// [`Scheduler::submit`] for a request that has its place in the order of replies already.
    // An `async fn` would copy its parameters once more, which are large.
    pub fn submit_with_slot(
        &self,
        submission: Submission,
        slot: Option<ReplySlot>,
    ) -> impl Future<Output = Result<Done, Error>> + Send {
        let accepted = submission.accepted;
        let is_whole = submission.extent == Extent::Whole;
        async move {
            let answer = match self.shared.enter(submission, slot) {
                Ok(Entered::Ran(done)) => Ok(done),
                Ok(Entered::Leads(leading, work)) => leading.answer(work).await,
                Ok(Entered::Queued(waiting)) => waiting.answer().await,
                Err(error) => Err(error),
            };
            if !is_whole {
                return answer;
            }
            let took = if answer.is_err() { accepted.elapsed() } else { Duration::ZERO };
            self.shared.count(answer, took)
        }
    }

    /// Counts a request that was submitted in parts, if it has failed. It was accepted then.
    pub fn count_parts<T>(&self, answer: Result<T, Error>, accepted: Instant) -> Result<T, Error> {
        self.shared.count(answer, accepted.elapsed())
    }

    /// Counts a row of so many tokens that was answered.
    pub fn count_text(&self, tokens: usize) {
        self.shared.metrics.text_row(tokens);
    }

    /// Counts a request that was submitted in parts, and whose client has left.
    pub fn count_left(&self, accepted: Instant) {
        self.shared.metrics.failure_after(FailureReason::Canceled, accepted.elapsed());
    }

    /// How a request was found to be answered otherwise merged than alone; a sentence. `None` where none was.
    pub fn mismatch(&self) -> Option<&str> {
        self.shared.mismatch.get().map(String::as_str)
    }

    /// Are requests not merged any more, since one was answered otherwise than alone?
    pub fn has_stopped_merging(&self) -> bool {
        self.shared.has_stopped_merging()
    }

    /// Most rows of a run, since the memory did not suffice for more. `None` where it always has, and where a request
    /// may not be run in parts.
    pub fn memory_rows(&self) -> Option<usize> {
        self.shared.hints.memory_rows().filter(|_| self.shared.context.splits.load(Relaxed))
    }

    /// How long a run of a usual request takes, on the average of late. `None` before the first of a client that was
    /// not made in place.
    pub fn usual_time(&self) -> Option<Duration> {
        let state = self.shared.lock();
        match state.usual_rows() {
            0 => None,
            rows => state.times.mean_of_all(rows),
        }
    }

    /// Requests that wait for an instance.
    pub fn queued(&self) -> usize {
        self.shared.lock().queue.len()
    }
}

impl Scheduler {
    /// Would a request of so many rows be refused that first has to wait until its inputs are prepared?
    ///
    /// # Errors
    /// [`Error::Overloaded`].
    pub fn admit_after(
        &self,
        wait: ExpectedWait,
        rows: usize,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let mut state = self.shared.lock();
        let admitted = self.shared.admit_after(wait, &mut state, rows, deadline, Instant::now());
        drop(state);
        self.shared.count(admitted, Duration::ZERO)
    }
}

impl RequestQueue for Scheduler {
    fn admit(&self) -> Result<(), Error> {
        if !self.shared.hints.may_refuse() {
            return Ok(());
        }
        let (mut state, now) = (self.shared.lock(), Instant::now());
        let admitted = match state.closing {
            true => Err(Error::ShuttingDown),
            false if state.is_stuck() => Err(self.shared.stuck()),
            false => self.shared.check_service(&mut state, now),
        };
        let admitted = admitted.and_then(|()| self.shared.admit(&mut state, 1, None, now));
        drop(state);
        self.shared.count(admitted, Duration::ZERO)
    }

    fn instances(&self) -> usize {
        self.shared.lock().slots
    }

    fn trouble(&self) -> Option<&'static str> {
        self.shared.trouble()
    }

    fn flush(&self) {
        let mut state = self.shared.lock();
        state.flushing = true;
        let wake = state.wake_needed_worker(Instant::now());
        drop(state);
        // Workers that wait for a full batch must look again; and what was held has no worker yet.
        self.shared.changed.notify_all();
        worker::wake(&self.shared, wake);
    }

    fn close(&self) {
        let mut state = self.shared.lock();
        let is_first = !state.closing;
        let learned = state.queue.packing().map(Packing::costs).filter(|_| is_first).cloned();
        // Both at once: a worker that sees the end of the queue must not leave what is held back.
        (state.closing, state.flushing) = (true, true);
        self.shared.hints.update(&state);
        drop(state);
        self.flush();
        if let Some((keep, costs)) = self.shared.settings.keep_costs.as_ref().zip(learned) {
            keep.0(&costs);
        }
    }

    fn wait_closed(&self, patience: Duration) -> usize {
        let until = Instant::now() + patience;
        let mut state = self.shared.lock();
        let held = |state: &State| match state.queue.is_empty() {
            // Nobody waits for an instance that is made.
            true => state.threads.saturating_sub(state.filling.len()),
            false => state.threads,
        };
        while 0 < held(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        held(&state)
    }

    /// Without this call they go with the last thread, a moment later.
    fn release(&self) {
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
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Refuses what cannot run, however short the queue is.
    pub(crate) fn check_open(
        &self,
        state: &State,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<(), Error> {
        if state.closing {
            return Err(Error::ShuttingDown);
        }
        if state.is_stuck() {
            return Err(self.stuck());
        }
        if deadline.is_some_and(|it| it <= now) {
            return Err(self.late());
        }
        Ok(())
    }

    pub(super) fn late(&self) -> Error {
        Error::DeadlineExceeded { model: self.settings.model.to_string() }
    }

    /// Runs the request in place or puts it into the queue.
    fn enter(
        self: &Arc<Self>,
        submission: Submission,
        slot: Option<ReplySlot>,
    ) -> Result<Entered<'_>, Error> {
        let Submission { work, accepted, shape_key, length, priority, .. } = submission;
        let Submission { queue_timeout, deadline, extent, is_alone, .. } = submission;
        // A request without rows still takes a place in its batch.
        let rows = work.rows.max(1);
        self.refuse_killer(&work, accepted)?;
        let mut state = self.lock();
        // What came before, such as its preparation, is no time in the queue.
        let mut now = Instant::now();
        let mut pending = Pending { rows, enqueued_at: now, shape_key, length, is_alone };
        self.check_open(&state, deadline, now)?;
        let inline = match extent {
            // How long runs of other signatures than the default one take is not known.
            Extent::Whole | Extent::Made if work.signature == 0 => {
                self.inline_place(&mut state, (pending, &work), deadline, now)
            }
            Extent::Whole | Extent::Made | Extent::FirstPart | Extent::LaterPart => None,
        };
        let joining = match inline {
            Some(InlineRun::Alone(slot)) => {
                drop(state);
                if let Some(answer) = self.run_inline(slot, &work, pending) {
                    // A run may have ended itself at the deadline.
                    let is_late =
                        answer.is_err() && deadline.is_some_and(|it| it <= Instant::now());
                    return match is_late {
                        true => Err(self.late()),
                        false => answer.map(Entered::Ran),
                    };
                }
                // It is made again by a worker, and queued only now.
                state = self.lock();
                now = Instant::now();
                pending.enqueued_at = now;
                None
            }
            Some(InlineRun::Leading(slot, group)) => {
                let is_counted = extent == Extent::Whole;
                let job = (pending, RunKind::of_job(pending, &work), is_counted);
                let leading = Leading::new(self, slot, group, job, deadline);
                return Ok(Entered::Leads(leading, work));
            }
            Some(InlineRun::Joining(group)) => Some(group),
            None if extent == Extent::LaterPart => None,
            None => {
                state.learn_request(pending.rows);
                self.admit(&mut state, pending.rows, deadline, now)?;
                None
            }
        };
        let policy = state.queue.policy(priority);
        let limit = policy.timeout(queue_timeout);
        let rejects = policy.timeout_action == TimeoutAction::Reject;
        let expiry = limit.and_then(|it| Some((now.checked_add(it)?, it)));
        let ReplySlot { reply, receiver } =
            slot.unwrap_or_else(|| ReplySlot::new(self.order.as_ref()));
        let counted = Some(self.metrics.pending());
        let is_part = extent == Extent::LaterPart;
        let job = Job { expiry, is_part, ..Job::new(pending, work, deadline, reply, counted) };
        let (ticket, wake) = match joining {
            Some(group) => {
                let ticket = state.queue.ticket();
                state.coalescer.join(group, ticket, job);
                (ticket, None)
            }
            None => {
                let ticket = match extent {
                    Extent::LaterPart => Ok(state.queue.push_admitted(priority, job)),
                    Extent::Whole | Extent::Made | Extent::FirstPart => {
                        state.queue.push(priority, job)
                    }
                };
                let ticket = ticket.map_err(|limit| self.queue_full(limit, priority))?;
                self.hints.update(&state);
                (ticket, state.wake_needed_worker(now))
            }
        };
        drop(state);
        // The lock is released first: the woken worker would only block on it.
        worker::wake(self, wake);
        let expiry = expiry.filter(|_| rejects);
        let ticket = Some(ticket);
        Ok(Entered::Queued(Waiting {
            shared: self,
            ticket,
            receiver,
            accepted,
            expiry,
            deadline,
            is_counted: extent == Extent::Whole,
        }))
    }
}

/// What became of a request on arrival.
enum Entered<'a> {
    /// It ran in place.
    Ran(Done),
    /// It has an instance, and others may join it before it runs.
    Leads(Leading<'a>, Work),
    /// It waits for an instance.
    Queued(Waiting<'a>),
}

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod estimate_tests;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod tests;
