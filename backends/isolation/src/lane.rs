//! An instance whose runs are made in a worker.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use backend::{
    BackendError, Batch, Call, CallAnswer, CallError, EndReason, Instance, NamedTensor, Outage,
    RunTerms, Turn,
};

use crate::{
    aboard::Run,
    channel::ChannelError,
    frame::Encoding,
    lost_gpu::has_lost_gpu,
    open::{Asked, Ended, Host, Lost, Open, Ran},
    recycle::{RecycledLane, Recycler, lock},
    vitals::Vitals,
    warm_up::again,
};

/// One instance. Where its worker has died since the last run, it moves to the next one.
pub(crate) struct Lane {
    host: Host,
    open: RecycledLane,
    /// Replaces a worker that holds too much memory, or has answered enough, where that is asked for.
    recycler: Option<Arc<Recycler>>,
    /// Those of the runs that come.
    terms: RunTerms,
    /// Was it told of any? Runs before that are those of its making, which warm it up.
    has_terms: bool,
    /// Has the last one taken more threads than any run does?
    has_run_wide: bool,
    /// Had its worker died before the last run was begun?
    has_missed_run: bool,
    /// Those of the worker of its last run. Not those of `open`, which somebody may hold for a while.
    last: Arc<Vitals>,
}

impl Lane {
    /// An instance. Blocking.
    ///
    /// # Errors
    /// Those of the engine; [`BackendError::Crashed`] where the worker dies.
    pub(crate) fn new(host: Host, recycler: Option<Arc<Recycler>>) -> Result<Lane, BackendError> {
        let sharing = host.sharing.clone();
        let _shared = sharing.read().unwrap_or_else(PoisonError::into_inner);
        let open = Open::new(&host)?;
        let last = open.worker.vitals().clone();
        let open = Arc::new(Mutex::new(open));
        if let Some(recycler) = &recycler {
            recycler.has_lane(&host, &open);
        }
        Ok(Lane {
            host,
            open,
            recycler,
            terms: RunTerms::default(),
            has_terms: false,
            has_run_wide: false,
            has_missed_run: false,
            last,
        })
    }

    /// Where it is open.
    pub(crate) fn place(&self) -> &RecycledLane {
        &self.open
    }

    fn run(&mut self, asked: Asked<'_>) -> Result<Ended, BackendError> {
        let batch = asked.batch;
        self.has_missed_run = false;
        let place = self.open.clone();
        let mut open = lock(&place);
        let was_dead = open.worker.is_dead();
        let mut ran = match was_dead && self.is_made_anew() {
            true => Err(Lost { has_begun: false, error: ChannelError::Closed }),
            false => self.attempt(&mut open, asked)?,
        };
        if let Err(Lost { has_begun: false, error: ChannelError::Closed }) = ran
            && !self.host.keeps_state
        {
            // It had died, and nobody had noticed yet. The run has not begun, so that to make it in another worker is
            // not to repeat it. Waits for its end.
            let obituary = open.worker.obituary();
            if self.is_made_anew() {
                self.has_missed_run = true;
                return Err(BackendError::Crashed(obituary));
            }
            ran = self.attempt(&mut open, asked)?;
        }
        self.last = open.worker.vitals().clone();
        self.has_run_wide = self.terms.wide && open.has_run_wide;
        match ran {
            Ok(Err(error)) if has_lost_gpu(self.host.device, &error) => {
                let worker = &open.worker;
                let (model, version, pid) = (worker.model(), worker.version(), worker.pid());
                tracing::error!(
                    model,
                    version,
                    worker = pid,
                    "its process is ended, as it has lost its GPU: {error}"
                );
                worker.vitals().aboard().board(open.lane, self.aboard(batch)).stay();
                worker.end(EndReason::Device);
                Err(BackendError::Crashed(format!(
                    "{error} (its process had lost its GPU, and was ended)"
                )))
            }
            Ok(outcome) => {
                open.worker.note_answer(self.terms.requests);
                // Code of users is not run for a request that nobody has made.
                let may_run_again = asked.calls.is_none();
                if !self.has_terms && outcome.is_ok() && may_run_again {
                    self.host.supervisor.warms_up_with(again(&self.host, batch));
                }
                if let Some(recycler) = &self.recycler {
                    // One that fails warms no other process up.
                    let sample = (outcome.is_ok() && may_run_again).then_some(batch);
                    recycler.ran(&self.host, &open.worker, sample);
                }
                outcome
            }
            Err(Lost { error, .. }) => {
                let worker = &open.worker;
                worker.note_fault(&error);
                // What else ends a process by SIGKILL than its run: its operator, and the system for want of memory.
                let is_closed = matches!(error, ChannelError::Closed);
                let obituary = worker.obituary();
                match self.terms.alone && is_closed && worker.was_killed() {
                    true => Err(BackendError::Unavailable(Outage {
                        reason: obituary,
                        retry_after: Duration::ZERO,
                    })),
                    false => Err(BackendError::Crashed(obituary)),
                }
            }
        }
    }

