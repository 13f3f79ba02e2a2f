//! The end of models that serve no more: when the last request has let go of one, its instances and files go, and
//! its memory goes back to the system.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::load::loader::Loader;
use serving::{manager::ModelManager, model_id::ModelId, served::ServedModel, state::Reason};

/// How soon the requests of a model that has just been withdrawn are looked at again; twice as long each time.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// No longer than that between two looks.
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// How long runs without a waiting client may take to end. After that they end by themselves.
const LONGEST_END: Duration = Duration::from_secs(60);

/// A model that serves no more.
pub(super) struct Retired {
    pub(super) id: ModelId,
    pub(super) model: Arc<ServedModel>,
    /// What the index says of it in the end, unless another has taken its place.
    pub(super) reason: Reason,
}

/// Waits for the requests of such models, on a thread that there is only while there are some.
#[derive(Clone)]
pub(super) struct Reaper(Arc<Inner>);

struct Inner {
    loader: Arc<Loader>,
    manager: Arc<ModelManager>,
    /// Guards what is still waited for.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Retired>,
    /// Those that are being ended just now.
    ending: Vec<ModelId>,
    has_thread: bool,
}

impl State {
    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.ending.is_empty()
    }

    fn has(&self, id: &ModelId) -> bool {
        self.ending.contains(id) || self.waiting.iter().any(|it| it.id == *id)
    }
}

impl Reaper {
    pub(super) fn new(loader: Arc<Loader>, manager: Arc<ModelManager>) -> Reaper {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Reaper(Arc::new(Inner { loader, manager, state, changed }))
    }

    /// Takes models over. A request to one keeps it until the answer.
    pub(super) fn take(&self, retired: Vec<Retired>) {
        if retired.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        state.waiting.extend(retired);
        if state.has_thread {
            return;
        }
        let inner = self.0.clone();
        let spawned = thread::Builder::new().name("reaper".to_owned()).spawn(move || inner.work());
        match spawned {
            Ok(_) => state.has_thread = true,
            // They go with their last request, and their memory later.
            Err(error) => {
                tracing::warn!(%error, "cannot start a thread to end models on");
                state.waiting.clear();
            }
        }
    }

    /// Waits until there is nothing left to end, no longer than that.
    pub(super) fn wait(&self, patience: Duration) {
        self.wait_while(patience, |it| !it.is_done());
    }

    /// Waits until that model is gone and its memory given back, no longer than that. Is it?
    pub(super) fn wait_for(&self, id: &ModelId, patience: Duration) -> bool {
        self.wait_while(patience, |it| it.has(id))
    }

    fn wait_while(&self, patience: Duration, is_there: impl Fn(&State) -> bool) -> bool {
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), patience, |it| is_there(it));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut pause = FIRST_LOOK;
        loop {
            let mut state = self.lock();
            // Requests find a model in the map alone, where it is no more: no new request can get it.
            let is_free = |it: &mut Retired| ServedModel::is_free(&it.model);
            let free: Vec<Retired> = state.waiting.extract_if(.., is_free).collect();
            state.ending = free.iter().map(|it| it.id.clone()).collect();
            if state.is_done() {
                state.has_thread = false;
                drop(state);
                self.changed.notify_all();
                return;
            }
            drop(state);
            if free.is_empty() {
                // The count of an `Arc` wakes no thread.
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_LOOK);
                continue;
            }
            pause = FIRST_LOOK;
            let gone: Vec<_> = free.into_iter().map(|it| self.end(it)).collect();
            self.loader.give_back_memory();
            for (id, version, reason) in gone {
                self.manager.note_gone(&id, version, reason);
            }
            self.lock().ending.clear();
            self.changed.notify_all();
        }
    }

    fn end(&self, retired: Retired) -> (ModelId, u64, Reason) {
        let Retired { id, model, reason } = retired;
        let began = Instant::now();
        model.dispatch.queue().close();
        if 0 < model.dispatch.queue().wait_closed(LONGEST_END) {
            tracing::warn!(model = %id, "a run goes on though its model is unloaded");
        }
        model.dispatch.queue().release();
        let version = model.signature.version;
        drop(model);
        let took_ms = began.elapsed().as_millis();
        tracing::info!(model = %id, version, took_ms, "an old model is gone");
        (id, version, reason)
    }
}
