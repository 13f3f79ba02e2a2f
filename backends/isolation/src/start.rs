//! The start of a worker: its process, and the load of its model.

use std::sync::Arc;

use backend::{BackendError, EndReason, ModelSource, Stop};

use crate::{
    channel::{ChannelError, Receiver},
    children::Children,
    figures::Figures,
    launch::{Program, Worker},
    message::{Entered, LoadAnswer, Loaded, ToWorker},
    patience::{LOOK, wait},
    whose::Whose,
};

/// A worker that is to load a model.
pub(crate) struct Start<'a> {
    pub(crate) program: &'a Program,
    pub(crate) children: &'a Children,
    pub(crate) figures: &'a Arc<Figures>,
    pub(crate) whose: &'a Whose,
    pub(crate) engine: &'a str,
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
    ) -> Result<(Arc<Worker>, Loaded), BackendError> {
        let started = Worker::start(self.program, self.whose, self.children, self.figures, ended);
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
        let answer = self.ask(&worker, &mut answers, is_given_up);
        stop.clear_hook();
        match answer {
            Ok(answer) => Ok((worker, *answer?)),
            Err(ChannelError::Closed) => {
                let (obituary, lines) = (worker.obituary(), worker.last_lines());
                let said = if lines.is_empty() { "" } else { "; its last lines:\n" };
                Err(BackendError::Load(format!("{obituary} while it was loaded{said}{lines}")))
            }
            Err(error) => {
                worker.end(EndReason::Protocol);
                Err(BackendError::Load(format!("{}: {error}", worker.obituary())))
            }
        }
    }

    fn ask(
        &self,
        worker: &Worker,
        answers: &mut Receiver,
        is_given_up: impl Fn() -> bool,
    ) -> Result<LoadAnswer, ChannelError> {
        let (engine, source) = (self.engine.to_owned(), Box::new(self.source.clone()));
        let order = worker.order().clone();
        // As the server's own threads are: from the process, not from the thread that has started the worker.
        let own = rustix::process::getpriority_process(Some(rustix::process::getpid()));
        let niceness = own.unwrap_or(0) + source.niceness;
        worker.send(&ToWorker::Load { engine, source, order, niceness })?;
        answers.set_timeout(LOOK)?;
        wait(|| answers.wait(), worker, &is_given_up)?;
        match answers.receive::<Entered>()? {
            Err(fault) => return Ok(Err(fault)),
            Ok(true) => {
                let missing = || ChannelError::Garbage("a word of a file without it".to_owned());
                worker.bound_threads(answers.file().ok_or_else(missing)?)?;
            }
            Ok(false) => {}
        }
        answers.take_no_more_files();
        wait(|| answers.wait(), worker, is_given_up)?;
        answers.receive()
    }
}
