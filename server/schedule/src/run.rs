//! One execution: gather the jobs' tensors, run the instance, scatter its outputs; and when a batch fails,
//! find the culprit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, Device, Instance, NamedTensor, Stop, Tensor};

use super::{ragged::Ragged, ratelimit::Limited};
use inference::error::Error;
use telemetry::metrics::{BatchReason, Execution, ModelMetrics};

/// Makes one more instance of a model, warmed up. Blocking.
pub type MakeInstance = dyn Fn() -> Result<Box<dyn Instance>, BackendError> + Send + Sync;

/// The place of one instance. It is empty before its instance is needed, and after a panic.
pub struct Slot {
    instance: Option<Box<dyn Instance>>,
    make: Arc<MakeInstance>,
    device: Device,
    /// What its runs have to wait for.
    limited: Option<Arc<Limited>>,
    /// When its last run ended, if the next batch was ready by then: what passes from there to the next run
    /// keeps the next batch waiting as much as the run does.
    pub busy_since: Option<Instant>,
}

impl Slot {
    /// A place on the CPU without an instance yet.
    pub fn empty(make: Arc<MakeInstance>) -> Slot {
        Slot::empty_on(Device::Cpu, make)
    }

    /// A place without an instance yet, where `make` puts one on that device.
    pub fn empty_on(device: Device, make: Arc<MakeInstance>) -> Slot {
        Slot { instance: None, make, device, limited: None, busy_since: None }
    }

    /// Another place like this one, without an instance yet.
    pub fn another(&self) -> Slot {
        Slot { limited: self.limited.clone(), ..Slot::empty_on(self.device, self.make.clone()) }
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

    /// Is there an instance to run on?
    pub fn is_made(&self) -> bool {
        self.instance.is_some()
    }

    /// Makes the instance where there is none. A panic in its making is an error like any other. Blocking.
    pub fn fill(&mut self) -> Result<&mut dyn Instance, BackendError> {
        if self.instance.is_none() {
            self.instance = Some(caught(&*self.make)?);
        }
        match self.instance.as_deref_mut() {
            Some(instance) => Ok(instance),
            None => Err(BackendError::Execute("the instance is gone".into())),
        }
    }
}

impl Slot {
    /// Calls the instance, made where there is none; one that panics is lost. Blocking.
    pub(super) fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Instance) -> Result<T, BackendError>,
    ) -> Result<T, Failure> {
        let instance = self.fill().map_err(Failure::NoInstance)?;
        let mut panicked = true;
        let outcome = caught(|| {
            let outcome = call(instance);
            panicked = false;
            outcome
        });
        if panicked {
            self.instance = None;
        }
        outcome.map_err(Failure::Batch)
    }
}

/// What one request brings to a batch.
#[derive(Debug, Clone)]
pub struct Work {
    /// Inputs in the order of the model's signature, in the engine's shapes. Jobs of one batch bring the
    /// same ones.
    pub inputs: Vec<NamedTensor>,
    /// Wanted outputs, in the order of the reply; never empty.
    pub outputs: Vec<Arc<str>>,
    /// Rows in the first dimension of every input; 1 without a batch dimension.
    pub rows: usize,
}

/// A request's share of what came out.
#[derive(Debug)]
pub struct Done {
    /// The wanted outputs, in the wanted order.
    pub outputs: Vec<NamedTensor>,
    /// Where the time of the execution went.
    pub times: RunTime,
}

/// Where the time of one execution went.
#[derive(Debug, Clone, Copy)]
pub struct RunTime {
    /// When the job left the queue.
    pub started: Instant,
    /// Listing the inputs.
    pub gather: Duration,
    /// Inside the engine.
    pub execute: Duration,
    /// Cutting up the outputs.
    pub scatter: Duration,
    /// Rows of the whole batch.
    pub rows: usize,
}

/// Counts and logs executions of a model.
pub(super) fn observe(times: &[RunTime], reason: BatchReason, model: &str, metrics: &ModelMetrics) {
    for it in times {
        metrics.execution(Execution {
            rows: it.rows,
            input: it.gather,
            infer: it.execute,
            output: it.scatter,
            reason,
        });
        let us = it.execute.as_micros();
        tracing::debug!(model, rows = it.rows, reason = reason.name(), us, "batch");
    }
}

