//! A lane of one worker: its memory, and the runs that are made by way of it.

use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    panic,
    sync::{Arc, RwLock},
    time::Instant,
};

use backend::{
    BackendError, Batch, Call, CallAnswer, CallCode, CallError, Device, EndReason, NamedTensor,
    Stop, Turn,
};

use crate::{
    arena::HostArena,
    calls::{CallsAnswer, ExecuteCalls, take_each},
    channel::{ChannelError, LONGEST_SILENCE, Receiver},
    figures::Figures,
    frame::{Encoding, Garbage, LONGEST_ANSWER},
    launch::Worker,
    mailbox::{self, Incoming, Outgoing},
    message::{Answer, Execute, InstanceFacts, Opened, ToWorker},
    patience::{LOOK, wait},
    supervisor::Supervisor,
    talk::Talk,
};

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
    /// May what its worker dies in be run again?
    pub(crate) may_run_again: bool,
    /// What a program that is not this one is told of the instance.
    pub(crate) facts: Option<InstanceFacts>,
    /// Ends the making of an instance. It is that of the load, which nobody requests once the model serves.
    pub(crate) stop: Arc<Stop>,
}

/// What has come of a run. The outer error is that of the worker, which is of no more use then.
pub(crate) type Ran = Result<Result<Ended, BackendError>, Lost>;

/// What a run that has ended has given.
pub(crate) enum Ended {
    /// The outputs of the whole batch.
    Whole(Vec<NamedTensor>),
    /// What each of its requests is answered.
    Calls(Vec<Result<CallAnswer, CallError>>),
}

/// What is asked of a worker: a batch, whose requests are answered each by itself or not.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) batch: &'a Batch<'a>,
    pub(crate) calls: Option<&'a [Call<'a>]>,
}

/// A worker is of no more use to a run.
pub(crate) struct Lost {
    pub(crate) error: ChannelError,
    /// May it have begun the run?
    pub(crate) has_begun: bool,
}

impl From<ChannelError> for Lost {
    fn from(error: ChannelError) -> Lost {
        Lost { error, has_begun: true }
    }
}

/// A lane of a worker.
pub(crate) struct Open {
    /// With a program. Before the worker: it may be kept.
    talk: Option<Talk>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) lane: u32,
    runs: u64,
    arena: HostArena,
    outgoing: Outgoing,
    incoming: Incoming,
    figures: Arc<Figures>,
    /// The last run that was answered.
    pub(crate) turn: Option<Turn>,
    /// Has it taken more threads than any run does?
    pub(crate) has_run_wide: bool,
}

impl Open {
    /// A lane of the worker that serves, or of the next one. Blocking.
    ///
    /// # Errors
    /// Those of [`Supervisor::worker`] and of [`Open::on`].
    pub(crate) fn new(host: &Host) -> Result<Open, BackendError> {
        Open::on(host.supervisor.worker()?, host)
    }

    /// A lane of that worker. Blocking.
    ///
    /// # Errors
    /// Those of the engine; [`BackendError::Crashed`] where the worker dies.
    pub(crate) fn on(worker: Arc<Worker>, host: &Host) -> Result<Open, BackendError> {
        let lacking = |what: &str, error: std::io::Error| {
            BackendError::OutOfMemory(format!("no {what} for an instance: {error}"))
        };
        let arena = HostArena::create(host.arena_bytes).map_err(|it| lacking("memory file", it))?;
        host.supervisor.figures().has_arena(arena.mapping());
        let (outgoing, incoming) =
            mailbox::create(host.supervisor.encoding()).map_err(|it| lacking("memory file", it))?;
        host.supervisor.figures().has_arena(outgoing.mapping());
        worker.vitals().ends().has_lane(&outgoing);
        let (ours, theirs) = UnixStream::pair().map_err(|it| lacking("socket", it))?;
        let talk = match host.supervisor.encoding() {
            Encoding::Json => {
                let talk = Talk::open(&worker, host.supervisor.host(), host.arena_bytes);
                Some(talk.map_err(|it| lacking("socket or thread", it))?)
            }
            Encoding::Postcard => None,
        };
        let (talk, theirs_of_talk) = talk.unzip();
        let lane = worker.next_lane();
        let figures = host.supervisor.figures().clone();
        let mut opened = Open {
            talk,
            worker,
            lane,
            runs: 0,
            arena,
            outgoing,
            incoming,
            figures,
            turn: None,
            has_run_wide: false,
        };
        match opened.begin(host, ours, (theirs, theirs_of_talk)) {
            Ok(outcome) => outcome.map(|()| opened),
            Err(error) => {
                opened.worker.note_fault(&error);
                Err(BackendError::Crashed(opened.worker.obituary()))
            }
        }
    }

