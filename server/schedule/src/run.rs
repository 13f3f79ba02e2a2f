//! The execution of a batch; and when one fails, finding the culprit.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Instance, NamedTensor, RerunPolicy, RunTerms, Stop, Tensor};

use super::{
    merge::{gather, scatter, wanted},
    run_context::RunContext,
    slot::{RunFailure, Slot},
    work::{Done, Work},
};
use inference::{error::Error, timings::Timings};
use telemetry::metrics::{BatchReason, ModelMetrics, Rerun};

/// Counts and logs executions of a model.
pub(super) fn observe(times: &[Timings], reason: BatchReason, model: &str, metrics: &ModelMetrics) {
    for it in times {
        metrics.execution(it, reason);
        let us = it.infer.as_micros();
        tracing::debug!(model, rows = it.batch_rows, reason = reason.name(), us, "batch");
    }
}

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

/// What an execution tells.
pub enum Execution<'a> {
    /// It has succeeded.
    Ran(&'a Timings),
    /// The memory did not suffice for so many rows.
    RanOut(usize),
    /// The process of the model has died in it, or before.
    Reran(Reruns),
    /// The job of that place has ended the process of the model twice, the second time alone.
    KilledTwice(usize),
    /// A job is to run elsewhere. What it is answered here says why.
    Left(Moved),
}

/// What the executions of one batch have told.
#[derive(Default)]
pub struct Observed {
    /// Where the time of each that has succeeded went.
    pub times: Vec<Timings>,
    /// The fewest rows that the memory did not suffice for.
    pub ran_out: Option<usize>,
    /// What became of requests whose process died.
    pub reruns: Reruns,
    /// The places of those that have ended the process twice.
    pub killers: Vec<usize>,
    /// Those that are to run elsewhere, in the order of their places.
    pub moved: Vec<Moved>,
}

impl Observed {
    /// Takes in what an execution tells.
    pub fn take(&mut self, execution: &Execution<'_>) {
        match execution {
            Execution::Ran(times) => self.times.push(**times),
            Execution::RanOut(rows) => {
                self.ran_out = Some(self.ran_out.map_or(*rows, |it| it.min(*rows)));
            }
            Execution::Reran(reruns) => self.reruns.add(*reruns),
            Execution::KilledTwice(place) => self.killers.push(*place),
            Execution::Left(moved) => self.moved.push(*moved),
        }
    }

    /// Was anything run again, as a process had died or the memory did not suffice?
    pub fn has_repeated(&self) -> bool {
        self.ran_out.is_some() || self.reruns != Reruns::default()
    }

    /// The fewest rows that the memory did not suffice for, where it has sufficed for their parts. A job that does not
    /// fit alone says nothing of others.
    pub fn has_halved(&self, answers: &[Result<Done, Error>]) -> Option<usize> {
        self.ran_out.filter(|_| !answers.iter().any(lacks_memory))
    }
}

fn lacks_memory(answer: &Result<Done, Error>) -> bool {
    matches!(answer, Err(Error::Backend(BackendError::OutOfMemory(_))))
}

