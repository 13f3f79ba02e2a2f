//! The threads on which inputs are prepared and answers are put together where that takes long: tokens of long texts,
//! pictures, sound. One pool for all models of a server, so that clients share the processors fairly.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use backend::MODEL_STACK;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout_at,
};

use super::{admission::ExpectedWait, worker::lower_priority};
use inference::error::Error;
use telemetry::metrics::Gauge;

/// Niceness of the threads above that of the process: between those that talk to clients and those of models.
const NICENESS: i32 = 1;

/// So many pieces of work may be queued for each thread. More wait in the tasks of their requests.
const QUEUED_PER_THREAD: usize = 4;

/// The mean of how long work takes is mostly of so many pieces.
const MEMORY: u64 = 16;

/// Threads for work on inputs and answers. They are started when there is work for them, and end with the pool.
pub struct PreparePool {
    shared: Arc<Shared>,
    /// One for each piece of work that may be queued.
    places: Arc<Semaphore>,
}

/// For which request work is done.
#[derive(Clone)]
pub struct PrepareFor {
    /// Name of the model, for error texts.
    pub model: Arc<str>,
    /// No answer is of use after it.
    pub deadline: Option<Instant>,
}

struct Shared {
    /// Guards the queue and the counts of threads; never held while work is done.
    state: Mutex<State>,
    /// There is work, or the pool ends.
    changed: Condvar,
    /// Most threads.
    most: usize,
    /// Pieces of work that no thread has begun.
    waiting: Arc<Gauge>,
    /// Nanoseconds that a piece of work took of late; zero before the first has ended.
    mean_ns: AtomicU64,
}

#[derive(Default)]
struct State {
    /// At most [`QUEUED_PER_THREAD`] for each thread.
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closing: bool,
}

/// One piece of work. Dropped, it says so to the request that waits.
struct Job {
    work: Box<dyn FnOnce() + Send>,
    /// Given back when the work begins.
    place: OwnedSemaphorePermit,
    counted: Counted,
}

/// One that waits, as the gauge has it.
struct Counted(Arc<Gauge>);

impl Counted {
    fn new(gauge: &Arc<Gauge>) -> Counted {
        gauge.add(1);
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.sub(1);
    }
}

/// Is the result of some work still of use? Long work asks between its parts.
pub struct CancelToken {
    has_left: Arc<AtomicBool>,
    request: PrepareFor,
}

impl CancelToken {
    fn new(request: &PrepareFor) -> CancelToken {
        CancelToken { has_left: Arc::default(), request: request.clone() }
    }

    /// Ends work whose client has left, or whose deadline has passed.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`]; any, where the client has left, since none reaches it.
    pub fn check(&self) -> Result<(), Error> {
        if self.has_left.load(Ordering::Relaxed) {
            return Err(Error::Internal("the client has left".to_owned()));
        }
        match self.request.deadline {
            Some(at) if at <= Instant::now() => Err(self.request.too_late()),
            _ => Ok(()),
        }
    }
}

impl PrepareFor {
    fn too_late(&self) -> Error {
        Error::DeadlineExceeded { model: self.model.to_string() }
    }
}

