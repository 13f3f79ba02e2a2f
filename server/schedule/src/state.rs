//! What the scheduler's lock guards: the queue, the instances that are idle, the batches that run, and what
//! is learned.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{Device, Stop};
use inference::timings::Timings;

use super::{
    admission::Load,
    coalesce::Coalescer,
    crowd::Crowd,
    fast_runs::{FastRuns, RunKind, TimeFollows},
    learn::{RequestRows, RunTimes},
    memory_bound::MemoryBound,
    packing::Packing,
    policy::Decision,
    queue::{Job, Queue},
    row_check::{Chosen, Looks, Sample},
    running::{Running, Runs},
    slot::Slot,
    spin::Spin,
};

/// How long a worker leaves an instance alone that could not be made.
const RETRY_MAKING: Duration = Duration::from_secs(1);

/// The worker that is to be woken once the lock is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A worker that sleeps.
    Parked,
    /// A worker that is yet to be started, by its number.
    New(usize),
}

/// All that the lock guards.
pub struct State {
    /// Jobs that wait.
    pub queue: Queue,
    /// Jobs that will run on their own threads.
    pub coalescer: Coalescer,
    /// Instances that are free; the last used one on top, whose memory is still in the caches.
    pub idle: Vec<Slot>,
    /// Places whose instance is yet to be made, or was lost.
    pub unmade: Vec<Slot>,
    /// After a failed attempt none is made before then.
    pub(crate) make_after: Instant,
    /// Places in all.
    pub slots: usize,
    /// Devices of places whose instance is being made.
    pub filling: Vec<Device>,
    /// Instances whose next run waits for its resources.
    pub(crate) awaiting: Vec<Slot>,
    /// Since when no instance could make a run, as all were lost with their processes.
    pub(crate) unserved_since: Option<Instant>,
    /// For each device of the model an empty place, of which further ones are made, and how many there are.
    pub kinds: Vec<(Slot, usize)>,
    /// Devices of places that are to go as soon as their batch has run.
    pub surplus: Vec<Device>,
    /// What runs.
    pub runs: Runs,
    /// What is known of the model's speed.
    pub times: RunTimes,
    /// Which runs may be made in place.
    pub(crate) fast: FastRuns,
    /// Do more wait than few clients would make wait?
    pub(crate) crowd: Crowd,
    /// How long a batch occupies an instance, with everything around its run: on a machine with more to do than
    /// processors, a waiting request waits for that, too.
    occupancy: RunTimes,
    /// How large the requests are.
    request_rows: RequestRows,
    /// How many rows a run may have, since the memory did not suffice for more.
    memory: MemoryBound,
    /// Worker threads alive; at most one per place.
    pub threads: usize,
    /// Worker threads that wait to be woken.
    parked: usize,
    /// Worker threads that are awake and look for work.
    pub spinning: usize,
    /// May they?
    pub spin: Spin,
    /// When those that sleep and watch the clock look again.
    watched: Vec<Instant>,
    /// Which runs of several requests are looked at.
    pub(crate) looks: Looks,
    /// A request whose rows are to be compared with themselves alone, by the next worker that has an instance.
    pub sample: Option<Sample>,
    /// No batch waits for more jobs any more.
    pub flushing: bool,
    /// Nothing more comes in.
    pub closing: bool,
}

impl State {
    /// Nothing waits, nothing runs.
    pub fn new(queue: Queue, slots: Vec<Slot>, times: RunTimes) -> State {
        let mut kinds: Vec<(Slot, usize)> = Vec::new();
        for slot in &slots {
            match kinds.iter_mut().find(|(it, _)| it.device() == slot.device()) {
                Some((_, count)) => *count += 1,
                None => kinds.push((slot.another(), 1)),
            }
        }
        let (idle, unmade): (Vec<Slot>, Vec<Slot>) = slots.into_iter().partition(Slot::is_made);
        State {
            queue,
            coalescer: Coalescer::default(),
            slots: idle.len() + unmade.len(),
            filling: Vec::new(),
            awaiting: Vec::new(),
            unserved_since: None,
            kinds,
            surplus: Vec::new(),
            idle,
            unmade,
            make_after: Instant::now(),
            runs: Runs::default(),
            fast: FastRuns::new(Duration::ZERO, TimeFollows::Values),
            crowd: Crowd::default(),
            occupancy: times.clone(),
            request_rows: RequestRows::default(),
            times,
            memory: MemoryBound::default(),
            threads: 0,
            parked: 0,
            spinning: 0,
            spin: Spin::new(Duration::ZERO),
            watched: Vec::new(),
            looks: Looks::default(),
            sample: None,
            flushing: false,
            closing: false,
        }
    }

    /// A worker goes to sleep until it is woken, or until then.
    pub fn park(&mut self, until: Option<Instant>) {
        self.parked += 1;
        self.watched.extend(until);
    }

    /// It is awake again.
    pub fn unpark(&mut self, until: Option<Instant>) {
        self.parked -= 1;
        if let Some(at) = self.watched.iter().position(|it| Some(*it) == until) {
            self.watched.swap_remove(at);
        }
    }

