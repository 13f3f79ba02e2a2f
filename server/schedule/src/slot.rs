//! The place of one instance: it makes the instance when it is needed, and again after a panic, or when the process
//! that it runs in has died.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{BackendError, Device, Instance, ModelProcess, Processes, RunTerms, Stop};

use crate::{ratelimit::Limited, watchdog::RunPlace};

/// Where an instance that was lost cannot be made although there is a process, it is tried again after so long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Makes one more instance of a model, warmed up. Blocking.
pub type MakeInstance = dyn Fn() -> Result<Box<dyn Instance>, BackendError> + Send + Sync;

/// The place of one instance. It is empty before its instance is needed, after a panic, and when the instance's process
/// has died.
pub struct Slot {
    instance: Option<Box<dyn Instance>>,
    make: Arc<MakeInstance>,
    device: Device,
    /// Those of its model. The instance is in one of them where there are any, which bounds the time that its making
    /// takes.
    processes: Processes,
    /// Has there been an instance? One that is lost with its process is made anew before there is work for it.
    was_made: bool,
    /// Its instance could not be made although there is a process: it is not tried again before then.
    retry_at: Option<Instant>,
    /// Runs of the instance, as far as they are counted.
    runs: u8,
    /// What its runs have to wait for.
    limited: Option<Arc<Limited>>,
    /// Ends its runs in place. Kept, since one for each such run would cost as much as a small run.
    stop: Arc<Stop>,
    /// May its runs take all processors?
    may_run_wide: bool,
}

/// So many processes may die while an instance is made in them: others can have ended them by what they run there.
const MOST_LOST: usize = 3;

/// So many runs of an instance are its first ones.
const FIRST_RUNS: u8 = 3;

/// What becomes of a run whose process had died before it was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    /// It waits for the next process there.
    Waits,
    /// Another device makes it, which need not wait.
    Moves,
}

impl Slot {
    /// A place on the CPU without an instance yet.
    pub fn empty(make: Arc<MakeInstance>) -> Slot {
        Slot::empty_on(Device::Cpu, make)
    }

    /// A place without an instance yet, where `make` puts one on that device.
    pub fn empty_on(device: Device, make: Arc<MakeInstance>) -> Slot {
        let (instance, processes, limited) = Default::default();
        Slot {
            instance,
            make,
            device,
            processes,
            was_made: false,
            retry_at: None,
            runs: 0,
            limited,
            stop: Arc::default(),
            may_run_wide: false,
        }
    }

    /// Another place like this one, without an instance yet.
    pub fn another(&self) -> Slot {
        let (processes, limited) = (self.processes.clone(), self.limited.clone());
        Slot { processes, limited, ..Slot::empty_on(self.device, self.make.clone()) }
    }

    /// The same, whose instance is in that one of these processes which is for its device: that bounds the time that
    /// its making takes, and a run that waits for it has all of its own time left.
    pub fn apart(self, processes: Processes) -> Slot {
        Slot { processes, ..self }
    }

    /// The process of its instance; `None` where that is in this one.
    pub(crate) fn process(&self) -> Option<&Arc<dyn ModelProcess>> {
        self.processes.on(self.device)
    }

    /// Is there no process for its instance, and none that is worth to wait for?
    pub(crate) fn is_out(&self) -> bool {
        self.process().is_some_and(|it| it.outage().is_some())
    }

    /// Has its instance been in a process that has died?
    pub(crate) fn has_lost_process(&self) -> bool {
        self.instance.as_ref().is_some_and(|it| it.has_lost_process())
    }

    /// Has it had an instance, which is gone with its process?
    pub(crate) fn is_lost(&self) -> bool {
        self.is_apart() && self.was_made && (self.instance.is_none() || self.has_lost_process())
    }