/// Runs the jobs as one batch and returns one answer per job, in their order. `observe` is called for
/// every execution that succeeds, and for each that the memory did not suffice for.
///
/// When a batch of several fails it is run again in halves, until each failing job is alone: at most
/// `2 · log2(jobs)` extra executions for one culprit. Only the culprit gets the error. A job of several
/// rows that the memory does not suffice for is run in halves, too. An instance that panicked is dropped and made anew.
/// Where the model's configuration says that nothing is run again, all jobs of a run that fails get its error.
pub fn run(
    slot: &mut Slot,
    context: &RunContext,
    (jobs, standing): (&[&Work], Standing),
    stop: &Stop,
    observe: &mut dyn FnMut(Execution<'_>),
) -> Vec<Result<Done, Error>> {
    let attempt = |group: &[&Work], alone: bool| {
        // Parts of a batch that has failed have been counted with it; a process that is new has seen none of them.
        let is_new = alone || group.len() == jobs.len();
        let terms = RunTerms { alone, requests: if is_new { group.len() } else { 0 }, wide: false };
        let done =
            slot.call(terms, stop, |instance| execute(instance, context, group, stop, observe));
        if is_out_of_memory(&done) {
            observe(Execution::RanOut(group.iter().map(|it| it.rows).sum()));
        }
        done
    };
    let policy = context.rerun;
    let repeats = |failure: &RunFailure| Repeat::after(failure, policy, stop);
    let Attempts { mut answers, reruns, killers, moved } =
        in_halves(jobs, standing, repeats, attempt);
    if reruns != Reruns::default() {
        observe(Execution::Reran(reruns));
    }
    killers.into_iter().for_each(|it| observe(Execution::KilledTwice(it)));
    moved.into_iter().for_each(|it| observe(Execution::Left(it)));
    for (job, answer) in jobs.iter().zip(&mut answers) {
        let is_cut = 1 < job.rows && context.splits.load(Relaxed) && policy.allows_reruns();
        if is_cut && lacks_memory(answer) {
            *answer = run_rows(slot, context, job, stop, observe);
        }
    }
    answers
}

fn is_out_of_memory<T>(done: &Result<T, RunFailure>) -> bool {
    matches!(done, Err(RunFailure::Batch(BackendError::OutOfMemory(_))))
}

/// Runs a job that the memory did not suffice for in halves, and those again, down to single rows.
///
/// # Errors
/// Where the memory does not suffice for one row, or a part fails for another reason.
fn run_rows(
    slot: &mut Slot,
    context: &RunContext,
    job: &Work,
    stop: &Stop,
    observe: &mut dyn FnMut(Execution<'_>),
) -> Result<Done, Error> {
    let uneven = || Error::Internal("a request cannot be cut into rows".to_owned());
    let half = job.rows / 2;
    // The request has been counted with the run that failed.
    let terms = RunTerms::default();
    // Parts still to run, the first on top.
    let mut parts = vec![(half, job.rows - half), (0, half)];
    let mut answers = Vec::new();
    while let Some((from, rows)) = parts.pop() {
        let part = job.cut(from, rows).ok_or_else(uneven)?;
        let done =
            slot.call(terms, stop, |instance| execute(instance, context, &[&part], stop, observe));
        if is_out_of_memory(&done) {
            observe(Execution::RanOut(rows));
            if 1 < rows && !stop.is_over() {
                let half = rows / 2;
                parts.extend([(from + half, rows - half), (from, half)]);
                continue;
            }
        }
        match done {
            Ok(done) => answers.extend(done),
            Err(RunFailure::Batch(error) | RunFailure::NoInstance(error)) => {
                return Err(error.into());
            }
        }
    }
    joined(&answers).ok_or_else(uneven)
}

/// Answers to the parts of a job, in their order, as one.
fn joined(parts: &[Done]) -> Option<Done> {
    let first = parts.first()?;
    let outputs = first.outputs.iter().enumerate().map(|(at, output)| {
        let pieces = parts.iter().filter_map(|it| it.outputs.get(at)).map(|it| &it.tensor);
        let tensor = Tensor::concat(pieces)?;
        Some(NamedTensor { name: output.name.clone(), tensor })
    });
    let outputs = outputs.collect::<Option<_>>()?;
    let mut timings = first.timings;
    for it in parts.iter().skip(1) {
        timings.add(&it.timings);
    }
    Some(Done { outputs, timings })
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
            // It has found no process, and has not begun.
            RunFailure::Batch(BackendError::Unavailable(_)) => Repeat::Yes,
            RunFailure::Batch(_) if !policy.allows_reruns() => Repeat::Never,
            RunFailure::Batch(_) | RunFailure::NoInstance(_) => Repeat::Yes,
        }
    }
}

