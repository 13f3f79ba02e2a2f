//! The worker of one model version: started with it, and again whenever it has died.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use backend::{BackendError, ModelSource, Stop};

use crate::{
    channel::{ChannelError, Receiver},
    children::Children,
    launch::{Program, Worker},
    life::Life,
    message::{LoadAnswer, Loaded, ToWorker},
};

/// How often somebody who waits for a worker looks whether it is to end.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// What does not end so long after it was asked to is ended with its process.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// A request waits so long for a worker that may not be started yet; beyond that it is refused.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// Keeps one worker of a model version alive.
pub(crate) struct Supervisor {
    program: Program,
    children: Children,
    engine: String,
    source: ModelSource,
    /// Guards the worker, and is held while one is started: whoever else wants it waits.
    state: Mutex<State>,
}

struct State {
    worker: Option<Arc<Worker>>,
    life: Life,
    /// What the first worker said of the model.
    loaded: Option<Loaded>,
}

impl Supervisor {
    /// Starts the first worker, and says what it says of the model. Blocking.
    ///
    /// # Errors
    /// Those of the engine; [`BackendError::Load`] where the worker dies.
    pub(crate) fn start(
        program: &Program,
        children: &Children,
        engine: &str,
        source: &ModelSource,
    ) -> Result<(Arc<Supervisor>, Loaded), BackendError> {
        let state = State { worker: None, life: Life::default(), loaded: None };
        let supervisor = Arc::new(Supervisor {
            program: program.clone(),
            children: children.clone(),
            engine: engine.to_owned(),
            source: ModelSource { stop: Arc::default(), ..source.clone() },
            state: Mutex::new(state),
        });
        let (worker, loaded) = supervisor.load(&source.stop)?;
        let mut state = supervisor.lock();
        (state.worker, state.loaded) = (Some(worker), Some(loaded.clone()));
        drop(state);
        Ok((supervisor, loaded))
    }

    pub(crate) fn model(&self) -> &str {
        &self.source.name
    }

    /// The living worker, started where there is none. Blocking.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] where too many have died of late; [`BackendError::Crashed`] where it dies while it
    /// loads the model; else those of the engine.
    pub(crate) fn worker(self: &Arc<Self>) -> Result<Arc<Worker>, BackendError> {
        let mut state = self.lock();
        if let Some(worker) = state.worker.as_ref().filter(|it| !it.is_dead()) {
            return Ok(worker.clone());
        }
        self.bury(&mut state);
        let pause = state.life.pause(Instant::now());
        if WORTH_WAITING < pause {
            return Err(BackendError::Unavailable(format!(
                "the process of model '{}' has died too often of late; the next one is started in {} s",
                self.model(),
                pause.as_secs() + 1
            )));
        }
        // With the lock: nobody has another worker to use.
        thread::sleep(pause);
        match self.load(&Stop::new()) {
            Ok((worker, loaded)) if state.loaded.as_ref().is_some_and(|it| *it != loaded) => {
                drop(worker);
                state.life.died(Instant::now(), 0);
                Err(BackendError::Load(format!(
                    "the files of model '{}' are others than when it was loaded; load it again",
                    self.model()
                )))
            }
            Ok((worker, _)) => {
                tracing::info!(model = self.model(), worker = worker.pid(), "a new process serves");
                state.worker = Some(worker.clone());
                Ok(worker)
            }
            Err(error) => {
                state.life.died(Instant::now(), 0);
                Err(error)
            }
        }
    }

    /// Forgets the worker that has died, with a line of log.
    fn bury(&self, state: &mut State) {
        let Some(worker) = state.worker.take() else { return };
        state.life.died(Instant::now(), worker.answered());
        let (obituary, runs) = (worker.obituary(), worker.answered());
        tracing::error!(
            model = self.model(),
            worker = worker.pid(),
            runs,
            last_lines = worker.last_lines(),
            "{obituary}"
        );
    }

    /// Starts a worker that loads the model.
    fn load(self: &Arc<Self>, stop: &Stop) -> Result<(Arc<Worker>, Loaded), BackendError> {
        let weak = Arc::downgrade(self);
        let ended = move |worker: Arc<Worker>| revive(&weak, worker);
        let started = Worker::start(&self.program, self.model(), &self.children, ended);
        let (worker, mut answers) = started.map_err(|error| {
            let program = self.program.path.display();
            BackendError::Load(format!("cannot start a process ({program}): {error}"))
        })?;
        let asked = Arc::downgrade(&worker);
        stop.on_stop(move || {
            if let Some(worker) = asked.upgrade() {
                worker.send_at_once(&ToWorker::StopLoad);
            }
        });
        let answer = self.ask_to_load(&worker, &mut answers, stop);
        stop.clear_hook();
        match answer {
            Ok(answer) => Ok((worker, *answer?)),
            Err(ChannelError::Closed) => {
                let (obituary, lines) = (worker.obituary(), worker.last_lines());
                let said = if lines.is_empty() { "" } else { "; its last lines:\n" };
                Err(BackendError::Load(format!("{obituary} while it was loaded{said}{lines}")))
            }
            Err(error) => Err(BackendError::Load(format!("{}: {error}", worker.obituary()))),
        }
    }

    fn ask_to_load(
        &self,
        worker: &Worker,
        answers: &mut Receiver,
        stop: &Stop,
    ) -> Result<LoadAnswer, ChannelError> {
        let (engine, source) = (self.engine.clone(), Box::new(self.source.clone()));
        worker.send(&ToWorker::Load { engine, source })?;
        answers.set_timeout(LOOK)?;
        wait(answers, worker, Some(stop))?;
        answers.receive()
    }

    /// Is the first load over? A worker that dies in it has no successor.
    fn has_loaded(&self) -> bool {
        self.lock().loaded.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for an answer of that worker. Where the stop was requested and the worker does not heed it, it is ended.
pub(crate) fn wait(
    answers: &mut Receiver,
    worker: &Worker,
    stop: Option<&Stop>,
) -> Result<(), ChannelError> {
    let mut asked = None;
    loop {
        match answers.wait() {
            Err(ChannelError::Timeout) => {}
            other => return other,
        }
        if stop.is_some_and(Stop::is_over)
            && GRACE <= asked.get_or_insert_with(Instant::now).elapsed()
        {
            worker.kill();
        }
    }
}

/// A worker has ended that nobody has let go of: another takes its place, before the next request asks for it.
fn revive(supervisor: &Weak<Supervisor>, worker: Arc<Worker>) {
    drop(worker);
    while let Some(supervisor) = supervisor.upgrade() {
        if !supervisor.has_loaded() {
            return;
        }
        match supervisor.worker() {
            Ok(_) => return,
            Err(BackendError::Unavailable(_)) => {}
            Err(error) => tracing::warn!(model = supervisor.model(), "{error}"),
        }
        let pause = supervisor.lock().life.pause(Instant::now());
        drop(supervisor);
        thread::sleep(pause.min(LOOK));
    }
}
