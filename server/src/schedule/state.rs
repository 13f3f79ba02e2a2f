//! What the scheduler's lock guards: the queue, the instances that are idle, the batches that run, and what
//! is learned.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::Stop;

use super::{
    admission::Load,
    learn::RunTimes,
    policy::Decision,
    queue::Queue,
    run::{RunTime, Slot},
};

/// How long a worker leaves an instance alone that could not be made.
const RETRY_MAKING: Duration = Duration::from_secs(1);

/// A batch on an instance, held by a worker thread.
pub struct Running {
    tickets: Vec<u64>,
    left: usize,
    stop: Arc<Stop>,
    started: Instant,
    rows: usize,
}

/// See the module's text.
pub struct State {
    /// Jobs that wait.
    pub queue: Queue,
    /// Instances that nobody holds; the last used one on top, whose memory is still in the caches.
    pub idle: Vec<Slot>,
    /// Places whose instance is yet to be made, or was lost.
    unmade: Vec<Slot>,
    /// After a failed attempt: not before then.
    make_after: Option<Instant>,
    /// Places in all.
    pub slots: usize,
    /// Batches that run on worker threads; at most one per place.
    running: Vec<Running>,
    /// What is known of the model's speed.
    pub times: RunTimes,
    /// Worker threads alive; at most one per place.
    pub threads: usize,
    /// Worker threads that wait to be woken.
    pub parked: usize,
    /// Nothing waits for company any more.
    pub hurrying: bool,
    /// Nothing more comes in.
    pub closing: bool,
}

impl State {
    /// Nothing waits, nothing runs.
    pub fn new(queue: Queue, slots: Vec<Slot>, times: RunTimes) -> State {
        let (idle, unmade): (Vec<Slot>, Vec<Slot>) = slots.into_iter().partition(Slot::is_made);
        State {
            queue,
            slots: idle.len() + unmade.len(),
            idle,
            unmade,
            make_after: None,
            running: Vec::new(),
            times,
            threads: 0,
            parked: 0,
            hurrying: false,
            closing: false,
        }
    }

    /// Is there something for a parked worker to do that no other worker is about to do?
    pub fn wants_worker(&self, now: Instant) -> bool {
        self.can_run(now) || self.can_grow(now)
    }

    /// Would a worker that looked now find a batch and an instance? Expired jobs are left for it to find.
    fn can_run(&self, now: Instant) -> bool {
        !self.idle.is_empty()
            && match self.queue.decide(now, self.hurrying) {
                Decision::Run { .. } => true,
                // Somebody must watch the clock. If a worker does so already, it knows of an earlier
                // time, since later jobs wait for longer.
                Decision::WaitUntil(_) => self.parked == 0 || self.queue.len() == 1,
                Decision::WaitForJob => false,
            }
    }

    /// Is there more work than the instances can do, and a place for one more?
    fn can_grow(&self, now: Instant) -> bool {
        self.idle.is_empty()
            && !self.queue.is_empty()
            && !self.unmade.is_empty()
            && self.make_after.is_none_or(|it| it <= now)
    }

    /// Takes the place where the next instance is to be made.
    pub fn place_to_fill(&mut self, now: Instant) -> Option<Slot> {
        if self.can_grow(now) { self.unmade.pop() } else { None }
    }

    /// Could not be made: tried again when a job comes, but not at once.
    pub fn put_back_unmade(&mut self, slot: Slot, now: Instant) {
        self.make_after = Some(now + RETRY_MAKING);
        self.unmade.push(slot);
    }

    /// Gives an instance back after a run. If it was lost, its place waits to be filled again.
    pub fn put_back(&mut self, slot: Slot) {
        if slot.is_made() { self.idle.push(slot) } else { self.unmade.push(slot) }
    }

    /// Is there no instance left, idle or running, to serve the queue?
    pub fn is_without_instances(&self) -> bool {
        self.unmade.len() == self.slots
    }

    /// Takes in the times of executions.
    pub fn learn(&mut self, times: &[RunTime]) {
        for it in times {
            self.times.record(it.rows, it.execute);
        }
    }

    /// A worker starts a batch.
    pub fn begin(&mut self, tickets: Vec<u64>, rows: usize, stop: Arc<Stop>, now: Instant) {
        self.running.push(Running { tickets, left: 0, stop, started: now, rows });
    }

    /// A worker has finished the batch of that stop.
    pub fn end(&mut self, stop: &Arc<Stop>) {
        self.running.retain(|it| !Arc::ptr_eq(&it.stop, stop));
    }

    /// Nobody waits for this ticket any more. If that was the last of its batch: the batch's stop.
    pub fn leave_batch(&mut self, ticket: u64) -> Option<Arc<Stop>> {
        let batch = self.running.iter_mut().find(|it| it.tickets.contains(&ticket))?;
        batch.left += 1;
        (batch.left == batch.tickets.len()).then(|| batch.stop.clone())
    }

    /// What stands before a new job of that many rows.
    pub fn load(&self, rows: usize, now: Instant) -> Load {
        let rest = |it: &Running| {
            let expected = self.times.mean(it.rows).unwrap_or_default();
            expected.saturating_sub(now.saturating_duration_since(it.started))
        };
        Load {
            running: self.running.iter().map(rest).sum(),
            queued_batches: self.queue.batches(),
            batch_time: self.times.mean(self.queue.rows_per_batch()).unwrap_or_default(),
            own_time: self.times.p95(rows).unwrap_or_default(),
            instances: self.slots,
        }
    }
}
