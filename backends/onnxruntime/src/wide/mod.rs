//! Runs with more threads than the instance's share of the processors, for when nothing else is to be run.
//!
//! A pool of threads belongs to a session, so there is a second one of the same graph. It is made in the background
//! once such runs have come for a while and take long enough to be divided. It is used where runs of either session
//! have given the same bytes, and it was sooner. Its threads spin for a moment before they sleep: inside a run
//! operators follow each other within microseconds, and a client that sends one request after the other has the next
//! run begin soon after the last.

mod gains;
mod room;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, DataType, MODEL_STACK, NamedTensor};
use twox_hash::XxHash3_128;

use crate::{native::Session, opener::Opener, options::Settings};
use gains::{Choice, Gains, Outcome, Shapes};
use room::Room;
pub(crate) use room::Rooms;

/// A run that takes less is not divided: to wake a thread and to wait for it takes some ten microseconds.
const LEAST: Duration = Duration::from_micros(200);

/// A run that takes longer is not made twice to compare.
const LONGEST_COMPARED: Duration = Duration::from_millis(500);

/// An input of whole numbers that has no more elements may say what shape something has.
const LONGEST_SHAPE: usize = 4;

/// After so many runs that could be divided the second session is made.
const RUNS_BEFORE: u32 = 16;

/// The second sessions of all models of a process have the weights of at most this part of its memory once more.
const PART_OF_MEMORY: u64 = 16;

/// The second session of a model, once it is worth while.
pub(crate) struct Wide {
    opener: Arc<Opener>,
    settings: Settings,
    /// Bytes of weights that second sessions may have in all; `None`: any number.
    most_bytes: Option<u64>,
    /// Runs of the model that have begun, of any kind.
    begun: AtomicU64,
    state: Mutex<State>,
}

struct State {
    second: Second,
    gains: Gains,
    /// Makes the second session.
    maker: Option<JoinHandle<()>>,
}

/// How far it is.
enum Second {
    /// So many runs have been long enough.
    NotYet(u32),
    Making,
    Made {
        session: Arc<Session>,
        _room: Room,
    },
    /// There is none, and will be none.
    Never,
}

/// What came of a run.
pub(crate) struct Ran {
    pub(crate) outputs: Result<Vec<NamedTensor>, BackendError>,
    /// Was it made on the second session, or on both?
    pub(crate) is_wide: bool,
}

/// A run on one of the sessions.
type RunOn<'a> = &'a dyn Fn(&Arc<Session>) -> Result<Vec<NamedTensor>, BackendError>;

impl Wide {
    /// Nothing is made yet. `settings` are those of the second session; `memory` is what the process
    /// may take, in bytes, where that is bounded.
    pub(crate) fn new(opener: Arc<Opener>, settings: Settings, memory: Option<u64>) -> Arc<Wide> {
        let state = State { second: Second::NotYet(0), gains: Gains::new(), maker: None };
        let most_bytes = memory.map(|it| it / PART_OF_MEMORY);
        let begun = AtomicU64::new(0);
        Arc::new(Wide { opener, settings, most_bytes, begun, state: Mutex::new(state) })
    }