    /// Is a worker asleep?
    pub fn is_any_parked(&self) -> bool {
        0 < self.parked
    }

    /// Chooses a worker to wake: one that is asleep, or a new one where there is room for it.
    pub fn wake_worker(&mut self) -> Option<Wake> {
        if 0 < self.spinning {
            // It sees the work, and calls another if there is more than it can do.
            return None;
        }
        if self.is_any_parked() {
            return Some(Wake::Parked);
        }
        if self.slots <= self.threads {
            return None;
        }
        self.threads += 1;
        Some(Wake::New(self.threads))
    }

    /// The same, if [`State::needs_worker`].
    pub fn wake_needed_worker(&mut self, now: Instant) -> Option<Wake> {
        if self.needs_worker(now) { self.wake_worker() } else { None }
    }

    /// Takes a job that does not run yet out of wherever it is.
    pub fn withdraw(&mut self, ticket: u64) -> Option<Job> {
        self.queue.withdraw(ticket).or_else(|| self.coalescer.withdraw(ticket))
    }

    /// Is there something for a parked worker to do that no other worker is about to do: a batch to run,
    /// an instance to make, a time to watch? Expired jobs are left for it to find.
    pub fn needs_worker(&self, now: Instant) -> bool {
        if self.has_lost_place(now) {
            return true;
        }
        if !self.has_idle() {
            let due = |at: Instant| at <= now || !self.is_watched(at);
            return !self.queue.is_empty() && self.looks_at(now).is_some_and(due);
        }
        match self.queue.decide(now, self.flushing) {
            Decision::Run { .. } => true,
            Decision::WaitUntil(at) => !self.is_watched(at),
            Decision::WaitForJob => false,
        }
    }

    /// Does a worker look again by then?
    fn is_watched(&self, at: Instant) -> bool {
        self.watched.iter().any(|it| *it <= at)
    }

    /// Could not be made: tried again when there is work, but not at once, and after all others. So one that can never
    /// be made keeps none from being made.
    pub fn put_back_unmade(&mut self, slot: Slot, now: Instant) {
        self.make_after = now + RETRY_MAKING;
        self.unmade.insert(0, slot);
    }

    /// Would a request that came now have a place to run at once?
    pub fn has_room(&self, now: Instant) -> bool {
        self.queue.is_empty() && (self.has_idle() || self.makes_at().is_some_and(|it| it <= now))
    }

    /// Gives an instance back after a run. If it was lost, its place waits to be filled again. What this returns is one
    /// instance too many, to be dropped when the lock is free.
    #[must_use]
    pub fn put_back(&mut self, slot: Slot) -> Option<Slot> {
        if let Some(at) = self.surplus.iter().position(|it| *it == slot.device()) {
            self.surplus.swap_remove(at);
            return Some(slot);
        }
        if slot.is_made() {
            self.idle.push(slot)
        } else {
            self.unmade.push(slot)
        }
        None
    }

    /// Is every place that of a run that does not end?
    pub fn is_stuck(&self) -> bool {
        0 < self.slots && self.slots <= self.runs.places_lost()
    }

    /// Takes everything that waits.
    pub fn take_all(&mut self) -> Vec<Job> {
        let waiting = self.queue.len();
        self.queue.take(waiting).into_iter().map(|(_, job)| job).collect()
    }

    /// The thread of a run that had been given up is back, with its instance. Is it to go on? Else another has taken
    /// its place.
    pub fn is_wanted_back(&mut self, stop: &Arc<Stop>) -> bool {
        let is_replaced = self.runs.is_back(stop);
        self.threads += usize::from(!is_replaced);
        !is_replaced
    }

    /// Takes in the times of executions.
    pub fn learn(&mut self, times: &[Timings]) {
        for it in times {
            self.times.record(it.batch_rows, it.infer);
        }
    }

    /// May a run of that kind, of so many rows, be made on the thread of the one that asks?
    pub(crate) fn may_run_in_place(&self, kind: RunKind, rows: usize, now: Instant) -> bool {
        self.fast.may_run(kind, rows, &self.times, now)
    }

    /// What most runs of so many rows take, or of as many smaller ones as they make where none of that size has been
    /// seen; `None` before the first.
    pub fn usual_time(&self, rows: usize) -> Option<Duration> {
        self.times.p95(rows).max(self.times.mean_of_all(rows))
    }

    /// Takes in that the memory did not suffice for a run of so many rows, or that a run has succeeded where it is
    /// `None`. Returns the bound of rows where that has changed it, `Some(None)` where it is gone.
    pub fn learn_memory(&mut self, ran_out: Option<usize>, now: Instant) -> Option<Option<usize>> {
        let memory = match ran_out {
            Some(rows) => self.memory.after_failure(rows, now),
            None => self.memory.after_success(self.queue.configured_rows(), now),
        };
        let has_changed = memory.rows() != self.memory.rows();
        self.memory = memory;
        has_changed.then(|| {
            self.queue.bound_rows(memory.rows());
            memory.rows()
        })
    }

