//! The execution of a batch; and when one fails, finding the culprit.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use backend::{
    BackendError, Batch, Call, CallAnswer, CallCode, CallError, Instance, NamedTensor, RunTerms,
    Stop, Tensor,
};

use super::{
    merge::{gather, scatter, wanted, whole},
    rerun::{Again, Attempt, Attempts, Moved, Repeat, Reruns, Standing, Wish, in_halves},
    run_context::RunContext,
    slot::{Missed, RunFailure, Slot},
    work::{Done, Work, in_order},
};
use inference::{error::Error, timings::Timings};
use telemetry::metrics::{BatchReason, ModelMetrics};

/// Counts and logs executions of a model.
pub(super) fn observe(times: &[Timings], reason: BatchReason, model: &str, metrics: &ModelMetrics) {
    for it in times {
        metrics.execution(it, reason);
        let us = it.infer.as_micros();
        tracing::debug!(model, rows = it.batch_rows, reason = reason.name(), us, "batch");
    }
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

/// The jobs of one run.
#[derive(Clone, Copy)]
pub struct Jobs<'a> {
    /// What they bring.
    pub works: &'a [&'a Work],
    /// What is known of them.
    pub standing: Standing,
    /// Who still waits for their answers, by their places. Asked after a failure only.
    pub wishes: &'a dyn Fn(usize) -> Wish,
}

/// Runs the jobs as one batch and returns one answer per job, in their order. `observe` is called for
/// every execution that succeeds, and for each that the memory did not suffice for.
///
/// When a batch of several fails it is run again in halves, until each failing job is alone: at most
/// `2 · log2(jobs)` extra executions for one culprit. Only the culprit gets the error. A job of several
/// rows that the memory does not suffice for is run in halves, too. An instance that panicked is dropped and made anew.
/// Where the model's configuration says that nothing is run again, all jobs of a run that fails get its error. So does
/// a job whose answer has begun to go out. What is run again ends by the deadlines of those that are in it, and only
/// what somebody waits for is.
pub fn run(
    slot: &mut Slot,
    context: &RunContext,
    jobs: Jobs<'_>,
    stop: &Stop,
    observe: &mut dyn FnMut(Execution<'_>),
) -> Vec<Result<Done, Error>> {
    let Jobs { works: jobs, standing, wishes: still_wished } = jobs;
    // Of what has been sent nothing is sent again.
    let wishes = &|place: usize| match jobs.get(place).is_some_and(|it| it.has_begun()) {
        true => Wish::Gone,
        false => still_wished(place),
    };
    let missed = if standing.moves { Missed::Moves } else { Missed::Waits };
    let attempt = |attempt: Attempt<'_, &Work>| {
        let Attempt { items: group, alone, again } = attempt;
        // Parts of a batch that has failed have been counted with it; a process that is new has seen none of them.
        let is_new = alone || group.len() == jobs.len();
        let terms = RunTerms { alone, requests: if is_new { group.len() } else { 0 }, wide: false };
        end_with(again, stop);
        let done = slot.call(terms, missed, stop, |instance| {
            // It may have waited for a process until now.
            if again.is_some_and(|it| it.wish() == Wish::Gone) {
                return Err(BackendError::Execute("nobody waits for the run any more".into()));
            }
            execute(instance, context, group, stop, observe)
        });
        if is_out_of_memory(&done) {
            observe(Execution::RanOut(group.iter().map(|it| it.rows).sum()));
        }
        done
    };
    let policy = context.rerun;
    let repeats = |failure: &RunFailure| Repeat::after(failure, policy, stop);
    let Attempts { answers, reruns, killers, moved } =
        in_halves(jobs, standing, wishes, repeats, attempt);
    // A request that its model has refused is answered: nothing is run again for it.
    let mut answers: Vec<_> = answers.into_iter().map(Result::flatten).collect();
    if reruns != Reruns::default() {
        observe(Execution::Reran(reruns));
    }
    killers.into_iter().for_each(|it| observe(Execution::KilledTwice(it)));
    let may_move = |it: &Moved| jobs.get(it.place).is_none_or(|it| !it.has_begun());
    moved.into_iter().filter(may_move).for_each(|it| observe(Execution::Left(it)));
    for (place, (job, answer)) in jobs.iter().zip(&mut answers).enumerate() {
        let is_cut = 1 < job.rows && context.splits.load(Relaxed) && policy.allows_reruns();
        if !is_cut || job.has_begun() || !lacks_memory(answer) {
            continue;
        }
        let again = Again::of(std::slice::from_ref(&place), wishes);
        if again.wish() != Wish::Gone {
            end_with(Some(again), stop);
            *answer = run_rows(slot, context, job, stop, observe);
        }
    }
    answers
}

