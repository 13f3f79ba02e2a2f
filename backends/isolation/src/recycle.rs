//! A worker that holds more memory than it may is replaced: another is loaded and warmed beside it, the lanes move, and
//! the old one ends with the last run that it has. No request waits for any of it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, NamedTensor, Stop};

use crate::{
    figures::SAMPLED_EVERY,
    launch::Worker,
    open::{Host, Open},
};

/// Inputs of a run that are kept to warm a worker up: no more than these bytes.
const KEPT: usize = 1 << 20;

/// A run that warms a worker up and lasts longer is given up.
const LONGEST_RUN: Duration = Duration::from_secs(900);

/// A pause after a replacement: so many times what that took.
const PAUSE: u32 = 10;

/// And so long where the new worker holds too much at once.
const USELESS_PAUSE: Duration = Duration::from_secs(60);

/// A lane, as the recycler moves it.
pub(crate) type Place = Arc<Mutex<Open>>;

/// Replaces the workers of one model version.
pub(crate) struct Recycler {
    /// Bytes of private memory above which a worker is replaced.
    above: u64,
    /// Guards which lanes there are.
    lanes: Mutex<Vec<(Host, Weak<Mutex<Open>>)>>,
    turn: Mutex<Turn>,
}

/// One replacement at a time.
struct Turn {
    is_taken: bool,
    not_before: Instant,
}

/// A run, to be made once more.
struct Sample {
    inputs: Vec<NamedTensor>,
    outputs: Vec<Arc<str>>,
    rows: usize,
    signature: usize,
}

impl Recycler {
    pub(crate) fn new(above: u64) -> Recycler {
        let turn = Turn { is_taken: false, not_before: Instant::now() };
        Recycler { above, lanes: Mutex::default(), turn: Mutex::new(turn) }
    }

    /// A lane is there, and moves along from now on.
    pub(crate) fn has_lane(&self, host: &Host, place: &Place) {
        let mut lanes = self.lanes();
        lanes.retain(|(_, it)| 0 < it.strong_count());
        lanes.push((host.clone(), Arc::downgrade(place)));
    }

    /// That worker has made a run: where it holds too much, its replacement begins, on a thread of its own, and is
    /// warmed up with that batch.
    pub(crate) fn ran(
        self: &Arc<Self>,
        host: &Host,
        worker: &Arc<Worker>,
        batch: Option<&Batch<'_>>,
    ) {
        let figures = host.supervisor.figures();
        let holds = figures.private_bytes(worker.pid());
        if holds <= self.above || worker.is_retired() || !self.takes_turn() {
            return;
        }
        let (model, version) = (worker.model().to_owned(), worker.version());
        tracing::info!(
            model,
            version,
            worker = worker.pid(),
            "its process holds {holds} bytes, more than {} (MEMORY_RECYCLE_BYTES): another takes its place",
            self.above
        );
        let (recycler, host, old) = (self.clone(), host.clone(), worker.clone());
        let sample = batch.and_then(Sample::of);
        let name = format!("recycle-{model}");
        let spawned = thread::Builder::new().name(name).spawn(move || {
            let began = Instant::now();
            let replaced = recycler.replace(&host, &old, sample.as_ref());
            drop(old);
            let pause = match replaced {
                Ok(new) if recycler.above < host.supervisor.figures().private_bytes(new) => {
                    tracing::warn!(
                        model,
                        version,
                        worker = new,
                        "a new process holds more than {} bytes, too: MEMORY_RECYCLE_BYTES is too low",
                        recycler.above
                    );
                    USELESS_PAUSE
                }
                Ok(_) => SAMPLED_EVERY.max(began.elapsed().saturating_mul(PAUSE)),
                Err(error) => {
                    tracing::warn!(model, version, "its process stays although it holds too much: {error}");
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

    /// Has another worker take the place of `old`; its process. Blocking.
    ///
    /// # Errors
    /// Where none can be loaded, or it fails the run that warms it up.
    fn replace(
        &self,
        host: &Host,
        old: &Arc<Worker>,
        sample: Option<&Sample>,
    ) -> Result<u32, BackendError> {
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
        Ok(new.pid())
    }

    fn living(&self) -> Vec<(Host, Place)> {
        let lanes = self.lanes();
        lanes.iter().filter_map(|(host, it)| Some((host.clone(), it.upgrade()?))).collect()
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<(Host, Weak<Mutex<Open>>)>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn takes_turn(&self) -> bool {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let takes = !turn.is_taken && turn.not_before <= Instant::now();
        turn.is_taken |= takes;
        takes
    }

    fn end_turn(&self, not_before: Instant) {
        let turn = Turn { is_taken: false, not_before };
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
    }
}

impl Sample {
    /// The run, unless it is large: its inputs are held beyond the requests that they came with.
    fn of(batch: &Batch<'_>) -> Option<Sample> {
        let bytes =
            batch.inputs.iter().map(|it| it.tensor.byte_len()).fold(0, usize::saturating_add);
        (bytes <= KEPT).then(|| Sample {
            inputs: batch.inputs.to_vec(),
            outputs: batch.outputs.to_vec(),
            rows: batch.rows,
            signature: batch.signature,
        })
    }

    fn run(&self, open: &mut Open) -> Result<(), BackendError> {
        let stop = Stop::new();
        stop.end_by(Instant::now().checked_add(LONGEST_RUN));
        let Sample { inputs, outputs, rows, signature } = self;
        let (rows, signature) = (*rows, *signature);
        open.run_once(&Batch { inputs, outputs, rows, signature, stop: &stop })
    }
}

/// The lane of a place. Held while it runs.
pub(crate) fn lock(place: &Mutex<Open>) -> MutexGuard<'_, Open> {
    // What panicked was the engine, in its process.
    place.lock().unwrap_or_else(PoisonError::into_inner)
}