    /// Has the worker make the instance.
    fn begin(
        &mut self,
        host: &Host,
        ours: UnixStream,
        (theirs, talk): (UnixStream, Option<UnixStream>),
    ) -> Result<Result<(), BackendError>, ChannelError> {
        let mut answers = Receiver::new(ours, LONGEST_ANSWER);
        answers.read_in(host.supervisor.encoding());
        answers.set_timeout(LOOK)?;
        let may_look = self.incoming.look().can_pay();
        let (lane, device, instance) = (self.lane, host.device, host.facts.clone());
        let message = ToWorker::Open { lane, device, may_look, instance };
        let mut files = vec![theirs.as_fd(), self.outgoing.file(), self.arena.file()];
        files.extend(talk.as_ref().map(AsFd::as_fd));
        self.worker.send_with(&message, &files)?;
        // The worker's copies are the only ones: their end is noticed.
        drop((theirs, talk));
        let asked = Arc::downgrade(&self.worker);
        host.stop.on_stop(move || {
            if let Some(worker) = asked.upgrade() {
                worker.send_at_once(&ToWorker::StopLoad);
            }
        });
        let openings = host.supervisor.openings();
        let (began, limit) = (Instant::now(), openings.limit());
        let is_late = || limit.is_some_and(|it| it <= began.elapsed());
        let waited = wait(|| answers.wait(), &self.worker, || host.stop.is_given_up() || is_late());
        host.stop.clear_hook();
        waited?;
        let answer: Opened = answers.receive()?;
        if answer.is_ok() {
            openings.took(began.elapsed());
        }
        Ok(answer.map_err(BackendError::from))
    }