    /// Is it to be made anew before there is work for it?
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.is_lost() && !self.is_out() && self.retry_at.is_none_or(|it| it <= now)
    }

    /// Where its next run is made, as far as its limit depends on that.
    pub(crate) fn run_place(&self) -> RunPlace {
        let is_fresh = self.instance.as_ref().is_none_or(|it| it.is_fresh());
        let is_first = is_fresh || self.runs < FIRST_RUNS;
        match (self.is_apart(), self.device) {
            (true, Device::Cpu) => RunPlace::OwnProcess { is_first },
            // Any run on a GPU may compile what later ones use, for minutes.
            (true, Device::Gpu(_)) | (false, _) => RunPlace::Server,
        }
    }

    /// Is its instance in a process of its model's own?
    pub(crate) fn is_apart(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Where its instance is, or will be.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The same, whose runs wait until their resources are free.
    pub fn limited(self, limited: Limited) -> Slot {
        Slot { limited: Some(Arc::new(limited)), ..self }
    }

    /// What its runs have to wait for; `None` for nothing.
    pub fn limit(&self) -> Option<&Arc<Limited>> {
        self.limited.as_ref()
    }

    /// May later runs take all processors?
    pub(crate) fn may_run_wide(&mut self, may: bool) {
        self.may_run_wide = may;
    }

    /// Has its last run, as [`Instance::has_run_wide`] says?
    pub(crate) fn has_run_wide(&self) -> bool {
        self.instance.as_ref().is_some_and(|it| it.has_run_wide())
    }

    /// Is there an instance to run on?
    pub fn is_made(&self) -> bool {
        self.instance.is_some()
    }

    /// Drops an instance that has lost what runs left behind in it. Is there none now? Blocking.
    pub(crate) fn drop_lost(&mut self) -> bool {
        if self.instance.as_ref().is_some_and(|it| it.has_lost_state()) {
            self.instance = None;
        }
        self.instance.is_none()
    }

    /// Would its next run open it in the process that has taken the place of its own? Not where it has lost what runs
    /// had left behind, which a run is to hear.
    fn is_to_be_made_anew(&self) -> bool {
        let keeps = self.instance.as_ref().is_some_and(|it| it.has_lost_state());
        self.has_lost_process() && !keeps
    }

    /// Ends its runs in place.
    pub(crate) fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// The stop of a run has been used: the next one gets another.
    pub(crate) fn renew_stop(&mut self) {
        self.stop = Arc::default();
    }

    /// Makes the instance where there is none. A panic in its making is an error like any other. Blocking.
    pub fn fill(&mut self) -> Result<&mut dyn Instance, BackendError> {
        if self.instance.is_none() {
            self.instance = Some(caught(&*self.make)?);
            (self.runs, self.was_made, self.retry_at) = (0, true, None);
        }
        match self.instance.as_deref_mut() {
            Some(instance) => Ok(instance),
            None => Err(BackendError::Execute("the instance is gone".into())),
        }
    }

    /// The same, also in the place of one whose process has died; and where the process of the model dies meanwhile in
    /// the one that takes its place. One that cannot be made although there is a process is tried again a while later,
    /// or when there is work for it. Blocking.
    pub(crate) fn fill_anew(&mut self) -> Result<(), BackendError> {
        if self.has_lost_process() {
            self.instance = None;
        }
        let mut died = 0;
        loop {
            match self.fill() {
                Ok(_) => return Ok(()),
                Err(BackendError::Crashed(_)) if died < MOST_LOST => died += 1,
                Err(error) => {
                    let lacks_process =
                        matches!(error, BackendError::Crashed(_) | BackendError::Unavailable(_));
                    self.retry_at = (!lacks_process).then(|| Instant::now() + RETRY_AFTER);
                    return Err(error);
                }
            }
        }
    }
}

