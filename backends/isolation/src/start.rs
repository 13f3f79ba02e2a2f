//! The start of a worker: its process, and the load of its model.

use std::sync::Arc;

use backend::{BackendError, EndReason, ModelSource, Stop};

use crate::{
    channel::{ChannelError, Receiver},
    children::Children,
    figures::Figures,
    frame::{Encoding, Garbage},
    launch::Worker,
    message::{Entered, Fault, LoadAnswer, Loaded, ToWorker},
    patience::{LOOK, wait},
    program::Program,
    sandbox::Sandbox,
    whose::Whose,
};

/// What the kernel's refusals are called in errors of engines; the last one by ONNX Runtime, of EACCES.
const REFUSALS: [&str; 3] =
    ["Permission denied", "Operation not permitted", "system error number 13"];

/// What it says where there are as many threads as there may be.
const NO_THREAD: &str = "Resource temporarily unavailable";

/// A worker has not loaded its model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotLoaded {
    pub(crate) error: BackendError,
    pub(crate) cause: Cause,
}

/// What a load has failed for, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The model.
    Model,
    /// What the worker may not reach.
    Sandbox,
    /// There was no worker in which it could begin.
    Process,
}

impl From<NotLoaded> for BackendError {
    fn from(it: NotLoaded) -> BackendError {
        it.error
    }
}

/// A worker that is to load a model.
pub(crate) struct Start<'a> {
    pub(crate) program: &'a Program,
    pub(crate) children: &'a Children,
    pub(crate) figures: &'a Arc<Figures>,
    pub(crate) whose: &'a Whose,
    pub(crate) engine: &'a str,
    /// How the worker is spoken to once it is in its sandbox.
    pub(crate) encoding: Encoding,
    pub(crate) source: &'a ModelSource,
}

impl Start<'_> {
    /// Starts it, and ends it where `is_given_up` says so. `ended` is called as [`Worker::start`] says. Blocking.
    ///
    /// # Errors
    /// Those of the engine; [`BackendError::Load`] where the worker dies, or says what is no answer.
    pub(crate) fn load(
        &self,
        stop: &Stop,
        is_given_up: impl Fn() -> bool,
        ended: impl FnOnce(Arc<Worker>) + Send + 'static,
    ) -> Result<(Arc<Worker>, Loaded), NotLoaded> {
        let Start { program, whose, children, figures, .. } = *self;
        let started = Worker::start(program, whose, children, figures, ended);
        let (worker, mut answers) = started.map_err(|error| {
            let program = self.program.path.display();
            let error = BackendError::Load(format!("cannot start a process ({program}): {error}"));
            NotLoaded { error, cause: Cause::Process }
        })?;
        let asked = Arc::downgrade(&worker);
        stop.on_stop(move || {
            if let Some(worker) = asked.upgrade() {
                worker.send_at_once(&ToWorker::StopLoad);
            }
        });
        let entered = self.enter(&worker, &mut answers, &is_given_up);
        let has_entered = matches!(entered, Ok(Ok(())));
        let answer = entered.and_then(|entered| match entered {
            Ok(()) => {
                wait(|| answers.wait(), &worker, &is_given_up)?;
                answers.receive::<LoadAnswer>()
            }
            Err(fault) => Ok(Err(fault)),
        });
        stop.clear_hook();
        let error = match answer {
            Ok(Ok(loaded)) => return Ok((worker, *loaded)),
            Ok(Err(fault)) => {
                let error = BackendError::from(fault);
                let cause = match has_entered {
                    true => self.cause_of(&error.to_string()),
                    false => Cause::Sandbox,
                };
                return Err(NotLoaded { error, cause });
            }
            Err(ChannelError::Closed) => {
                let (obituary, lines) = (worker.obituary(), worker.last_lines());
                let said = if lines.is_empty() { "" } else { "; its last lines:\n" };
                BackendError::Load(format!("{obituary} while it was loaded{said}{lines}"))
            }
            Err(error) => {
                worker.end(EndReason::Protocol);
                BackendError::Load(format!("{}: {error}", worker.obituary()))
            }
        };
        Err(NotLoaded { error, cause: if has_entered { Cause::Model } else { Cause::Process } })
    }

    /// What an engine has met that says this.
    fn cause_of(&self, said: &str) -> Cause {
        let is_in_sandbox = self.program.sandbox != Sandbox::Off;
        match is_in_sandbox && REFUSALS.iter().any(|it| said.contains(it)) {
            true => Cause::Sandbox,
            false if said.contains(NO_THREAD) => Cause::Process,
            false => Cause::Model,
        }
    }

    /// Tells the worker what to load, and waits until it is in its sandbox.
    fn enter(
        &self,
        worker: &Worker,
        answers: &mut Receiver,
        is_given_up: impl Fn() -> bool,
    ) -> Result<Result<(), Fault>, ChannelError> {
        let (engine, source) = (self.engine.to_owned(), Box::new(self.source.clone()));
        let order = worker.order().clone();
        // As the server's own threads are: from the process, not from the thread that has started the worker.
        let own = rustix::process::getpriority_process(Some(rustix::process::getpid()));
        let niceness = own.unwrap_or(0) + source.niceness;
        worker.send(&ToWorker::Load { engine, source, order, niceness })?;
        answers.set_timeout(LOOK)?;
        wait(|| answers.wait(), worker, is_given_up)?;
        match answers.receive::<Entered>()? {
            Err(fault) => return Ok(Err(fault)),
            Ok(true) => {
                let missing = || Garbage::Unexpected("a word of a file without it".to_owned());
                let asks = answers.file().ok_or_else(missing)?;
                worker.bound_threads(asks).map_err(ChannelError::Io)?;
            }
            Ok(false) => {}
        }
        answers.take_no_more_files();
        answers.read_in(self.encoding);
        worker.write_in(self.encoding);
        Ok(Ok(()))
    }
}