/// Attempts all items together. What fails is attempted again in halves where it `repeats`, so that only the items at
/// fault get the error. Where the process of the model has died, each item is attempted once more by itself, with no
/// other run beside it: one that kills it costs two processes, and nobody else an answer. `attempt` is told whether the
/// process is to be the group's alone. The answers are in the order of the items. Where `standing` says so, all
/// attempts after a death are left to others, also those of groups that it has not died in.
pub(super) fn in_halves<T, D>(
    items: &[T],
    standing: Standing,
    repeats: impl Fn(&RunFailure) -> Repeat,
    mut attempt: impl FnMut(&[T], bool) -> Result<Vec<D>, RunFailure>,
) -> Attempts<D> {
    let mut answers = Vec::with_capacity(items.len());
    let (mut reruns, mut killers, mut moved) = (Reruns::default(), Vec::new(), Vec::new());
    // Groups still to run, the leftmost on top, so that answers come in order; and how many processes died in each.
    let mut groups = vec![(items, usize::from(standing.has_crashed))];
    while let Some((group, crashes)) = groups.pop() {
        match attempt(group, 0 < crashes) {
            Ok(done) => {
                if 0 < crashes {
                    reruns.ok += group.len() as u64;
                }
                answers.extend(done.into_iter().map(Ok));
            }
            Err(failure)
                if standing.moves
                    && failure.may_move(crashes)
                    && repeats(&failure) == Repeat::Yes =>
            {
                let is_of_run = matches!(failure, RunFailure::Batch(BackendError::Crashed(_)));
                let has_crashed = standing.has_crashed || is_of_run;
                let (RunFailure::Batch(error) | RunFailure::NoInstance(error)) = failure;
                // The groups that are left would wait for the next process here. It has not died in a run of theirs.
                let rest = groups.drain(..).rev().map(|(it, _)| (it, standing.has_crashed));
                for (group, has_crashed) in [(group, has_crashed)].into_iter().chain(rest) {
                    for _ in group {
                        moved.push(Moved { place: answers.len(), has_crashed });
                        answers.push(Err(Error::Backend(error.clone())));
                    }
                }
            }
            Err(failure)
                if failure.is_crash()
                    && crashes < failure.most_crashes()
                    && repeats(&failure) == Repeat::Yes =>
            {
                groups.extend(group.chunks(1).rev().map(|it| (it, crashes + 1)));
            }
            Err(failure)
                if 1 < group.len() && failure.is_of_batch() && repeats(&failure) == Repeat::Yes =>
            {
                let (left, right) = group.split_at(group.len() / 2);
                groups.extend([(right, crashes), (left, crashes)]);
            }
            Err(failure) => {
                let repeat = repeats(&failure);
                let count = match (failure.is_crash(), repeat, crashes) {
                    (true, Repeat::Never, _) => Some(&mut reruns.never),
                    (true, Repeat::Yes | Repeat::Late, 0) => Some(&mut reruns.late),
                    (false, _, 0) => None,
                    (_, _, 1..) => Some(&mut reruns.failed),
                };
                count.into_iter().for_each(|it| *it += group.len() as u64);
                if let RunFailure::Batch(BackendError::Crashed(_)) = &failure
                    && 0 < crashes
                    && repeat == Repeat::Yes
                {
                    // It is alone, and answers are in the order of the items. One that was given up may have been ended
                    // for its time, which is not its fault.
                    killers.push(answers.len());
                }
                let error = told(failure, repeat);
                answers.extend(group.iter().map(|_| Err(Error::Backend(error.clone()))));
            }
        }
    }
    Attempts { answers, reruns, killers, moved }
}

/// What requests hear of a failure after which they are not run again.
fn told(failure: RunFailure, repeat: Repeat) -> BackendError {
    let (RunFailure::Batch(error) | RunFailure::NoInstance(error)) = failure;
    match (error, repeat) {
        (BackendError::Crashed(how), Repeat::Never) => BackendError::Crashed(format!(
            "{how}; a request that was in it is not run again, as parameter '{}' is 'never'",
            RerunPolicy::PARAMETER
        )),
        (error, _) => error,
    }
}

fn execute(
    instance: &mut dyn Instance,
    context: &RunContext,
    jobs: &[&Work],
    stop: &Stop,
    observe: &mut dyn FnMut(Execution<'_>),
) -> Result<Vec<Done>, BackendError> {
    let started = Instant::now();
    let (gathered, union);
    let (inputs, outputs, rows, running) = match (jobs, &context.ragged) {
        // Nothing is gathered, and no time passes.
        ([only], None) => (&only.inputs, &only.outputs, only.rows, started),
        _ => {
            (gathered, union) = (gather(context, jobs)?, wanted(context, jobs));
            (&gathered, &union, jobs.iter().map(|it| it.rows).sum(), Instant::now())
        }
    };
    let signature = jobs.first().map_or(0, |it| it.signature);
    let waited_before = stop.waited(running);
    let results = instance.execute(&Batch { inputs, outputs, rows, signature, stop })?;
    let ran = Instant::now();
    // What it has waited for a process to run in is not the model's time.
    let running = ran.min(running + stop.waited(ran).saturating_sub(waited_before));
    let mut shares = scatter(context, jobs, &results, rows)?;
    let timings = Timings {
        started,
        queue: Duration::ZERO,
        prepare: Duration::ZERO,
        rows: Duration::ZERO,
        input: running - started,
        infer: ran - running,
        output: ran.elapsed(),
        batch_rows: rows,
        turn: instance.last_turn(),
    };
    observe(Execution::Ran(&timings));
    Ok(shares.drain(..).map(|outputs| Done { outputs, timings }).collect())
}

#[cfg(test)]
mod tests;