/// Says that the client has left when the future of its request is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl PreparePool {
    /// A pool of at most `threads`. `waiting` shows how many pieces of work no thread has begun.
    pub fn new(threads: NonZeroUsize, waiting: Arc<Gauge>) -> PreparePool {
        let most = threads.get();
        let places = most.saturating_mul(QUEUED_PER_THREAD).min(Semaphore::MAX_PERMITS);
        let (state, changed) = Default::default();
        let mean_ns = AtomicU64::new(0);
        let shared = Arc::new(Shared { state, changed, most, waiting, mean_ns });
        PreparePool { shared, places: Arc::new(Semaphore::new(places)) }
    }

    /// Pieces of work that are done at the same time, at most.
    pub fn threads(&self) -> usize {
        self.shared.most
    }

    /// What work that comes now has to wait for; `None` where no work waits.
    pub fn expected_wait(&self) -> Option<ExpectedWait> {
        let Shared { most, waiting, mean_ns, .. } = &*self.shared;
        let (pieces, mean) = (waiting.get(), mean_ns.load(Ordering::Relaxed));
        let whole = Duration::from_nanos(mean.saturating_mul(pieces) / *most as u64);
        let (piece, requests) =
            (Duration::from_nanos(mean), usize::try_from(pieces).unwrap_or(usize::MAX));
        (0 < pieces).then_some(ExpectedWait { whole, piece, requests })
    }

    /// Does short work at once, on the calling task.
    ///
    /// # Errors
    /// Those of the work; [`Error::Internal`] where the work panics.
    pub fn run_here<T>(
        request: &PrepareFor,
        work: impl FnOnce(&CancelToken) -> Result<T, Error>,
    ) -> Result<T, Error> {
        unless_panicked(work, &CancelToken::new(request))
    }

    /// Does work on a thread of the pool. Where the queue is full it waits for a place first, in order of arrival.
    ///
    /// # Errors
    /// Those of the work; [`Error::DeadlineExceeded`]; [`Error::Internal`] where the work panics.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the work undone, or has it end where it asks [`CancelToken::check`].
    pub async fn run<T: Send + 'static>(
        &self,
        request: &PrepareFor,
        work: impl FnOnce(&CancelToken) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let counted = Counted::new(&self.shared.waiting);
        let place = self.places.clone().acquire_owned();
        let place = match request.deadline {
            None => place.await,
            Some(at) => timeout_at(at.into(), place).await.map_err(|_| request.too_late())?,
        };
        // It is never closed.
        let place = place.map_err(|_| Error::ShuttingDown)?;
        let wanted = CancelToken::new(request);
        let _guard = SetOnDrop(wanted.has_left.clone());
        let (sender, receiver) = oneshot::channel();
        let work = move || {
            let done = wanted.check().and_then(|()| unless_panicked(work, &wanted));
            // The client may be gone; that is its choice.
            drop(sender.send(done));
        };
        self.push(Job { work: Box::new(work), place, counted });
        let no_thread = || Error::Internal("no thread to prepare the request on".to_owned());
        receiver.await.unwrap_or_else(|_| Err(no_thread()))
    }

    /// Queues work, and sees to it that there is a thread for it.
    fn push(&self, job: Job) {
        let mut state = self.shared.lock();
        state.queue.push_back(job);
        if state.queue.len() <= state.idle || self.shared.most <= state.threads {
            drop(state);
            self.shared.changed.notify_one();
            return;
        }
        let number = state.threads;
        state.threads += 1;
        drop(state);
        let shared = self.shared.clone();
        let builder = thread::Builder::new().name(format!("prepare-{number}"));
        let spawned = builder.stack_size(MODEL_STACK).spawn(move || {
            lower_priority(NICENESS);
            shared.work();
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to prepare requests on");
            let mut state = self.shared.lock();
            state.threads -= 1;
            if state.threads == 0 {
                // The requests are told so: nothing else would take them from the queue.
                let left = std::mem::take(&mut state.queue);
                drop(state);
                drop(left);
            }
        }
    }
}

/// Does the work. What panics is shared by no other request and never used again, so that only this one fails.
fn unless_panicked<T>(
    work: impl FnOnce(&CancelToken) -> Result<T, Error>,
    wanted: &CancelToken,
) -> Result<T, Error> {
    let done = catch_unwind(AssertUnwindSafe(|| work(wanted)));
    done.unwrap_or_else(|_| Err(Error::Internal("a step of the pipeline panicked".to_owned())))
}

impl Drop for PreparePool {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// Does what is queued until the pool ends.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(Job { work, place, counted }) = state.queue.pop_front() {
                drop(state);
                drop((place, counted));
                let began = Instant::now();
                work();
                self.learn(began.elapsed());
                state = self.lock();
                continue;
            }
            if state.closing {
                return;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Takes in how long a piece of work took. Of two threads that do so at once, one may be lost.
    fn learn(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mean = match self.mean_ns.load(Ordering::Relaxed) {
            0 => took,
            mean => mean - mean / MEMORY + took / MEMORY,
        };
        self.mean_ns.store(mean, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