impl Slot {
    /// Calls the instance, made where there is none; one that panics, or whose process dies, is lost. Where that had
    /// died before the run was begun, the instance is made anew and called again, unless what it has `missed` moves.
    /// `terms` and `stop` are those of the run; whether it may take all processors is known to the slot. Blocking.
    pub(super) fn call<T>(
        &mut self,
        terms: RunTerms,
        missed: Missed,
        stop: &Stop,
        mut call: impl FnMut(&mut dyn Instance) -> Result<T, BackendError>,
    ) -> Result<T, RunFailure> {
        let most = match missed {
            Missed::Waits => MOST_LOST,
            Missed::Moves => 0,
        };
        let mut lost = 0;
        loop {
            let (outcome, has_missed) = self.call_once(terms, stop, &mut call)?;
            lost += usize::from(has_missed);
            if !has_missed || most < lost || stop.is_over() {
                // What was never given to a process did not end it.
                let failure = if has_missed { RunFailure::NoInstance } else { RunFailure::Batch };
                return outcome.map_err(failure);
            }
        }
    }

    /// One call, and whether the process had ended before its run.
    ///
    /// # Errors
    /// Where there is no instance.
    fn call_once<T>(
        &mut self,
        terms: RunTerms,
        stop: &Stop,
        call: impl FnOnce(&mut dyn Instance) -> Result<T, BackendError>,
    ) -> Result<(Result<T, BackendError>, bool), RunFailure> {
        let waiting = self.is_apart().then(|| stop.wait());
        if self.is_to_be_made_anew() {
            // It is warm before the run.
            self.instance = None;
        }
        self.fill().map_err(RunFailure::NoInstance)?;
        drop(waiting);
        let is_fresh = self.instance.as_ref().is_some_and(|it| it.is_fresh());
        self.runs = if is_fresh { 1 } else { self.runs.saturating_add(1) };
        let terms = RunTerms { wide: self.may_run_wide, ..terms };
        let instance = self.fill().map_err(RunFailure::NoInstance)?;
        let mut panicked = true;
        let outcome = caught(|| {
            instance.expect_runs(terms);
            let outcome = call(instance);
            panicked = false;
            outcome
        });
        let has_crashed = matches!(outcome, Err(BackendError::Crashed(_)));
        let has_missed =
            has_crashed && self.instance.as_ref().is_some_and(|it| it.has_missed_run());
        if panicked || has_crashed {
            self.instance = None;
        }
        Ok((outcome, has_missed))
    }
}

/// The outcome of one attempt, of a batch.
pub(super) enum RunFailure {
    /// The engine refused the batch, panicked, or gave back something that is no answer.
    Batch(BackendError),
    /// There is no instance to run on.
    NoInstance(BackendError),
}

impl RunFailure {
    /// What those hear of it who get its error.
    pub(super) fn into_error(self) -> BackendError {
        let (RunFailure::Batch(error) | RunFailure::NoInstance(error)) = self;
        error
    }

    /// Has the process of the model died, in the run or while an instance was made?
    pub(super) fn is_crash(&self) -> bool {
        let (RunFailure::Batch(error) | RunFailure::NoInstance(error)) = self;
        matches!(error, BackendError::Crashed(_))
    }

    /// Did the engine refuse this batch, of which a part may pass? The end of the model's process says nothing of what
    /// was run.
    pub(super) fn is_of_batch(&self) -> bool {
        let RunFailure::Batch(error) = self else { return false };
        !matches!(error, BackendError::Crashed(_) | BackendError::Unavailable(_))
    }

    /// Is it for another device to run what so many processes have died in? Not what has ended the one that it had
    /// alone.
    pub(super) fn may_move(&self, crashes: usize) -> bool {
        match self {
            RunFailure::Batch(BackendError::Unavailable(_)) => crashes == 0,
            RunFailure::NoInstance(BackendError::Unavailable(_)) => true,
            RunFailure::Batch(_) | RunFailure::NoInstance(_) => {
                self.is_crash() && crashes < self.most_crashes()
            }
        }
    }

    /// So many ends of processes an item may see before the next is its own. One in which no instance could be made
    /// was not the item's.
    pub(super) fn most_crashes(&self) -> usize {
        match self {
            RunFailure::Batch(_) => 1,
            RunFailure::NoInstance(_) => MOST_LOST,
        }
    }
}

