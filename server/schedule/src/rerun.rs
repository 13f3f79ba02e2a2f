//! What is made again of a run that has failed. Only those at fault get its error, and those that nobody waits for any
//! more are not run again.
//!
//! A row that makes the engine fail would fail its neighbours. The batch is run again in halves: at most `2 ·
//! log₂(jobs)` extra runs find the row. Where memory was the reason and the halves fit, `memory_bound` bounds later
//! runs for a while.

use std::time::Instant;

use backend::{BackendError, RerunPolicy, Stop};

use super::slot::RunFailure;
use inference::error::Error;
use telemetry::metrics::{ModelMetrics, Rerun};

/// What became of the requests whose process died in their run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reruns {
    /// Run once more, and answered.
    pub ok: u64,
    /// Run once more, and failed.
    pub failed: u64,
    /// Not run again, as nobody waited any more.
    pub late: u64,
    /// Not run again, as their model's configuration says.
    pub never: u64,
}

impl Reruns {
    /// Adds others.
    pub fn add(&mut self, more: Reruns) {
        self.ok += more.ok;
        self.failed += more.failed;
        self.late += more.late;
        self.never += more.never;
    }

    /// Counts them.
    pub fn count(self, metrics: &ModelMetrics) {
        let outcomes = [
            (Rerun::Ok, self.ok),
            (Rerun::Failed, self.failed),
            (Rerun::Late, self.late),
            (Rerun::Never, self.never),
        ];
        for (outcome, requests) in outcomes.into_iter().filter(|(_, it)| 0 < *it) {
            metrics.reruns(outcome, requests);
        }
    }
}

/// What is known of jobs beforehand, and what becomes of them where the process of the model dies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Has a process died in a run of the job before? It is alone then, and the next that dies is its own.
    pub has_crashed: bool,
    /// Are they left to another device, which can serve, instead of waiting for the next process here?
    pub moves: bool,
}

/// A job that another device is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Its place among the jobs.
    pub place: usize,
    /// Has a process died in a run of it?
    pub has_crashed: bool,
}

/// Is an answer still of use?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Nobody waits for it: its client has left, or its deadline has passed.
    Gone,
    /// Somebody waits, until then; `None`: as long as it takes.
    Until(Option<Instant>),
}

impl Wish {
    /// Until the later of both.
    fn or_until(self, other: Wish) -> Wish {
        match (self, other) {
            (Wish::Gone, other) => other,
            (wish, Wish::Gone) => wish,
            (Wish::Until(a), Wish::Until(b)) => Wish::Until(a.zip(b).map(|(a, b)| a.max(b))),
        }
    }
}

/// May what has failed be attempted again?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Yes,
    /// Nobody could use the answer any more.
    Late,
    /// The configuration of the model says that nothing is run twice.
    Never,
}

impl Repeat {
    /// After that failure of a run with that stop. What no instance could be made for has not run.
    pub(super) fn after(failure: &RunFailure, policy: RerunPolicy, stop: &Stop) -> Repeat {
        match failure {
            _ if stop.is_over() => Repeat::Late,
            // It has found no process, or no room, and has not begun.
            RunFailure::Batch(BackendError::Unavailable(_) | BackendError::Busy(_)) => Repeat::Yes,
            RunFailure::Batch(_) if !policy.allows_reruns() => Repeat::Never,
            RunFailure::Batch(_) | RunFailure::NoInstance(_) => Repeat::Yes,
        }
    }
}

/// One attempt at some of the items.
pub(super) struct Attempt<'a, T> {
    /// What is attempted together.
    pub(super) items: &'a [T],
    /// Is the process to be theirs alone?
    pub(super) alone: bool,
    /// Where they are among all items; `None` in the first attempt, which is one at all of them.
    pub(super) again: Option<Again<'a>>,
}

/// An attempt is not the first.
#[derive(Clone, Copy)]
pub(super) struct Again<'a> {
    places: &'a [usize],
    wishes: &'a dyn Fn(usize) -> Wish,
}

