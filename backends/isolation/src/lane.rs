//! An instance whose runs are made in a worker.

use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    panic,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Device, EndReason, Instance, NamedTensor, Outage};

use crate::{
    arena::HostArena,
    channel::{ChannelError, LONGEST_ANSWER, Receiver, Sender},
    launch::Worker,
    message::{Answer, Execute, Opened, ToWorker},
    supervisor::{LONGEST_START, LOOK, Supervisor, wait},
};

/// One instance. Where its worker has died since the last run, it moves to the next one.
pub(crate) struct Lane {
    host: Host,
    open: Open,
    is_alone: bool,
}

/// Where the lanes of a model are opened.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) supervisor: Arc<Supervisor>,
    /// Guards the process: runs and the making of instances share it, a run that may end it has it alone.
    pub(crate) sharing: Arc<RwLock<()>>,
    pub(crate) device: Device,
    /// Bytes for the inputs of a run, and as many for its outputs.
    pub(crate) arena_bytes: usize,
    /// Does a run leave something behind in the instance?
    pub(crate) keeps_state: bool,
}

/// A lane of a worker.
struct Open {
    worker: Arc<Worker>,
    lane: u32,
    runs: u64,
    arena: HostArena,
    sender: Sender,
    receiver: Receiver,
}

impl Lane {
    /// An instance. Blocking.
    ///
    /// # Errors
    /// Those of the engine; [`BackendError::Crashed`] where the worker dies.
    pub(crate) fn new(host: Host) -> Result<Lane, BackendError> {
        let sharing = host.sharing.clone();
        let _shared = sharing.read().unwrap_or_else(PoisonError::into_inner);
        let open = Open::new(&host)?;
        Ok(Lane { host, open, is_alone: false })
    }

    fn run(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        if self.open.worker.is_dead() {
            if self.host.keeps_state {
                return Err(BackendError::Crashed(self.open.worker.obituary()));
            }
            self.open = Open::new(&self.host)?;
        }
        // It may have waited for a process, or for one that is to be alone, beyond its time: an engine that cannot be
        // stopped is not to begin.
        if batch.stop.is_over() {
            return Err(BackendError::Execute(
                "the time of the run was over before it began".into(),
            ));
        }
        match self.open.run(batch) {
            Ok(outcome) => {
                self.open.worker.note_answer();
                outcome
            }
            Err(error) => {
                let worker = &self.open.worker;
                note_fault(worker, &error);
                // What else ends a process by SIGKILL than its run: its operator, and the system for want of memory.
                let is_closed = matches!(error, ChannelError::Closed);
                let obituary = worker.obituary();
                match self.is_alone && is_closed && worker.was_killed() {
                    true => Err(BackendError::Unavailable(Outage {
                        reason: obituary,
                        retry_after: Duration::ZERO,
                    })),
                    false => Err(BackendError::Crashed(obituary)),
                }
            }
        }
    }
}

impl Instance for Lane {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let sharing = self.host.sharing.clone();
        if self.is_alone {
            let _alone = sharing.write().unwrap_or_else(PoisonError::into_inner);
            self.run(batch)
        } else {
            let _shared = sharing.read().unwrap_or_else(PoisonError::into_inner);
            self.run(batch)
        }
    }

    fn has_lost_state(&self) -> bool {
        self.host.keeps_state && self.open.worker.is_dead()
    }

    fn run_alone(&mut self, alone: bool) {
        self.is_alone = alone;
    }
}