/// What every execution of one model needs to know.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Is the first dimension of every tensor the batch?
    pub batches: bool,
    /// Names of all outputs of the model.
    pub outputs: Vec<Arc<str>>,
    /// How batches are put together whose requests differ in shape; `None` where they do not.
    pub ragged: Option<Arc<Ragged>>,
}

/// The outcome of one attempt, before anybody is blamed.
pub(super) enum Failure {
    /// The engine refused the batch, panicked, or gave back something that is no answer.
    Batch(BackendError),
    /// There is no instance to run on.
    NoInstance(BackendError),
}

/// Runs the jobs as one batch and returns one answer per job, in their order. `observe` is called for
/// every execution that succeeds.
///
/// When a batch of several fails it is run again in halves, until each failing job is alone: at most
/// `2 · log2(jobs)` extra executions for one culprit. Only the culprit gets the error. An instance that
/// panicked is dropped and made anew.
pub fn run(
    slot: &mut Slot,
    context: &RunContext,
    jobs: &[&Work],
    stop: &Stop,
    observe: &mut dyn FnMut(&RunTime),
) -> Vec<Result<Done, Error>> {
    let mut answers = Vec::with_capacity(jobs.len());
    // Halves still to run, the leftmost on top, so that answers come in order.
    let mut groups = vec![jobs];
    while let Some(group) = groups.pop() {
        match attempt(slot, context, group, stop, observe) {
            Ok(done) => answers.extend(done.into_iter().map(Ok)),
            Err(Failure::Batch(_)) if 1 < group.len() && !stop.is_stopped() => {
                let (left, right) = group.split_at(group.len() / 2);
                groups.extend([right, left]);
            }
            Err(Failure::Batch(error) | Failure::NoInstance(error)) => {
                answers.extend(group.iter().map(|_| Err(Error::Backend(error.clone()))));
            }
        }
    }
    answers
}

fn attempt(
    slot: &mut Slot,
    context: &RunContext,
    jobs: &[&Work],
    stop: &Stop,
    observe: &mut dyn FnMut(&RunTime),
) -> Result<Vec<Done>, Failure> {
    slot.call(|instance| execute(instance, context, jobs, stop, observe))
}

/// Calls the engine; its panic becomes an error.
fn caught<T>(call: impl FnOnce() -> Result<T, BackendError>) -> Result<T, BackendError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(BackendError::Execute(format!("the engine panicked: {text}")))
    })
}

fn execute(
    instance: &mut dyn Instance,
    context: &RunContext,
    jobs: &[&Work],
    stop: &Stop,
    observe: &mut dyn FnMut(&RunTime),
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
    let results = instance.execute(&Batch { inputs, outputs, rows, stop })?;
    let ran = Instant::now();
    let mut shares = scatter(context, jobs, &results, rows)?;
    let times = RunTime {
        started,
        gather: running - started,
        execute: ran - running,
        scatter: ran.elapsed(),
        rows,
    };
    observe(&times);
    Ok(shares.drain(..).map(|outputs| Done { outputs, times }).collect())
}

/// The jobs' inputs one below the other. Lists buffers, copies nothing.
fn gather(context: &RunContext, jobs: &[&Work]) -> Result<Vec<NamedTensor>, BackendError> {
    if let Some(ragged) = &context.ragged {
        return ragged.gather(jobs);
    }
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    let columns = first.inputs.iter().enumerate().map(|(at, input)| {
        let parts = jobs.iter().filter_map(|it| it.inputs.get(at)).map(|it| &it.tensor);
        let tensor = Tensor::concat(parts).ok_or_else(|| {
            BackendError::Execute(format!("input '{}' differs inside the batch", input.name))
        })?;
        Ok(NamedTensor { name: input.name.clone(), tensor })
    });
    columns.collect()
}

