//! A worker: its process, what is said to it, and how it ends.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use backend::{EndReason, HeldDir};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions},
};

use crate::{
    channel::{ChannelError, LONGEST_SILENCE, Receiver, Sender},
    children::Children,
    end::End,
    figures::Figures,
    frame::{Encoding, LONGEST},
    message::ToWorker,
    oom,
    output::{LastLines, Stream, drain},
    program::{Program, Standard},
    sandbox::{self, Order},
    usage::cpu_of,
    vitals::Vitals,
    whose::Whose,
};

/// Stack of the thread that reads what a worker writes.
const DRAIN_STACK: usize = 256 << 10;

/// A pause before something is sent again for which there was no room.
const NO_ROOM: Duration = Duration::from_millis(5);

/// Variables that say where to write: its own directory.
const WRITTEN: [&str; 3] = ["TMPDIR", "HOME", "XDG_CACHE_HOME"];

/// A worker that was started.
pub(crate) struct Worker {
    whose: Whose,
    process: Arc<Process>,
    /// What it is told of its sandbox.
    order: Order,
    /// Goes with the worker.
    _private: Option<HeldDir>,
    control: Mutex<Sender>,
    last_lines: LastLines,
}

impl Worker {
    /// Starts one. `ended` is called, on a thread of the worker's own, when its process has ended before it was let go
    /// of.
    ///
    /// # Errors
    /// When the system starts no process.
    pub(crate) fn start(
        program: &Program,
        whose: &Whose,
        children: &Children,
        figures: &Arc<Figures>,
        ended: impl FnOnce(Arc<Worker>) + Send + 'static,
    ) -> io::Result<(Arc<Worker>, Receiver)> {
        let (ours, theirs) = UnixStream::pair()?;
        let control = Mutex::new(Sender::impatient(ours.try_clone()?)?);
        let (output, written) = io::pipe()?;
        let (errors, errors_written) = io::pipe()?;
        let standard =
            Standard { input: theirs.into(), output: written.into(), error: errors_written.into() };
        let private = program.private_directory();
        let private_path = private.as_ref().map(HeldDir::path);
        let order = program.order(private_path);
        let written = private_path.into_iter().flat_map(|it| WRITTEN.map(|name| (name, it)));
        let variables = written.map(|(name, it)| (name.into(), it.into()));
        let variables: Vec<(OsString, OsString)> = variables.collect();
        let child = children.spawn(program.command(&whose.model, &variables, standard))?;
        let process = Arc::new(Process::new(child.id(), children, figures));
        figures.began(&process.vitals);
        let last_lines = LastLines::default();
        let worker = Arc::new(Worker {
            whose: whose.clone(),
            process: process.clone(),
            order,
            _private: private,
            control,
            last_lines: last_lines.clone(),
        });
        let (weak, whose) = (Arc::downgrade(&worker), whose.clone());
        let name = format!("worker-{}", process.pid);
        let read = move || {
            let streams = [(Stream::Output, output.into()), (Stream::Error, errors.into())];
            let death = process.file().map(|it| (it, || process.vitals.note_end()));
            drain(streams, &whose, process.pid, &last_lines, &process.figures.dropped_lines, death);
            process.wait();
            if let Some(worker) = weak.upgrade() {
                ended(worker);
            }
        };
        thread::Builder::new().name(name).stack_size(DRAIN_STACK).spawn(read)?;
        Ok((worker, Receiver::with_files(ours, LONGEST)))
    }

    pub(crate) fn model(&self) -> &str {
        &self.whose.model
    }

    pub(crate) fn version(&self) -> u64 {
        self.whose.version
    }

    /// What it is told of its sandbox.
    pub(crate) fn order(&self) -> &Order {
        &self.order
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid
    }