impl Open {
    fn new(host: &Host) -> Result<Open, BackendError> {
        let worker = host.supervisor.worker()?;
        let lacking = |what: &str, error: std::io::Error| {
            BackendError::OutOfMemory(format!("no {what} for an instance: {error}"))
        };
        let arena = HostArena::create(host.arena_bytes).map_err(|it| lacking("memory file", it))?;
        host.supervisor.figures().has_arena(arena.mapping());
        let (ours, theirs) = UnixStream::pair().map_err(|it| lacking("socket", it))?;
        let sending = ours.try_clone().map_err(|it| lacking("socket", it))?;
        let sender = Sender::impatient(sending).map_err(|it| lacking("socket", it))?;
        let receiver = Receiver::new(ours, LONGEST_ANSWER);
        let lane = worker.next_lane();
        let mut opened = Open { worker, lane, runs: 0, arena, sender, receiver };
        match opened.begin(host.device, theirs) {
            Ok(outcome) => outcome.map(|()| opened),
            Err(error) => {
                note_fault(&opened.worker, &error);
                Err(BackendError::Crashed(opened.worker.obituary()))
            }
        }
    }

    /// Has the worker make the instance.
    fn begin(
        &mut self,
        device: Device,
        theirs: UnixStream,
    ) -> Result<Result<(), BackendError>, ChannelError> {
        self.receiver.set_timeout(LOOK)?;
        let message = ToWorker::Open { lane: self.lane, device };
        self.worker.send_with(&message, [theirs.as_fd(), self.arena.file()])?;
        // The worker's copy is the only one: its end is noticed.
        drop(theirs);
        let began = Instant::now();
        wait(&mut self.receiver, &self.worker, || LONGEST_START <= began.elapsed())?;
        let answer: Opened = self.receiver.receive()?;
        Ok(answer.map_err(BackendError::from))
    }

    /// One run. The outer error is that of the worker, which is of no more use then.
    fn run(
        &mut self,
        batch: &Batch<'_>,
    ) -> Result<Result<Vec<NamedTensor>, BackendError>, ChannelError> {
        let inputs = match self.arena.put(batch.inputs) {
            Ok(inputs) => inputs,
            Err((given, room)) => {
                return Ok(Err(BackendError::InvalidInput(format!(
                    "the inputs of a run take {given} bytes, and a model in a process of its own has {room} for them \
                     (--worker-arena-bytes)"
                ))));
            }
        };
        let run = self.runs;
        self.runs += 1;
        let ends_by = batch.stop.ends_by();
        let execute = Execute {
            run,
            inputs,
            outputs: batch.outputs.iter().map(|it| &**it).collect(),
            rows: batch.rows as u64,
            signature: batch.signature as u32,
            ends_in: ends_by.map(|it| it.saturating_duration_since(Instant::now())),
        };
        self.sender.send(&execute)?;
        let (worker, lane) = (Arc::downgrade(&self.worker), self.lane);
        batch.stop.on_stop(move || {
            if let Some(worker) = worker.upgrade() {
                worker.send_at_once(&ToWorker::Stop { lane, run });
            }
        });
        let waited = wait(&mut self.receiver, &self.worker, || batch.stop.is_given_up());
        batch.stop.clear_hook();
        waited?;
        let answer: Answer<'_> = self.receiver.receive()?;
        if answer.run != run {
            return Err(ChannelError::Garbage(format!(
                "an answer to run {}, where run {run} is waited for",
                answer.run
            )));
        }
        match answer.outputs {
            Ok(outputs) => {
                let taken = self.arena.take(&outputs);
                taken.map(Ok).map_err(ChannelError::Garbage)
            }
            // As in this process: the instance is lost with its panic.
            Err(fault) if fault.is_panic() => panic::resume_unwind(Box::new(fault.text)),
            Err(fault) => Ok(Err(fault.into())),
        }
    }
}

/// A worker that has not ended by itself is ended for a reason, which the log tells.
fn note_fault(worker: &Worker, error: &ChannelError) {
    let reason = match error {
        ChannelError::Closed => return,
        ChannelError::Unread => EndReason::Timeout,
        ChannelError::Timeout | ChannelError::Garbage(_) | ChannelError::Io(_) => {
            EndReason::Protocol
        }
    };
    let (model, pid) = (worker.model(), worker.pid());
    tracing::error!(model, worker = pid, "its process is ended: {error}");
    worker.end(reason);
}