/// The outputs that at least one job wants, in the model's order.
fn wanted(context: &RunContext, jobs: &[&Work]) -> Vec<Arc<str>> {
    let is_wanted = |name: &&Arc<str>| jobs.iter().any(|it| it.outputs.contains(name));
    context.outputs.iter().filter(is_wanted).cloned().collect()
}

/// Each job's rows of the outputs that it wants.
fn scatter(
    context: &RunContext,
    jobs: &[&Work],
    results: &[NamedTensor],
    rows: usize,
) -> Result<Vec<Vec<NamedTensor>>, BackendError> {
    let scattered = scattered(context, jobs, results)?;
    let mut start = 0;
    let mut shares = Vec::with_capacity(jobs.len());
    for (at, job) in jobs.iter().enumerate() {
        let share = job.outputs.iter().map(|name| {
            if let Some((_, parts)) = scattered.iter().find(|(it, _)| it == name)
                && let Some(part) = parts.get(at)
            {
                return Ok(part.clone());
            }
            let whole = results.iter().find(|it| it.name == *name).ok_or_else(|| {
                BackendError::Execute(format!("the engine did not return output '{name}'"))
            })?;
            if !context.batches {
                return Ok(whole.clone());
            }
            let given = whole.tensor.shape().rows();
            let part =
                if given == Some(rows) { whole.tensor.slice_rows(start, job.rows) } else { None };
            let tensor = part.ok_or_else(|| {
                BackendError::Execute(format!(
                    "the engine returned output '{name}' of shape {} for a batch of {rows} rows",
                    whole.tensor.shape()
                ))
            })?;
            Ok(NamedTensor { name: whole.name.clone(), tensor })
        });
        shares.push(share.collect::<Result<_, BackendError>>()?);
        start += job.rows;
    }
    Ok(shares)
}

/// An output that is cut up by the shapes of an input: its name, and one part for each job.
type Scattered = (Arc<str>, Vec<NamedTensor>);