impl<'a> Again<'a> {
    /// At the items of these places.
    pub(super) fn of(places: &'a [usize], wishes: &'a dyn Fn(usize) -> Wish) -> Again<'a> {
        Again { places, wishes }
    }

    /// Does somebody wait for one of the answers now, and until when?
    pub(super) fn wish(&self) -> Wish {
        self.places.iter().map(|it| (self.wishes)(*it)).fold(Wish::Gone, Wish::or_until)
    }
}

/// What came of several attempts.
pub(super) struct Attempts<D> {
    /// In the order of the items.
    pub(super) answers: Vec<Result<D, Error>>,
    /// What became of those whose process died.
    pub(super) reruns: Reruns,
    /// The places of the items that have ended the process twice, the second time alone.
    pub(super) killers: Vec<usize>,
    /// The items that are to be attempted elsewhere, in the order of their places.
    pub(super) moved: Vec<Moved>,
}

impl<D> Attempts<D> {
    /// Nothing was attempted.
    pub(super) fn none() -> Attempts<D> {
        let (answers, moved) = (Vec::new(), Vec::new());
        Attempts { answers, reruns: Reruns::default(), killers: Vec::new(), moved }
    }
}

/// Attempts all items together. What fails is attempted again in halves where it `repeats`, so that only the items at
/// fault get the error. Where the process of the model has died, each item is attempted once more by itself, with no
/// other run beside it: one that kills it costs two processes, and nobody else an answer. What `wishes` says nobody
/// waits for is not attempted again; it is asked by the places of the items, and only after a failure. The answers are
/// in the order of the items. Where `standing` says so, all attempts after a death are left to others, also those of
/// groups that it has not died in.
pub(super) fn in_halves<T: Copy, D>(
    items: &[T],
    standing: Standing,
    wishes: &dyn Fn(usize) -> Wish,
    repeats: impl Fn(&RunFailure) -> Repeat,
    mut attempt: impl FnMut(Attempt<'_, T>) -> Result<Vec<D>, RunFailure>,
) -> Attempts<D> {
    let crashes = usize::from(standing.has_crashed);
    let failure = match attempt(Attempt { items, alone: 0 < crashes, again: None }) {
        Ok(done) => {
            let ok = if 0 < crashes { items.len() as u64 } else { 0 };
            let answers = done.into_iter().map(Ok).collect();
            let reruns = Reruns { ok, ..Reruns::default() };
            return Attempts { answers, reruns, ..Attempts::none() };
        }
        Err(failure) => failure,
    };
    let mut rescue = Rescue {
        standing,
        groups: Vec::new(),
        answers: items.iter().map(|_| None).collect(),
        attempts: Attempts::none(),
    };
    let repeat = repeats(&failure);
    rescue.failed((0..items.len()).collect(), crashes, failure, repeat);
    while let Some(Group { mut places, crashes, error }) = rescue.groups.pop() {
        let is_gone = |it: &usize| wishes(*it) == Wish::Gone;
        let gone: Vec<usize> = places.extract_if(.., |it| is_gone(it)).collect();
        rescue.leave(&gone, crashes, &error);
        if places.is_empty() {
            continue;
        }
        let group: Vec<T> = places.iter().filter_map(|it| items.get(*it)).copied().collect();
        let again = Again::of(&places, wishes);
        match attempt(Attempt { items: &group, alone: 0 < crashes, again: Some(again) }) {
            Ok(done) => {
                if 0 < crashes {
                    rescue.attempts.reruns.ok += places.len() as u64;
                }
                places.into_iter().zip(done).for_each(|(it, done)| rescue.answer(it, Ok(done)));
            }
            // It has waited for a process, for longer than anybody has waited for it.
            Err(failure) if !failure.is_crash() && places.iter().all(is_gone) => {
                rescue.leave(&places, crashes, &failure.into_error());
            }
            Err(failure) => {
                let repeat = repeats(&failure);
                rescue.failed(places, crashes, failure, repeat);
            }
        }
    }
    let lost = || Err(Error::Internal("a request was left out of its run".into()));
    let answers = rescue.answers.into_iter().map(|it| it.unwrap_or_else(lost)).collect();
    Attempts { answers, ..rescue.attempts }
}

/// Items that are to be attempted again together.
struct Group {
    /// Where they are among all.
    places: Vec<usize>,
    /// How many processes have died in runs of them.
    crashes: usize,
    /// What came of the last of these.
    error: BackendError,
}

/// What is left to do after a first attempt that has failed, and what has come of the others.
struct Rescue<D> {
    standing: Standing,
    /// The leftmost on top, so that items are attempted in their order.
    groups: Vec<Group>,
    /// By the places of the items.
    answers: Vec<Option<Result<D, Error>>>,
    /// Without the answers.
    attempts: Attempts<D>,
}

impl<D> Rescue<D> {
    /// An attempt at these items has failed, in which so many processes had died before: what becomes of them.
    fn failed(
        &mut self,
        mut places: Vec<usize>,
        crashes: usize,
        failure: RunFailure,
        repeat: Repeat,
    ) {
        let (is_crash, may_crash) = (failure.is_crash(), crashes < failure.most_crashes());
        let is_of_run = matches!(failure, RunFailure::Batch(BackendError::Crashed(_)));
        let (moves, is_of_batch) = (failure.may_move(crashes), failure.is_of_batch());
        let error = failure.into_error();
        let may_repeat = repeat == Repeat::Yes;
        if may_repeat && moves && self.standing.moves {
            let has_crashed = self.standing.has_crashed;
            self.move_away(&places, has_crashed || is_of_run, &error);
            // The groups that are left would wait for the next process here. It has not died in a run of theirs.
            while let Some(rest) = self.groups.pop() {
                self.move_away(&rest.places, has_crashed, &error);
            }
        } else if may_repeat && is_crash && may_crash {
            let alone = |it| Group { places: vec![it], crashes: crashes + 1, error: error.clone() };
            self.groups.extend(places.into_iter().rev().map(alone));
        } else if may_repeat && is_of_batch && 1 < places.len() {
            let right = places.split_off(places.len() / 2);
            self.groups.push(Group { places: right, crashes, error: error.clone() });
            self.groups.push(Group { places, crashes, error });
        } else {
            let reruns = &mut self.attempts.reruns;
            let count = match (is_crash, repeat, crashes) {
                (true, Repeat::Never, _) => Some(&mut reruns.never),
                (true, Repeat::Yes | Repeat::Late, 0) => Some(&mut reruns.late),
                (false, _, 0) => None,
                (_, _, 1..) => Some(&mut reruns.failed),
            };
            count.into_iter().for_each(|it| *it += places.len() as u64);
            if is_of_run && 0 < crashes && may_repeat {
                // It is alone. One that was given up may have been ended for its time, which is not its fault.
                self.attempts.killers.extend(&places);
            }
            self.refuse(&places, &told(error, repeat));
        }
    }

    /// These are attempted elsewhere. What they are answered here says why.
    fn move_away(&mut self, places: &[usize], has_crashed: bool, error: &BackendError) {
        self.attempts.moved.extend(places.iter().map(|it| Moved { place: *it, has_crashed }));
        self.refuse(places, error);
    }

    /// Nobody waits for these any more.
    fn leave(&mut self, places: &[usize], crashes: usize, error: &BackendError) {
        if 0 < crashes {
            self.attempts.reruns.late += places.len() as u64;
        }
        self.refuse(places, error);
    }

    fn refuse(&mut self, places: &[usize], error: &BackendError) {
        for place in places {
            self.answer(*place, Err(Error::Backend(error.clone())));
        }
    }

    fn answer(&mut self, place: usize, answer: Result<D, Error>) {
        if let Some(it) = self.answers.get_mut(place) {
            *it = Some(answer);
        }
    }
}

/// What requests hear of a failure after which they are not run again.
fn told(error: BackendError, repeat: Repeat) -> BackendError {
    match (error, repeat) {
        (BackendError::Crashed(how), Repeat::Never) => BackendError::Crashed(format!(
            "{how}; a request that was in it is not run again, as parameter '{}' is 'never'",
            RerunPolicy::PARAMETER
        )),
        (error, _) => error,
    }
}