    /// Is it to be made anew, and warmed, before it runs in another worker? Not in the runs of its making, which warm
    /// it up, and not where it has lost what runs had left behind, which a run is to hear.
    fn is_made_anew(&self) -> bool {
        self.has_terms && !self.host.keeps_state
    }

    /// One run, in a worker that lives as far as is known.
    ///
    /// # Errors
    /// Where the run is not made at all.
    fn attempt(&self, open: &mut Open, asked: Asked<'_>) -> Result<Ran, BackendError> {
        let batch = asked.batch;
        if open.worker.is_dead() || open.worker.is_retired() {
            if self.host.keeps_state {
                return Err(BackendError::Crashed(open.worker.obituary()));
            }
            let waiting = batch.stop.wait();
            *open = Open::new(&self.host)?;
            drop(waiting);
        }
        // It may have waited for a process, or for one that is to be alone, beyond its time: an engine that cannot be
        // stopped is not to begin.
        if batch.stop.is_over() {
            return Err(BackendError::Execute(
                "the time of the run was over before it began".into(),
            ));
        }
        let vitals = open.worker.vitals().clone();
        let boarded = vitals.aboard().board(open.lane, self.aboard(batch));
        let ran = open.run(asked, self.terms.wide);
        if let Err(Lost { has_begun: true, .. }) = ran {
            boarded.stay();
        }
        Ok(ran)
    }

    /// A run, as the line of its worker's death counts it.
    fn aboard(&self, batch: &Batch<'_>) -> Run {
        // What is alone has seen a worker die before.
        let may_run_again = self.host.may_run_again && !self.terms.alone;
        // It is told of none where a run is made again, which is one of clients all the same.
        let requests = self.terms.requests.max(usize::from(self.has_terms));
        Run { rows: batch.rows, requests, may_run_again }
    }
}

impl Lane {
    /// A run, beside others of its process or alone there.
    fn run_on_terms(&mut self, asked: Asked<'_>) -> Result<Ended, BackendError> {
        let batch = asked.batch;
        let sharing = self.host.sharing.clone();
        // Until nobody has the process alone, or there is no run beside this one: no time of this run.
        let waiting = batch.stop.wait();
        if self.terms.alone {
            let _alone = sharing.write().unwrap_or_else(PoisonError::into_inner);
            drop(waiting);
            self.run(asked)
        } else {
            let _shared = sharing.read().unwrap_or_else(PoisonError::into_inner);
            drop(waiting);
            self.run(asked)
        }
    }
}

impl Instance for Lane {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        if self.host.supervisor.encoding() == Encoding::Json {
            // A run of the server's own, or of one request: a program knows of requests only.
            let call = Call { rows: batch.rows, outputs: batch.outputs, about: None, parts: None };
            let answer = self.execute_calls(batch, &[call])?.pop().ok_or_else(other_answer)?;
            let refused = |it: CallError| BackendError::Execute(it.text);
            return answer.map(|it| it.outputs).map_err(refused);
        }
        match self.run_on_terms(Asked { batch, calls: None })? {
            Ended::Whole(outputs) => Ok(outputs),
            Ended::Calls(_) => Err(other_answer()),
        }
    }

    fn execute_calls(
        &mut self,
        batch: &Batch<'_>,
        calls: &[Call<'_>],
    ) -> Result<Vec<Result<CallAnswer, CallError>>, BackendError> {
        match self.run_on_terms(Asked { batch, calls: Some(calls) })? {
            Ended::Calls(answers) => Ok(answers),
            Ended::Whole(_) => Err(other_answer()),
        }
    }

    fn has_lost_state(&self) -> bool {
        self.host.keeps_state && lock(&self.open).worker.is_dead()
    }

    fn is_fresh(&self) -> bool {
        self.last.is_dead()
    }

    fn has_lost_process(&self) -> bool {
        // Somebody who has it is at it to give memory back, or to move it to another process.
        self.open.try_lock().is_ok_and(|open| open.worker.is_dead())
    }

    fn has_missed_run(&self) -> bool {
        self.has_missed_run
    }

    fn has_run_wide(&self) -> bool {
        self.has_run_wide
    }

    fn last_turn(&self) -> Option<Turn> {
        lock(&self.open).turn
    }

    fn expect_runs(&mut self, terms: RunTerms) {
        self.terms = terms;
        self.has_terms = true;
    }
}

/// Never: whoever asks says what is answered.
fn other_answer() -> BackendError {
    BackendError::Execute("its process has answered something else than was asked".to_owned())
}
