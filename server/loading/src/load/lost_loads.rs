//! Loads on threads of their own, so that one that does not end is not waited for, and a bound for those.

use std::{
    collections::BTreeSet,
    panic::resume_unwind,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use backend::MODEL_STACK;

use crate::load::{
    load_error::LoadError,
    load_watch::{LoadWatch, PhaseLimit},
};
use serving::{lock::lock, model_id::ModelId};

/// Loads that do not end keep their threads. While there are so many, no further one is begun.
const MOST_LOST: usize = 4;

/// A load that is given up may still end in this time: where it has a process of its own, that is ended.
const LAST_WORDS: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 3000 });

/// The loads that were given up and have not ended.
#[derive(Debug, Default)]
pub(crate) struct LostLoads {
    /// Guards which models they are of.
    of: Mutex<BTreeSet<ModelId>>,
    /// One of them has ended.
    ended: Condvar,
}

impl LostLoads {
    /// Does that work on a thread of its own, and gives it up when a phase of it does not end. Blocking.
    ///
    /// # Errors
    /// When it was given up, or is not begun as others were before. A panic of the work goes on in the caller.
    pub(crate) fn supervise<T: Send + 'static>(
        self: &Arc<Self>,
        id: &ModelId,
        work: impl FnOnce(&LoadWatch) -> T + Send + 'static,
    ) -> Result<T, LoadError> {
        self.check(id)?;
        let watch = Arc::new(LoadWatch::default());
        let ending = Ending { watch: watch.clone(), lost: self.clone(), id: id.clone() };
        let builder = thread::Builder::new().name("loading".to_owned()).stack_size(MODEL_STACK);
        let load = builder
            .spawn(move || work(&ending.watch))
            .map_err(|it| format!("cannot start a thread: {it}"))?;
        let note = || {
            lock(&self.of).insert(id.clone());
        };
        match watch.wait(note) {
            Ok(()) => load.join().map_err(|panic| resume_unwind(panic)),
            Err(PhaseLimit { limit, flag }) => {
                let outcome = match self.ends_within(id, LAST_WORDS) {
                    true => "was ended",
                    false => "does not end: it is given up, and keeps a thread until it ends",
                };
                let limit = limit.as_secs_f64();
                Err(format!("its load took longer than {limit} s ({flag}) and {outcome}").into())
            }
        }
    }

    /// Does the load of that model end that was given up? Blocking for so long at most.
    fn ends_within(&self, id: &ModelId, patience: Duration) -> bool {
        let goes_on = |of: &mut BTreeSet<ModelId>| of.contains(id);
        let waited = self.ended.wait_timeout_while(lock(&self.of), patience, goes_on);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn check(&self, id: &ModelId) -> Result<(), LoadError> {
        let of = lock(&self.of);
        if of.contains(id) {
            let problem = "an earlier load of it was given up and has not ended yet";
            return Err(problem.to_owned().into());
        }
        if of.len() < MOST_LOST {
            return Ok(());
        }
        let models: Vec<String> = of.iter().map(|it| format!("'{it}'")).collect();
        Err(LoadError::Refused(format!(
            "no model is loaded until one of the loads has ended that were given up, or the server is started anew: \
             those of {}",
            models.join(", ")
        )))
    }
}

/// Notes the end of a load, however it ends.
struct Ending {
    watch: Arc<LoadWatch>,
    lost: Arc<LostLoads>,
    id: ModelId,
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.watch.end() {
            lock(&self.lost.of).remove(&self.id);
            self.lost.ended.notify_all();
            tracing::warn!(model = %self.id, "a load that was given up has ended after all");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    fn hang(lost: &Arc<LostLoads>, name: &str) -> (mpsc::Sender<()>, String) {
        let (heard, hears) = mpsc::channel::<()>();
        let limit = PhaseLimit { limit: Duration::from_millis(5), flag: "--f" };
        let refusal = lost.supervise(&ModelId::named(name), move |watch| {
            let _ = watch.during(limit, &Arc::default(), || hears.recv());
        });
        (heard, refusal.unwrap_err().to_string())
    }

    fn load(lost: &Arc<LostLoads>, name: &str) -> Result<i32, LoadError> {
        lost.supervise(&ModelId::named(name), |_| 7)
    }

    #[test]
    fn a_load_that_does_not_end_is_given_up_and_others_are_not_held_up() {
        let lost = Arc::default();
        let (heard, told) = hang(&lost, "a");
        assert!(
            told.starts_with("its load took longer than 0.005 s (--f) and does not end"),
            "{told}"
        );
        assert_eq!(load(&lost, "b"), Ok(7));
        assert!(load(&lost, "a").unwrap_err().to_string().contains("an earlier load of it"));
        drop(heard);
        while load(&lost, "a").is_err() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_load_that_was_given_up_is_known_to_have_ended_when_it_has() {
        let lost: Arc<LostLoads> = Arc::default();
        let id = ModelId::named("a");
        lock(&lost.of).insert(id.clone());
        assert!(!lost.ends_within(&id, Duration::from_millis(1)));
        let ending = Ending { watch: Arc::default(), lost: lost.clone(), id: id.clone() };
        let gone = PhaseLimit { limit: Duration::ZERO, flag: "--f" };
        let watch = ending.watch.clone();
        let load = thread::spawn(move || {
            let _ = ending.watch.during(gone, &Arc::default(), || {
                thread::sleep(Duration::from_millis(20));
            });
        });
        assert_eq!(watch.wait(|| ()), Err(gone));
        assert!(lost.ends_within(&id, Duration::from_secs(60)));
        load.join().unwrap();
    }

    #[test]
    fn few_loads_are_given_up_at_a_time() {
        let lost = Arc::default();
        let mut heard: Vec<_> = ["a", "b", "c", "d"].map(|it| hang(&lost, it).0).into();
        let told = load(&lost, "e").unwrap_err().to_string();
        assert!(told.ends_with("those of 'a', 'b', 'c', 'd'"), "{told}");
        drop(heard.pop());
        while load(&lost, "e").is_err() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_panic_of_a_load_is_one_of_the_caller() {
        let lost: Arc<LostLoads> = Arc::default();
        let panic = || lost.supervise(&ModelId::named("a"), |_| panic!("in the engine"));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panic));
        assert!(caught.is_err());
        assert_eq!(load(&lost, "a"), Ok(7));
    }
}
