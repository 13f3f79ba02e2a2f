//! A worker that holds more memory than it may, or has answered as many requests as it may, is replaced: another is
//! loaded and warmed beside it, the lanes move, and the old one ends with the last run that it has. No request waits
//! for any of it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, RerunPolicy};

use crate::{
    figures::SAMPLED_EVERY,
    launch::Worker,
    limits::{RECYCLE_ABOVE, RECYCLE_AFTER, Recycling},
    open::{Host, Open},
    sample::Sample,
    vitals::Vitals,
};

/// A pause after a replacement: so many times what that took.
const PAUSE: u32 = 10;

/// And so long where the new worker holds too much at once.
const USELESS_PAUSE: Duration = Duration::from_secs(60);

/// A lane, as the recycler moves it.
pub(crate) type RecycledLane = Arc<Mutex<Open>>;

/// Replaces the workers of one model version on one device.
pub(crate) struct Recycler {
    /// When a worker is replaced.
    when: Recycling,
    /// May the batch that was run last warm another worker up?
    rerun: RerunPolicy,
    /// Guards which lanes there are.
    lanes: Mutex<Vec<(Host, Weak<Mutex<Open>>)>>,
    /// Guards from when on there may be a replacement: one at a time. `None` while there is one.
    turn: Mutex<Option<Instant>>,
}

/// Why a worker is to be replaced.
struct Due {
    /// The name of the parameter that says so.
    parameter: &'static str,
    /// A clause about its process.
    why: String,
}

impl Recycler {
    /// `None` where no worker is ever to be replaced.
    pub(crate) fn new(when: Recycling, rerun: RerunPolicy) -> Option<Recycler> {
        let turn = Mutex::new(Some(Instant::now()));
        let recycler = Recycler { when, rerun, lanes: Mutex::default(), turn };
        (when != Recycling::default()).then_some(recycler)
    }

    /// A lane is there, and moves along from now on.
    pub(crate) fn has_lane(&self, host: &Host, place: &RecycledLane) {
        let mut lanes = self.lanes();
        lanes.retain(|(_, it)| 0 < it.strong_count());
        lanes.push((host.clone(), Arc::downgrade(place)));
    }

    /// That worker has made a run: where it holds too much, or has answered enough, its replacement begins, on a thread
    /// of its own, and is warmed up with that batch.
    pub(crate) fn ran(
        self: &Arc<Self>,
        host: &Host,
        worker: &Arc<Worker>,
        batch: Option<&Batch<'_>>,
    ) {
        let due = self.due(host, worker.vitals());
        let Some(due) = due.filter(|_| !worker.is_retired() && self.takes_turn()) else { return };
        let (model, version) = (worker.model().to_owned(), worker.version());
        tracing::info!(
            model,
            version,
            worker = worker.pid(),
            "its process {}: another takes its place",
            due.why
        );
        let (recycler, host, old) = (self.clone(), host.clone(), worker.clone());
        let sample = batch.filter(|_| self.rerun.allows_reruns()).and_then(Sample::of);
        let name = format!("recycle-{model}");
        let spawned = thread::Builder::new().name(name).spawn(move || {
            let began = Instant::now();
            let replaced = recycler.replace(&host, &old, sample.as_ref());
            drop(old);
            let pause = match replaced.map(|new| (new.pid(), recycler.due(&host, new.vitals()))) {
                Ok((worker, Some(Due { parameter: parameter @ RECYCLE_ABOVE, why }))) => {
                    tracing::warn!(
                        model,
                        version,
                        worker,
                        "a new process {why}, too: {parameter} is too low"
                    );
                    USELESS_PAUSE
                }
                Ok(_) => SAMPLED_EVERY.max(began.elapsed().saturating_mul(PAUSE)),
                Err(error) => {
                    let why = due.why;
                    tracing::warn!(model, version, "its process stays although it {why}: {error}");
                    USELESS_PAUSE
                }
            };
            recycler.end_turn(Instant::now() + pause);
        });
        if let Err(error) = spawned {
            tracing::warn!(model = worker.model(), version, %error, "no thread to replace its process");
            self.end_turn(Instant::now() + USELESS_PAUSE);
        }
    }

    /// Why that worker is to be replaced.
    fn due(&self, host: &Host, worker: &Vitals) -> Option<Due> {
        let Recycling { above_bytes, after_requests } = self.when;
        let answered = worker.requests();
        if let Some(most) = after_requests.filter(|it| *it <= answered) {
            let why = format!("has answered {answered} requests of {most} ({RECYCLE_AFTER})");
            return Some(Due { parameter: RECYCLE_AFTER, why });
        }
        let most = above_bytes?;
        let holds = host.supervisor.figures().private_bytes(worker.pid);
        let why = || format!("holds {holds} bytes, more than {most} ({RECYCLE_ABOVE})");
        (most < holds).then(|| Due { parameter: RECYCLE_ABOVE, why: why() })
    }

    /// Has another worker take the place of `old`; that worker. Blocking.
    ///
    /// # Errors
    /// Where none can be loaded, or it fails the run that warms it up.
    fn replace(
        &self,
        host: &Host,
        old: &Arc<Worker>,
        sample: Option<&Sample>,
    ) -> Result<Arc<Worker>, BackendError> {
        let supervisor = &host.supervisor;
        let (new, took) = supervisor.another()?;
        let mut warm = Vec::new();
        for (host, place) in self.living() {
            let mut open = Open::on(new.clone(), &host)?;
            if let Some(sample) = sample {
                sample.run(&mut open)?;
            }
            warm.push((place, open));
        }
        if !supervisor.replace(old, &new, took) {
            return Err(BackendError::Execute("it has ended meanwhile".to_owned()));
        }
        for (place, open) in warm {
            // It waits for the run that goes on. The old lane goes when the new one can be used.
            let left = std::mem::replace(&mut *lock(&place), open);
            drop(left);
        }
        // A lane that was made meanwhile moves with its next run.
        old.retire();
        Ok(new)
    }

    fn living(&self) -> Vec<(Host, RecycledLane)> {
        let lanes = self.lanes();
        lanes.iter().filter_map(|(host, it)| Some((host.clone(), it.upgrade()?))).collect()
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<(Host, Weak<Mutex<Open>>)>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn takes_turn(&self) -> bool {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        turn.take_if(|not_before| *not_before <= Instant::now()).is_some()
    }

    fn end_turn(&self, not_before: Instant) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(not_before);
    }
}

/// The lane of a place. Held while it runs.
pub(crate) fn lock(place: &Mutex<Open>) -> MutexGuard<'_, Open> {
    // What panicked was the engine, in its process.
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