    /// A run of the model begins: one beside which another does tells nothing of times.
    pub(crate) fn note_run(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// Makes a run that may take all processors: on `usual`, or on the second session, or on both. What `usual` gives
    /// counts, and an error of the other alone is none.
    pub(crate) fn run(
        self: &Arc<Self>,
        usual: &Arc<Session>,
        batch: &Batch<'_>,
        run: RunOn<'_>,
    ) -> Ran {
        let planned = {
            let mut state = self.lock();
            let State { second, gains, .. } = &mut *state;
            match second {
                Second::Made { session, .. } => {
                    let shapes = shapes_of(batch);
                    let choice = gains.choose(shapes, || hash_of(batch.inputs));
                    Some((session.clone(), shapes, choice))
                }
                Second::NotYet(_) | Second::Making | Second::Never => None,
            }
        };
        let (outputs, is_wide) = match planned {
            None => {
                let (outputs, took) = timed(run, usual);
                if LEAST <= took {
                    self.could_be_divided();
                }
                (outputs, false)
            }
            Some((_, _, Choice::Narrow)) => (run(usual), false),
            Some((wide, shapes, Choice::Wide)) => {
                (self.run_wide(usual, &wide, (batch, shapes), run), true)
            }
            Some((wide, shapes, Choice::Pair)) => {
                (self.pair(usual, &wide, (batch, shapes), run), true)
            }
        };
        Ran { outputs, is_wide }
    }

    fn run_wide(
        &self,
        usual: &Arc<Session>,
        wide: &Arc<Session>,
        (batch, shapes): (&Batch<'_>, Shapes),
        run: RunOn<'_>,
    ) -> Result<Vec<NamedTensor>, BackendError> {
        let begun = self.begun.load(Relaxed);
        let (outputs, took) = timed(run, wide);
        if outputs.is_err() && !batch.stop.is_over() {
            let outputs = run(usual);
            if outputs.is_ok() {
                self.lock().gains.refuse(shapes);
            }
            return outputs;
        }
        let is_alone = self.begun.load(Relaxed) == begun;
        self.lock().gains.ran_wide(shapes, Some(took).filter(|_| is_alone));
        outputs
    }

    /// Makes the run both ways and compares what they give, as long as there is time for that.
    fn pair(
        &self,
        usual: &Arc<Session>,
        wide: &Arc<Session>,
        (batch, shapes): (&Batch<'_>, Shapes),
        run: RunOn<'_>,
    ) -> Result<Vec<NamedTensor>, BackendError> {
        let begun = self.begun.load(Relaxed);
        let (outputs, took) = timed(run, usual);
        let had_company = self.begun.load(Relaxed) != begun;
        let Ok(narrow) = outputs else { return outputs };
        if LONGEST_COMPARED < took {
            self.lock().gains.refuse(shapes);
            return Ok(narrow);
        }
        if !has_time(batch, 2 * took) {
            return Ok(narrow);
        }
        let other = run(wide);
        if batch.stop.is_stopped() {
            return Ok(narrow);
        }
        let is_float = |it: &&NamedTensor| is_float(it.tensor.dtype());
        let tells = narrow.iter().any(|it| is_float(&it));
        let is_same = tells && other.is_ok_and(|it| are_same(&narrow, &it));
        let elements = narrow.iter().filter(is_float).map(|it| it.tensor.elements());
        let of = || Outcome {
            inputs: hash_of(batch.inputs),
            outputs: hash_of(narrow.iter().filter(is_float)),
            floats: elements.fold(0, usize::saturating_add),
        };
        self.learn(shapes, is_same.then(of), Some(took).filter(|_| !had_company));
        Ok(narrow)
    }

    /// Takes in a pair; `of` is `None` where the two have differed, or cannot tell.
    fn learn(&self, shapes: Shapes, of: Option<Outcome>, narrow: Option<Duration>) {
        let (model, is_same) = (&*self.settings.log_name, of.is_some());
        tracing::debug!(model, is_same, "a run was made with more threads, too");
        let mut state = self.lock();
        match of {
            Some(of) => state.gains.same(shapes, of, narrow),
            None => state.gains.refuse(shapes),
        }
        let is_fruitless = state.gains.are_fruitless();
        drop(state);
        if is_fruitless {
            self.let_go();
        }
    }

    /// A run was long enough to be divided. Starts to make the second session once there were enough.
    fn could_be_divided(self: &Arc<Self>) {
        let mut state = self.lock();
        let Second::NotYet(runs) = &mut state.second else { return };
        *runs += 1;
        if *runs < RUNS_BEFORE {
            return;
        }
        let wide = Arc::downgrade(self);
        let builder = thread::Builder::new().name("wide session".to_owned());
        match builder.stack_size(MODEL_STACK).spawn(move || make(&wide)) {
            Ok(maker) => {
                state.second = Second::Making;
                state.maker = Some(maker);
            }
            Err(_) => state.second = Second::Never,
        }
    }

    /// The second session goes, and does not come back. One that is being made is made no further.
    pub(crate) fn let_go(&self) {
        self.settings.stop.stop();
        let second = std::mem::replace(&mut self.lock().second, Second::Never);
        // Not under the lock: it may be the last that has the session.
        drop(second);
    }

    /// The same, and waits for the thread that makes one. Blocking.
    pub(crate) fn end(&self) {
        self.let_go();
        let maker = self.lock().maker.take();
        if let Some(maker) = maker {
            // One that has panicked has made nothing.
            let _ = maker.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the second session of a model that may be unloaded meanwhile.
fn make(wide: &Weak<Wide>) {
    let Some(parts) = wide.upgrade() else { return };
    let (opener, settings) = (parts.opener.clone(), parts.settings.clone());
    let room = opener.runtime.rooms.take(opener.bytes(), parts.most_bytes);
    drop(parts);
    let made = room.and_then(|room| match opener.another(&settings) {
        Ok(session) => Some(Second::Made { session: Arc::new(session), _room: room }),
        Err(error) => {
            let model = &*settings.log_name;
            tracing::debug!(model, %error, "no second session for runs beside which there is no other");
            None
        }
    });
    if opener.is_large() {
        environment::give_back_memory();
    }
    let Some(wide) = wide.upgrade() else { return };
    let mut state = wide.lock();
    // It may have been let go of before it was there.
    if matches!(state.second, Second::Making) {
        state.second = made.unwrap_or(Second::Never);
    }
}

/// A run, and how long it took.
fn timed(
    run: RunOn<'_>,
    session: &Arc<Session>,
) -> (Result<Vec<NamedTensor>, BackendError>, Duration) {
    let began = Instant::now();
    (run(session), began.elapsed())
}

fn shapes_of(batch: &Batch<'_>) -> Shapes {
    let (mut hasher, mut elements) = (DefaultHasher::new(), 0usize);
    for it in batch.inputs {
        it.name.hash(&mut hasher);
        it.tensor.shape().dims().hash(&mut hasher);
        // What is as short as a shape may be one, of something inside of the graph.
        if it.tensor.elements() <= LONGEST_SHAPE && !is_float(it.tensor.dtype()) {
            it.tensor.segments().iter().for_each(|it| it.hash(&mut hasher));
        }
        elements = elements.saturating_add(it.tensor.elements());
    }
    batch.outputs.hash(&mut hasher);
    Shapes { key: hasher.finish(), elements }
}

/// A hash of what is in the tensors.
fn hash_of<'a>(tensors: impl IntoIterator<Item = &'a NamedTensor>) -> u128 {
    let mut hasher = XxHash3_128::new();
    for it in tensors {
        hasher.write(it.name.as_bytes());
        it.tensor.segments().iter().for_each(|it| hasher.write(it));
    }
    hasher.finish_128()
}

/// Are these the same outputs, to the byte?
fn are_same(one: &[NamedTensor], other: &[NamedTensor]) -> bool {
    let same = |(one, other): (&NamedTensor, &NamedTensor)| {
        one.name == other.name
            && one.tensor.dtype() == other.tensor.dtype()
            && one.tensor.shape() == other.tensor.shape()
            && one.tensor.to_bytes() == other.tensor.to_bytes()
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// Would such outputs show that sums were made in another order? Labels would not.
fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

/// May a run of that batch still take so long?
fn has_time(batch: &Batch<'_>, time: Duration) -> bool {
    let end = Instant::now().checked_add(time);
    let ends_by = batch.stop.ends_by();
    !batch.stop.is_stopped() && ends_by.is_none_or(|it| end.is_some_and(|end| end < it))
}