/// An attempt that is not the first ends by the deadlines of those that are in it.
fn end_with(again: Option<Again<'_>>, stop: &Stop) {
    if let Some(Wish::Until(deadline)) = again.map(|it| it.wish()) {
        stop.end_by(deadline);
    }
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
        let done = slot.call(terms, Missed::Waits, stop, |instance| {
            execute(instance, context, &[&part], stop, observe)
        });
        if is_out_of_memory(&done) {
            observe(Execution::RanOut(rows));
            if 1 < rows && !stop.is_over() {
                let half = rows / 2;
                parts.extend([(from + half, rows - half), (from, half)]);
                continue;
            }
        }
        match done {
            Ok(done) => {
                for it in done {
                    answers.push(it?);
                }
            }
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
    Some(Done { outputs, parameters: Vec::new(), timings, again: false })
}

fn execute(
    instance: &mut dyn Instance,
    context: &RunContext,
    jobs: &[&Work],
    stop: &Stop,
    observe: &mut dyn FnMut(Execution<'_>),
) -> Result<Vec<Result<Done, Error>>, BackendError> {
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
    let batch = Batch { inputs, outputs, rows, signature, stop };
    let results = match context.answers_calls {
        false => Results::Whole(instance.execute(&batch)?),
        true => Results::Calls(instance.execute_calls(&batch, &calls(jobs))?),
    };
    let ran = Instant::now();
    // What it has waited for a process to run in is not the model's time.
    let running = ran.min(running + stop.waited(ran).saturating_sub(waited_before));
    let mut timings = Timings {
        started,
        queue: Duration::ZERO,
        prepare: Duration::ZERO,
        rows: Duration::ZERO,
        input: running - started,
        infer: ran - running,
        output: Duration::ZERO,
        batch_rows: rows,
        turn: instance.last_turn(),
    };
    let mut answers = results.answers(context, jobs, timings)?;
    timings.output = ran.elapsed();
    answers.iter_mut().flatten().for_each(|it| it.timings = timings);
    observe(Execution::Ran(&timings));
    Ok(answers)
}

/// What an instance has given for a batch.
enum Results {
    /// The outputs of the whole batch.
    Whole(Vec<NamedTensor>),
    /// What each of its requests is answered.
    Calls(Vec<Result<CallAnswer, CallError>>),
}

impl Results {
    /// What each job gets of it, in their order, from a run that took that time.
    fn answers(
        self,
        context: &RunContext,
        jobs: &[&Work],
        timings: Timings,
    ) -> Result<Vec<Result<Done, Error>>, BackendError> {
        let of_outputs =
            |outputs| Ok(Done { outputs, parameters: Vec::new(), timings, again: false });
        match self {
            Results::Whole(results) => match whole(context, jobs, results, timings.batch_rows) {
                Ok(share) => Ok(vec![of_outputs(share)]),
                Err(results) => {
                    let shares = scatter(context, jobs, &results, timings.batch_rows)?;
                    Ok(shares.into_iter().map(of_outputs).collect())
                }
            },
            Results::Calls(answers) if answers.len() != jobs.len() => {
                let (given, expected) = (answers.len(), jobs.len());
                Err(BackendError::Execute(format!(
                    "the engine returned {given} answers to a run of {expected} requests"
                )))
            }
            Results::Calls(answers) => {
                let done = |it: CallAnswer| {
                    let CallAnswer { outputs, parameters, again } = it;
                    Done { outputs, parameters, timings, again }
                };
                let answers = jobs.iter().zip(answers).map(|(job, it)| of_call(job, it));
                Ok(answers.map(|it| it.map(done)).collect())
            }
        }
    }
}

/// The jobs as a model's own code is told of them.
fn calls<'a>(jobs: &[&'a Work]) -> Vec<Call<'a>> {
    let call = |it: &&'a Work| Call {
        rows: it.rows,
        outputs: &it.outputs,
        about: it.about.as_deref(),
        parts: it.parts.as_ref(),
    };
    jobs.iter().map(call).collect()
}

/// What a job gets of its model's own answer.
fn of_call(job: &Work, answer: Result<CallAnswer, CallError>) -> Result<CallAnswer, Error> {
    let answer = answer.map_err(refused)?;
    Ok(CallAnswer { outputs: in_order(&job.outputs, answer.outputs), ..answer })
}

/// The error of a request that a model's own code has refused.
pub fn refused(error: CallError) -> Error {
    let CallError { code, text } = error;
    match code {
        CallCode::Internal => BackendError::Execute(text).into(),
        CallCode::InvalidArg => Error::InvalidRequest(text),
        CallCode::Unknown => Error::Unknown(text),
        CallCode::Cancelled => Error::Cancelled(text),
        CallCode::NotFound => Error::NotFound(text),
        CallCode::Unavailable => Error::Unavailable(text),
        CallCode::Unsupported => Error::Unimplemented(text),
        CallCode::AlreadyExists => Error::AlreadyExists(text),
    }
}

#[cfg(test)]
mod tests;