    /// From now on the kernel is answered, which asks by that file whether the worker may start a thread.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub(crate) fn bound_threads(&self, asks: OwnedFd) -> io::Result<()> {
        sandbox::answer(asks, &self.whose, self.process.pid)
    }

    /// Has its process ended, or is it ended? Asks the system: the thread that waits for it may wait for what it has
    /// left behind, too.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_dead() || self.process.has_ended()
    }

    /// Has it ended, or is it of no more use?
    pub(crate) fn is_dead(&self) -> bool {
        self.process.vitals.is_dead()
    }

    /// What is known of it at any moment.
    pub(crate) fn vitals(&self) -> &Arc<Vitals> {
        &self.process.vitals
    }

    /// The number of its next lane.
    pub(crate) fn next_lane(&self) -> u32 {
        self.process.vitals.next_lane()
    }

    /// It has answered one more run, of so many requests.
    pub(crate) fn note_answer(&self, requests: usize) {
        self.process.vitals.note_answer(requests);
    }

    /// The runs that it has answered.
    pub(crate) fn answered(&self) -> u64 {
        self.process.vitals.answered()
    }

    /// From now on it is spoken to so.
    pub(crate) fn write_in(&self, encoding: Encoding) {
        self.control().write_in(encoding);
    }

    pub(crate) fn send(&self, message: &ToWorker) -> Result<(), ChannelError> {
        self.control().send(message)
    }

    pub(crate) fn send_with(
        &self,
        message: &ToWorker,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let until = Instant::now() + LONGEST_SILENCE;
        loop {
            // Nobody waits for the lock while there is no room.
            match self.control().send_with(message, files) {
                Err(ChannelError::Unread) if Instant::now() < until => {}
                other => return other,
            }
            thread::sleep(NO_ROOM);
        }
    }

    /// The same without waiting for the worker to read; what it has no room for is lost.
    pub(crate) fn send_at_once(&self, message: &ToWorker) {
        self.control().send_at_once(message);
    }

    /// Has it give back what it keeps for later runs. What it takes is looked at again then.
    pub(crate) fn trim_memory(&self) {
        self.send_at_once(&ToWorker::TrimMemory);
        self.process.vitals.note_trim();
    }

    /// Has it give back what the runs of its load have left. What it takes is looked at again then.
    pub(crate) fn give_back_memory(&self) {
        self.send_at_once(&ToWorker::GiveBackMemory);
        self.process.vitals.note_trim();
    }

    fn control(&self) -> MutexGuard<'_, Sender> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it and its children at once, for that reason.
    pub(crate) fn end(&self, reason: EndReason) {
        // The first is why it ends.
        let _ = self.process.forced.set(reason);
        self.kill();
    }

    /// One that has not ended by itself is ended for a reason, which the log tells.
    pub(crate) fn note_fault(&self, error: &ChannelError) {
        let reason = match error {
            ChannelError::Closed => return,
            ChannelError::Unread => EndReason::Timeout,
            ChannelError::Timeout
            | ChannelError::Garbage(_)
            | ChannelError::TooLong { .. }
            | ChannelError::Io(_) => EndReason::Protocol,
        };
        let (model, version, pid) = (self.model(), self.version(), self.pid());
        tracing::error!(model, version, worker = pid, "its process is ended: {error}");
        self.end(reason);
    }

    fn kill(&self) {
        self.process.vitals.note_death();
        self.process.kill();
    }

    /// What a client hears of its end. Ends it where it has not: one whose lane has ended is of no use. Blocking.
    pub(crate) fn obituary(&self) -> String {
        self.kill();
        format!("{} ended {}", self.whose.process(), self.process.wait().how)
    }

    /// Was it ended by SIGKILL: by somebody else, or by the system for want of memory? Blocking until it has ended.
    pub(crate) fn was_killed(&self) -> bool {
        self.process.wait().signal == Some(Signal::KILL.as_raw())
    }

    /// Another has taken its place: it makes no more runs than those that it has.
    pub(crate) fn retire(&self) {
        self.process.is_retired.store(true, Relaxed);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.process.is_retired.load(Relaxed)
    }

    /// Why it has ended. Blocking until it has.
    pub(crate) fn end_reason(&self) -> EndReason {
        self.process.wait().reason
    }

    /// What it has written last, once it has ended. Blocking, until that has been read.
    pub(crate) fn last_lines(&self) -> String {
        self.last_lines.text()
    }
}

impl Drop for Worker {
    /// The process ends, and its status is taken.
    fn drop(&mut self) {
        self.process.kill();
        self.process.wait();
    }
}

/// A child process.
struct Process {
    pid: u32,
    children: Children,
    figures: Arc<Figures>,
    vitals: Arc<Vitals>,
    /// Has another taken its place?
    is_retired: AtomicBool,
    /// Processes of the control group that the system had ended for want of memory when it was started.
    oom_kills: Option<u64>,
    /// Why it is ended, where that is by this process.
    forced: OnceLock<EndReason>,
    /// How it has ended.
    end: OnceLock<End>,
}

impl Process {
    fn new(pid: u32, children: &Children, figures: &Arc<Figures>) -> Process {
        Process {
            pid,
            vitals: Arc::new(Vitals::new(pid)),
            children: children.clone(),
            figures: figures.clone(),
            is_retired: AtomicBool::new(false),
            oom_kills: oom::kills(),
            forced: OnceLock::new(),
            end: OnceLock::new(),
        }
    }

    /// A file that can be read once the process has ended. `None` where the system has none.
    fn file(&self) -> Option<OwnedFd> {
        // Its status is not taken yet: the number is its own.
        rustix::process::pidfd_open(Pid::from_raw(self.pid as i32)?, PidfdFlags::empty()).ok()
    }

    /// Has it ended? Its status is left to whoever takes it.
    fn has_ended(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // It is no child any more once its status was taken.
        self.end.get().is_some()
            || matches!(
                rustix::process::waitid(WaitId::Pid(pid), options),
                Ok(Some(_)) | Err(Errno::CHILD)
            )
    }

    /// Ends it and its children. The status of one that has ended already is settled.
    fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid as i32).filter(|_| self.end.get().is_none()) {
            // Where it has ended, there is nobody to kill. One that has left its group is killed by its number.
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }

    /// How it has ended. Blocking.
    fn wait(&self) -> &End {
        self.end.get_or_init(|| {
            // Before its status is taken: the system forgets it then. Where somebody else takes it, that is a race.
            let until_ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            if let Some(pid) = Pid::from_raw(self.pid as i32) {
                let _ = rustix::process::waitid(WaitId::Pid(pid), until_ended);
            }
            self.vitals.ends().end();
            let cpu = cpu_of(self.pid);
            let status = self.children.wait(self.pid);
            // Before it is counted: whoever sees the count looks for what has died.
            self.vitals.note_death();
            self.figures.ended(self.pid, cpu);
            End::of(status, self.forced.get().copied(), || oom::kills() > self.oom_kills)
        })
    }
}

#[cfg(test)]
mod tests;