    /// Gives back memory that no run needs. Not while one is made.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.arena.rest(now);
    }

    /// A run whose answer nobody waits for. One that goes on beyond the time of its batch ends the worker.
    ///
    /// # Errors
    /// Those of the engine; [`BackendError::Crashed`] where the worker is of no more use.
    pub(crate) fn run_once(&mut self, batch: &Batch<'_>) -> Result<(), BackendError> {
        let ran = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let ends_by = batch.stop.ends_by();
            let is_late = || ends_by.is_some_and(|it| it + LONGEST_SILENCE <= Instant::now());
            self.run_unless(Asked { batch, calls: None }, false, is_late)
        }));
        match ran {
            Ok(Ok(outcome)) => outcome.map(drop),
            Ok(Err(_)) => Err(BackendError::Crashed(self.worker.obituary())),
            Err(_) => Err(BackendError::Execute("the engine panicked".to_owned())),
        }
    }

    /// One run, which may take all processors or not.
    pub(crate) fn run(&mut self, asked: Asked<'_>, wide: bool) -> Ran {
        self.run_unless(asked, wide, || false)
    }

    /// The same, whose worker is ended where `is_late` says so.
    fn run_unless(&mut self, asked: Asked<'_>, wide: bool, is_late: impl Fn() -> bool) -> Ran {
        let run = self.runs;
        self.runs += 1;
        if let (Some(talk), Some(calls)) = (&self.talk, asked.calls) {
            talk.begin(run, calls, asked.batch.stop.ends_by());
        }
        let ran = self.send_run(run, asked, wide, is_late);
        if let Some(talk) = &self.talk {
            let answers = match &ran {
                Ok(Ok(Ended::Calls(answers))) => Some(&**answers),
                _ => None,
            };
            talk.finish(run, answers);
        }
        ran
    }

    fn send_run(
        &mut self,
        run: u64,
        Asked { batch, calls }: Asked<'_>,
        wide: bool,
        is_late: impl Fn() -> bool,
    ) -> Ran {
        let inputs = match self.arena.put(batch.inputs) {
            Ok(inputs) => inputs,
            Err((given, room)) => {
                return Ok(Err(BackendError::InvalidInput(format!(
                    "the inputs of a run take {given} bytes, and a model in a process of its own has {room} for them \
                     (--worker-arena-bytes)"
                ))));
            }
        };
        let ends_by = batch.stop.ends_by();
        let execute = Execute {
            run,
            inputs,
            outputs: batch.outputs.iter().map(|it| &**it).collect(),
            rows: batch.rows as u64,
            signature: batch.signature as u32,
            ends_in: ends_by.map(|it| it.saturating_duration_since(Instant::now())),
            wide,
        };
        let began = Instant::now();
        let is_asked_for = self.incoming.is_here().and_then(|it| match it {
            false => Ok(()),
            true => Err(Garbage::Unexpected("an answer to a run that is none yet".into()).into()),
        });
        is_asked_for.map_err(|error| Lost { error, has_begun: false })?;
        let sent = match calls {
            None => self.outgoing.send(&execute),
            Some(calls) => {
                let calls = calls.iter().map(Into::into).collect();
                self.outgoing.send(&ExecuteCalls { run: execute, calls })
            }
        };
        match sent {
            Err(ChannelError::TooLong { bytes, room }) => {
                return Ok(Err(BackendError::InvalidInput(format!(
                    "the names and shapes of a run's inputs and outputs take {bytes} bytes, and a model in a process \
                     of its own has {room} for them"
                ))));
            }
            sent => sent.map_err(|error| Lost { error, has_begun: false })?,
        }
        let (worker, lane) = (Arc::downgrade(&self.worker), self.lane);
        batch.stop.on_stop(move || {
            if let Some(worker) = worker.upgrade() {
                worker.send_at_once(&ToWorker::Stop { lane, run });
            }
        });
        let worker = Arc::downgrade(&self.worker);
        batch.stop.on_give_up(move || {
            if let Some(worker) = worker.upgrade() {
                worker.vitals().aboard().gives_up(lane);
                worker.end(EndReason::Timeout);
            }
        });
        let is_given_up = || batch.stop.is_given_up() || is_late();
        let look = || match self.incoming.wait(Some(LOOK)) {
            // Another process may hold the memory, and have others woken than are to be.
            Err(ChannelError::Timeout) if self.worker.has_ended() => Err(ChannelError::Closed),
            waited => waited,
        };
        let waited = wait(look, &self.worker, is_given_up);
        batch.stop.clear_hook();
        if let Err(ChannelError::Closed) = waited {
            // Until it has ended it may take the run.
            let _ = self.worker.obituary();
            let has_begun = self.outgoing.was_taken() || is_given_up();
            return Err(Lost { error: ChannelError::Closed, has_begun });
        }
        waited?;
        let (answer, each): (Answer<'_>, _) = match calls {
            None => (self.incoming.receive()?, None),
            Some(calls) => {
                let CallsAnswer { run: answer, each } = self.incoming.receive()?;
                (answer, Some((calls.len(), each)))
            }
        };
        if answer.run != run {
            let other = format!("an answer to run {}, where run {run} is waited for", answer.run);
            return Err(Lost::from(ChannelError::Garbage(Garbage::Unexpected(other))));
        }
        let overhead = began.elapsed().saturating_sub(answer.took);
        self.turn = Some(Turn { pid: self.worker.pid(), overhead });
        self.figures.turned(overhead);
        self.has_run_wide = answer.wide;
        match (answer.outputs, each) {
            (Ok(outputs), None) => {
                let outputs = self.arena.take(&outputs).map_err(ChannelError::Garbage)?;
                Ok(Ok(Ended::Whole(outputs)))
            }
            (Ok(_), Some((_, each))) => {
                let answers = take_each(&mut self.arena, each).map_err(ChannelError::Garbage)?;
                Ok(Ok(Ended::Calls(answers)))
            }
            // An exception of the model's code would come again: what is at fault is seen by its author.
            (Err(fault), Some((calls, _))) if fault.is_of_model() => {
                let refused = CallError { code: CallCode::Internal, text: fault.text };
                Ok(Ok(Ended::Calls((0..calls).map(|_| Err(refused.clone())).collect())))
            }
            // As in this process: the instance is lost with its panic.
            (Err(fault), _) if fault.is_panic() => panic::resume_unwind(Box::new(fault.text)),
            (Err(fault), _) => Ok(Err(fault.into())),
        }
    }
}