/// The outputs that are.
fn scattered(
    context: &RunContext,
    jobs: &[&Work],
    results: &[NamedTensor],
) -> Result<Vec<Scattered>, BackendError> {
    let Some(ragged) = &context.ragged else { return Ok(Vec::new()) };
    let outputs = results.iter().filter_map(|it| Some((it, ragged.source_of(&it.name)?)));
    let parts =
        outputs.map(|(it, source)| Ok((it.name.clone(), ragged.scatter(it, source, jobs)?)));
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Shape;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Doubles `x` into `y`; refuses a batch that holds the number 13; panics at 666.
    struct Doubler {
        runs: Arc<AtomicUsize>,
    }

    impl Instance for Doubler {
        fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
            self.runs.fetch_add(1, Ordering::Relaxed);
            let bytes = batch.inputs[0].tensor.to_bytes();
            let values: Vec<i32> = bytes
                .chunks_exact(4)
                .map(|it| i32::from_le_bytes(it.try_into().unwrap()))
                .collect();
            assert!(!values.contains(&666), "the number of the beast");
            if values.contains(&13) {
                return Err(BackendError::Execute("unlucky".into()));
            }
            let doubled: Vec<i32> = values.iter().map(|it| it * 2).collect();
            let tensor = Tensor::from_vec(batch.inputs[0].tensor.shape().clone(), doubled).unwrap();
            Ok(vec![NamedTensor { name: "y".into(), tensor }])
        }
    }

    fn work(values: &[i32]) -> Work {
        let tensor = Tensor::from_vec(Shape::new(&[values.len()]), values.to_vec()).unwrap();
        let inputs = vec![NamedTensor { name: "x".into(), tensor }];
        Work { inputs, outputs: vec!["y".into()], rows: values.len() }
    }

    fn slot_of(runs: &Arc<AtomicUsize>) -> Slot {
        let runs = runs.clone();
        Slot::empty(Arc::new(move || Ok(Box::new(Doubler { runs: runs.clone() }))))
    }

    /// Runs jobs of these values; the answers (`None` for an error) and the number of runs made.
    fn run_all(jobs: &[&[i32]]) -> (Vec<Option<Vec<i32>>>, usize) {
        let works: Vec<Work> = jobs.iter().map(|it| work(it)).collect();
        let works: Vec<&Work> = works.iter().collect();
        let context = RunContext { batches: true, outputs: vec!["y".into()], ragged: None };
        let runs = Arc::new(AtomicUsize::new(0));
        let answers = run(&mut slot_of(&runs), &context, &works, &Stop::new(), &mut |_| ());
        let values = |done: Done| {
            let bytes = done.outputs[0].tensor.to_bytes();
            bytes.chunks_exact(4).map(|it| i32::from_le_bytes(it.try_into().unwrap())).collect()
        };
        let answers = answers.into_iter().map(|it| it.ok().map(values)).collect();
        (answers, runs.load(Ordering::Relaxed))
    }

    #[test]
    fn each_job_gets_its_own_rows() {
        let (answers, runs) = run_all(&[&[1], &[2, 3], &[4]]);
        assert_eq!(answers, [Some(vec![2]), Some(vec![4, 6]), Some(vec![8])]);
        assert_eq!(runs, 1);
    }

    #[test]
    fn only_the_culprit_of_a_failing_batch_gets_the_error() {
        let jobs: Vec<[i32; 1]> = (8..24).map(|it| [it]).collect();
        let jobs: Vec<&[i32]> = jobs.iter().map(|it| it.as_slice()).collect();
        let (answers, runs) = run_all(&jobs);
        for (job, answer) in jobs.iter().zip(answers) {
            assert_eq!(answer, (job[0] != 13).then(|| vec![job[0] * 2]));
        }
        assert!(runs <= 1 + 2 * 4, "{runs} runs for 16 jobs");
    }

    #[test]
    fn a_panic_is_the_culprits_error_and_costs_nobody_else() {
        let (answers, _) = run_all(&[&[1], &[666], &[2]]);
        assert_eq!(answers, [Some(vec![2]), None, Some(vec![4])]);
    }

    #[test]
    fn a_stopped_batch_is_not_tried_again() {
        let (one, two) = (work(&[13]), work(&[1]));
        let context = RunContext { batches: true, outputs: vec!["y".into()], ragged: None };
        let (runs, stop) = (Arc::new(AtomicUsize::new(0)), Stop::new());
        stop.stop();
        run(&mut slot_of(&runs), &context, &[&one, &two], &stop, &mut |_| ());
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn without_an_instance_everybody_hears_why() {
        let mut slot = Slot::empty(Arc::new(|| Err(BackendError::OutOfMemory("no room".into()))));
        let context = RunContext { batches: true, outputs: vec!["y".into()], ragged: None };
        let answers = run(&mut slot, &context, &[&work(&[1])], &Stop::new(), &mut |_| ());
        assert_eq!(answers[0].as_ref().unwrap_err().to_string(), "no room");
    }

    #[test]
    fn a_panic_in_the_making_of_an_instance_is_an_error() {
        let mut slot = Slot::empty(Arc::new(|| panic!("no luck")));
        let error = slot.fill().err().unwrap();
        assert_eq!(error.to_string(), "the engine panicked: no luck");
    }

    /// Returns one row whatever the batch.
    struct OneRow;

    impl Instance for OneRow {
        fn execute(&mut self, _: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
            let tensor = Tensor::from_vec(Shape::new(&[1]), vec![0i32]).unwrap();
            Ok(vec![NamedTensor { name: "y".into(), tensor }])
        }
    }

    #[test]
    fn an_output_with_other_rows_than_the_batch_is_an_error_that_says_so() {
        let context = RunContext { batches: true, outputs: vec!["y".into()], ragged: None };
        let work = work(&[1, 2]);
        let mut slot = Slot::empty(Arc::new(|| Ok(Box::new(OneRow))));
        let answers = run(&mut slot, &context, &[&work], &Stop::new(), &mut |_| ());
        let text = answers[0].as_ref().unwrap_err().to_string();
        assert_eq!(text, "the engine returned output 'y' of shape [1] for a batch of 2 rows");
    }
}