/// Calls the engine; its panic becomes an error.
fn caught<T>(call: impl FnOnce() -> Result<T, BackendError>) -> Result<T, BackendError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(BackendError::Execute(format!("the engine panicked: {text}")))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use backend::{Batch, NamedTensor};

    use super::*;
    use crate::test_process::processes;

    /// An instance whose process has died before its run, or not.
    struct Late(bool);

    impl Instance for Late {
        fn has_missed_run(&self) -> bool {
            self.0
        }

        fn execute(&mut self, _: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn an_instance_whose_process_has_died_before_the_run_is_made_anew_for_it_unless_that_moves() {
        let calls_of = |lost: usize, missed: Missed| {
            let made = AtomicUsize::new(0);
            let make = move || -> Result<Box<dyn Instance>, BackendError> {
                Ok(Box::new(Late(made.fetch_add(1, Ordering::Relaxed) < lost)))
            };
            let mut slot = Slot::empty(Arc::new(make)).apart(processes(&[Device::Cpu]));
            let mut calls = 0;
            let outcome = slot.call(RunTerms::default(), missed, &Stop::new(), |instance| {
                calls += 1;
                match instance.has_missed_run() {
                    true => Err(BackendError::Crashed("it had ended".into())),
                    false => Ok(()),
                }
            });
            // A run that no process was given has ended none.
            assert!(!matches!(outcome, Err(RunFailure::Batch(_))));
            (calls, outcome.is_ok())
        };
        for (lost, calls) in [(0, 1), (1, 2), (MOST_LOST, MOST_LOST + 1)] {
            assert_eq!(calls_of(lost, Missed::Waits), (calls, true));
        }
        assert_eq!(calls_of(usize::MAX, Missed::Waits), (MOST_LOST + 1, false));
        assert_eq!(calls_of(1, Missed::Moves), (1, false));
    }

    #[test]
    fn the_first_three_runs_of_an_instance_in_a_process_of_its_own_are_told_from_later_ones() {
        let make = || -> Arc<MakeInstance> { Arc::new(|| Err(BackendError::Load("none".into()))) };
        let mut slot = Slot::empty(make()).apart(processes(&[Device::Cpu]));
        assert_eq!(slot.run_place(), RunPlace::OwnProcess { is_first: true });
        struct Nothing(Arc<AtomicBool>);
        impl Instance for Nothing {
            fn is_fresh(&self) -> bool {
                self.0.load(Ordering::Relaxed)
            }

            fn execute(
                &mut self,
                _: &backend::Batch<'_>,
            ) -> Result<Vec<backend::NamedTensor>, BackendError> {
                Ok(Vec::new())
            }
        }
        let has_died = Arc::new(AtomicBool::new(false));
        let dies = has_died.clone();
        slot.make = Arc::new(move || Ok(Box::new(Nothing(dies.clone()))));
        let mut four_runs = || -> Vec<RunPlace> {
            let run = |_| {
                let place = slot.run_place();
                assert!(
                    slot.call(RunTerms::default(), Missed::Waits, &Stop::new(), |_| Ok(())).is_ok()
                );
                has_died.store(false, Ordering::Relaxed);
                place
            };
            (0..4).map(run).collect()
        };
        let of = |is_first| RunPlace::OwnProcess { is_first };
        let expected = [of(true), of(true), of(true), of(false)];
        assert_eq!(four_runs(), expected);
        has_died.store(true, Ordering::Relaxed);
        assert_eq!(four_runs(), expected, "its process has died while it was idle");
        assert_eq!(Slot::empty(make()).run_place(), RunPlace::Server);
        let on_gpu = Slot::empty_on(Device::Gpu(0), make()).apart(processes(&[Device::Gpu(0)]));
        assert_eq!(on_gpu.run_place(), RunPlace::Server);
    }
}
