//! Processes that workers are forked from where it is to be found out where models run: such a one has opened the
//! engine's library, and knows of no model. A fork of it is a worker as any other, which has neither a program to start
//! nor a library to open; what the library has in memory the forks share.

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use backend::EndReason;

use crate::{
    channel::{ChannelError, LONGEST_SILENCE, Receiver},
    children::Children,
    launch::{Birth, Worker},
    message::{Forked, Prepared, ToWorker},
    patience::{LOOK, wait},
    program::Program,
    whose::Whose,
};

/// An engine's library is opened within this time, or no process is forked.
const LONGEST_OPENING: Duration = Duration::from_secs(60);

/// The processes that others are forked from, one of each engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Templates {
    /// By the names of engines. Each guards its own: the first worker has it started, and others wait for that.
    of: Arc<Mutex<HashMap<String, Arc<Mutex<Kept>>>>>,
}

#[derive(Debug, Default)]
enum Kept {
    #[default]
    None,
    Living(Template),
    /// None can be forked of that engine.
    Useless,
}

struct Template {
    worker: Arc<Worker>,
    answers: Receiver,
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Template").field(&self.worker.pid()).finish()
    }
}

/// A worker that is to be forked.
pub(crate) struct Fork<'a> {
    pub(crate) program: &'a Program,
    pub(crate) children: &'a Children,
    pub(crate) engine: &'a str,
    /// Whose lines are those of a process that is started for it.
    pub(crate) whose: &'a Whose,
}

impl Templates {
    /// A process forked from that of the engine, which is started where there is none; a child of this process.
    /// `None` where none can be forked: the program is to be started then. Blocking.
    pub(crate) fn fork(&self, fork: &Fork<'_>, birth: &Birth) -> Option<u32> {
        let kept = {
            let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
            of.entry(fork.engine.to_owned()).or_default().clone()
        };
        let mut locked = lock(&kept);
        // One that nobody has asked for a while ends, perhaps just now.
        for _ in 0..2 {
            let is_new = matches!(*locked, Kept::None);
            if is_new {
                *locked = Template::start(fork, &kept).ok()?;
            }
            let Kept::Living(template) = &mut *locked else { return None };
            let forked = fork.children.adopt(|| template.fork(birth));
            match forked {
                Ok(pid) => return Some(pid),
                Err(error) => {
                    tracing::debug!(engine = fork.engine, %error, "no process is forked");
                    // Where a new one cannot do it either, no model pays for two more.
                    *locked = if is_new { Kept::Useless } else { Kept::None };
                }
            }
        }
        None
    }
}

impl Template {
    /// Starts one, and waits until the library is open. Blocking.
    ///
    /// # Errors
    /// Where there is no process now; there may be one later.
    fn start(fork: &Fork<'_>, kept: &Arc<Mutex<Kept>>) -> io::Result<Kept> {
        let Fork { program, children, engine, whose } = *fork;
        let (figures, kept) = (Arc::default(), Arc::downgrade(kept));
        let ended = move |worker: Arc<Worker>| {
            let Some(kept) = kept.upgrade() else { return };
            let mut kept = lock(&kept);
            if matches!(&*kept, Kept::Living(it) if Arc::ptr_eq(&it.worker, &worker)) {
                *kept = Kept::None;
            }
        };
        let (worker, mut answers) =
            Worker::start(program, whose, children, &figures, |_| None, ended)?;
        let began = Instant::now();
        let is_late = || LONGEST_OPENING <= began.elapsed();
        let mut prepare = || -> Result<Prepared, ChannelError> {
            worker.send(&ToWorker::Prepare { engine: engine.to_owned() })?;
            answers.set_timeout(LOOK)?;
            wait(|| answers.wait(), &worker, is_late)?;
            let prepared = answers.receive()?;
            answers.set_timeout(LONGEST_SILENCE)?;
            Ok(prepared)
        };
        match prepare() {
            Ok(Prepared { threads: 1 }) => Ok(Kept::Living(Template { worker, answers })),
            // What other threads hold would be held for ever in a copy that does not have them.
            Ok(Prepared { threads }) => {
                tracing::debug!(engine, threads, "no process can be forked of its engine");
                Ok(Kept::Useless)
            }
            Err(error) => {
                tracing::debug!(engine, %error, "no process can be forked of its engine");
                worker.end(EndReason::Protocol);
                Ok(Kept::Useless)
            }
        }
    }

    fn fork(&mut self, birth: &Birth) -> io::Result<u32> {
        let Birth { standard, variables } = birth;
        let files = [standard.input.as_fd(), standard.output.as_fd(), standard.error.as_fd()];
        let bytes = |it: &OsString| it.as_encoded_bytes().to_vec();
        let variables = variables.iter().map(|(name, value)| (bytes(name), bytes(value)));
        let order = ToWorker::Fork { variables: variables.collect() };
        let sent = self.worker.send_with(&order, &files);
        let forked = sent.and_then(|()| self.answers.receive::<Forked>());
        forked.map_err(io::Error::other)?.map_err(io::Error::other)
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