    /// Most rows of a run, where the memory bounds them.
    pub fn memory_rows(&self) -> Option<usize> {
        self.memory.rows()
    }

    /// A run of several requests has ended: the one that is to be looked at, if one is. None while another waits.
    pub(crate) fn choose_sample(&mut self, requests: usize) -> Option<Chosen> {
        if self.sample.is_some() {
            return None;
        }
        self.looks.choose(requests)
    }

    /// Takes in how long one batch occupied an instance.
    pub fn learn_occupancy(&mut self, rows: usize, took: Duration) {
        self.occupancy.record(rows, took);
    }

    /// Takes in that a request of so many rows has come.
    pub fn learn_request(&mut self, rows: usize) {
        self.request_rows.record(rows);
    }

    /// Rows of a usual request of late; 0 before the first.
    pub(crate) fn usual_rows(&self) -> usize {
        self.request_rows.usual()
    }

    /// Is there a batch that the next free instance would run at once?
    pub fn is_backlogged(&self, now: Instant) -> bool {
        matches!(self.queue.decide(now, self.flushing), Decision::Run { .. })
    }

    /// What stands before a new job of that many rows.
    pub fn load(&self, rows: usize, now: Instant) -> Load {
        let rest = |it: &Running| {
            let expected = self.occupancy.mean(it.rows).unwrap_or_default();
            expected.saturating_sub(it.lasted(now))
        };
        let queued_batches = self.queue.batches();
        let drain = self.queue.packing().and_then(Packing::drain);
        let batch_time = match (drain, u32::try_from(queued_batches)) {
            (Some(drain), Ok(batches @ 1..)) => drain / batches,
            _ => self.occupancy.mean(self.queue.rows_per_batch()).unwrap_or_default(),
        };
        let usual_rows = self.occupancy.worthwhile_rows().max(self.request_rows.usual());
        Load {
            running: self.runs.batches().map(rest).sum(),
            queued_batches,
            batch_time,
            own_time: self.occupancy.p95(rows).unwrap_or_default(),
            own_mean: self.occupancy.mean(rows).unwrap_or_default(),
            usual_time: self.occupancy.mean_of_all(usual_rows).unwrap_or_default(),
            instances: self.serving_places(),
        }
    }
}

#[cfg(test)]
mod tests {
    use backend::{BackendError, Batch, Instance, NamedTensor};

    use super::*;
    use crate::{
        policy::{BatchPolicy, Pending},
        queue::Job,
        reply::Reply,
        work::Work,
    };

    struct Nothing;

    impl Instance for Nothing {
        fn execute(&mut self, _: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
            Ok(Vec::new())
        }
    }

    const DELAY: Duration = Duration::from_secs(1);

    /// One idle instance, and a queue in which `jobs` wait for others.
    fn waiting(jobs: usize, now: Instant) -> State {
        let batching = BatchPolicy { max_rows: 8, preferred_rows: vec![8], max_delay: DELAY };
        let mut slot = Slot::empty(Arc::new(|| Ok(Box::new(Nothing))));
        slot.fill().unwrap();
        let queue = Queue::new(batching, Vec::new(), 0, 0);
        let mut state = State::new(queue, vec![slot], RunTimes::default());
        for _ in 0..jobs {
            let pending =
                Pending { rows: 1, enqueued_at: now, shape_key: 0, length: 0, is_alone: false };
            let work = Work {
                about: None,
                parts: None,
                signature: 0,
                inputs: Vec::new(),
                outputs: Vec::new(),
                rows: 1,
            };
            let job = Job::new(pending, work, None, Reply::none(), None);
            state.queue.push(0, job).unwrap();
        }
        state
    }

    #[test]
    fn a_batch_that_waits_for_company_needs_a_worker_that_watches_the_clock() {
        let now = Instant::now();
        let mut state = waiting(2, now);
        // It sleeps until it is woken: it does not know of these jobs.
        state.park(None);
        assert!(state.needs_worker(now));
        state.park(Some(now + DELAY * 2));
        assert!(state.needs_worker(now));
        state.park(Some(now + DELAY));
        assert!(!state.needs_worker(now));
        state.unpark(Some(now + DELAY));
        assert!(state.needs_worker(now));
    }

    #[test]
    fn an_instance_that_cannot_be_made_yet_needs_a_worker_that_tries_again() {
        let now = Instant::now();
        let mut state = waiting(1, now);
        let slot = Slot::empty(Arc::new(|| Err(BackendError::OutOfMemory("no room".into()))));
        state.idle.clear();
        assert!(!state.needs_worker(now));
        state.put_back_unmade(slot, now);
        assert!(state.needs_worker(now) && state.place_to_fill(now).is_none());
        state.park(state.makes_at());
        assert!(!state.needs_worker(now));
        assert!(state.place_to_fill(now + RETRY_MAKING).is_some());
    }
}
