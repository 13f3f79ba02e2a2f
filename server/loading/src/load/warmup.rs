//! The first runs of an instance, before a request waits for them: they pay for what engines put off, and teach
//! how fast the model is.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    path::Path,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, DataType, Instance, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use crate::load::{extra_inputs::ExtraInputs, run_limit::RunLimit, usual_size::UsualSize};
use inference::signature::Signature;
use schedule::{learn::RunTimes, work::Work};
use serving::{
    config::model::{ModelConfig, Rows, Warmup, WarmupData, WarmupInput},
    made_tensors::{self, request_of_zeros},
    validate::prepare,
};

/// Runs with a made-up request.
const RUNS: usize = 4;

/// No further such run once these have taken so long.
const BUDGET: Duration = Duration::from_millis(200);

/// What is run beside the configured samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess {
    /// Nothing: the model keeps state.
    Nothing,
    /// A request of zeros, as small as it can be.
    Least,
}

/// A run of the usual size is made twice where the first is shorter: the first of a size takes longer.
const SHORT: Duration = Duration::from_millis(100);

/// It is not made where the least request already takes so long.
const SLOW: Duration = Duration::from_millis(10);

/// It is stopped after so long, as it is only a guess that requests are of that size.
const LONGEST_USUAL: Duration = Duration::from_secs(5);

/// What an instance is warmed with.
pub(crate) struct Warming<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) config: &'a ModelConfig,
    /// The model's directory.
    pub(crate) dir: &'a Path,
    /// Inputs that requests do not bring.
    pub(crate) extra: &'a ExtraInputs,
    /// What is run beside the configured samples.
    pub(crate) guess: Guess,
    /// Bounds the runs.
    pub(crate) limit: &'a RunLimit,
}

impl Warming<'_> {
    /// Warms an instance.
    ///
    /// # Errors
    /// When a configured sample cannot be run, or the device cannot be used. A made-up request that fails otherwise
    /// only teaches nothing: the model may have good reasons to refuse it.
    pub(crate) fn warm(&self, instance: &mut dyn Instance) -> Result<RunTimes, BackendError> {
        let Warming { signature, config, dir, guess, limit, .. } = *self;
        for sample in &config.warmups {
            let in_sample = |problem: String| {
                BackendError::Load(format!("model_warmup '{}': {problem}", sample.name))
            };
            let work = sample_work(sample, signature, config, dir).map_err(in_sample)?;
            for _ in 0..sample.count {
                let run = self.execute(instance, &work, limit);
                limit.check()?;
                run.map_err(|it| match it {
                    // The sample has no part in it.
                    BackendError::Device(_)
                    | BackendError::OutOfMemory(_)
                    | BackendError::Busy(_)
                    | BackendError::Crashed(_)
                    | BackendError::Unavailable(_) => it,
                    it => in_sample(it.to_string()),
                })?;
            }
        }
        let mut times = RunTimes::default();
        let zeros = request_of_zeros(signature, 1).filter(|_| guess != Guess::Nothing);
        let Some(work) =
            zeros.and_then(|mut it| prepare(&mut it, signature, config, &RandomState::new()).ok())
        else {
            return Ok(times);
        };
        let started = Instant::now();
        for run in 0..RUNS {
            let began = Instant::now();
            let outcome = self.execute(instance, &work.work, limit);
            limit.check()?;
            if let Err(error) = outcome {
                if let BackendError::Device(_) | BackendError::Crashed(_) = error {
                    return Err(error);
                }
                tracing::debug!(model = %signature.model, %error, "cannot warm up with zeros");
                break;
            }
            let last = run + 1 == RUNS || BUDGET < started.elapsed();
            // Only the last run is like those to come.
            if last {
                times.record(1, began.elapsed());
                break;
            }
        }
        Ok(times)
    }

    /// Warms an instance in a process of its own, and runs a request of the usual size, which tells whether the model
    /// is in the right place. That size is a guess: where the run ends the process, `another` instance is warmed
    /// without it. The one that is warm.
    ///
    /// # Errors
    /// Those of [`Warming::warm`], and of `another`.
    pub(crate) fn warm_to_place(
        &self,
        mut instance: Box<dyn Instance>,
        size: UsualSize,
        another: &dyn Fn() -> Result<Box<dyn Instance>, BackendError>,
    ) -> Result<(Box<dyn Instance>, RunTimes), BackendError> {
        let times = self.warm(&mut *instance)?;
        self.place(instance, times, size, another)
    }

    /// The same of an instance that is warm. It has these `times`.
    fn place(
        &self,
        mut instance: Box<dyn Instance>,
        times: RunTimes,
        size: UsualSize,
        another: &dyn Fn() -> Result<Box<dyn Instance>, BackendError>,
    ) -> Result<(Box<dyn Instance>, RunTimes), BackendError> {
        let Err(error) = self.run_usual(&mut *instance, size, &times) else {
            return Ok((instance, times));
        };
        tracing::warn!(
            model = %self.signature.model,
            "a run with a request of the usual size has ended its process, and it is loaded again without: {error}"
        );
        drop(instance);
        let mut instance = another()?;
        let times = self.warm(&mut *instance)?;
        Ok((instance, times))
    }

    /// Runs a request of the usual size, where the graph leaves sizes open. Not where `times` tell enough.
    ///
    /// # Errors
    /// When the instance is of no use any more: the run has ended its process, or its device. What else fails is only
    /// logged: no request need be of that size.
    fn run_usual(
        &self,
        instance: &mut dyn Instance,
        size: UsualSize,
        times: &RunTimes,
    ) -> Result<(), BackendError> {
        let Warming { signature, config, .. } = *self;
        let is_slow = times.mean(1).is_some_and(|it| SLOW <= it);
        let usual = size.request(signature).filter(|_| !is_slow);
        let usual =
            usual.and_then(|mut it| prepare(&mut it, signature, config, &RandomState::new()).ok());
        let Some(work) = usual else { return Ok(()) };
        let Ok(limit) = self.limit.at_most(LONGEST_USUAL) else { return Ok(()) };
        for _ in 0..2 {
            let began = Instant::now();
            let outcome = self.execute(instance, &work.work, &limit);
            match outcome.and_then(|()| limit.check()) {
                Ok(()) if SHORT < began.elapsed() => break,
                Ok(()) => (),
                Err(error @ (BackendError::Device(_) | BackendError::Crashed(_))) => {
                    return Err(error);
                }
                Err(error) => {
                    let model = &signature.model;
                    tracing::debug!(%model, %error, "cannot warm up with a request of the usual size");
                    break;
                }
            }
        }
        Ok(())
    }

    fn execute(
        &self,
        instance: &mut dyn Instance,
        work: &Work,
        limit: &RunLimit,
    ) -> Result<(), BackendError> {
        let inputs = &self.extra.inputs(work)?;
        let Work { outputs, rows, signature, .. } = work;
        let (rows, signature) = (*rows, *signature);
        instance.execute(&Batch { inputs, outputs, rows, signature, stop: limit.stop() }).map(drop)
    }
}

/// The request of a sample.
pub(crate) fn sample_work(
    sample: &Warmup,
    signature: &Signature,
    config: &ModelConfig,
    dir: &Path,
) -> Result<Work, String> {
    let inputs = sample.inputs.iter().map(|input| {
        let batch = (config.rows() == Rows::First).then_some(sample.rows);
        let shape: Shape = batch.into_iter().chain(input.dims.iter().copied()).collect();
        let tensor = sample_tensor(input, shape, batch.unwrap_or(1), dir)
            .map_err(|problem| format!("input '{}': {problem}", input.name))?;
        Ok(NamedTensor { name: input.name.clone(), tensor })
    });
    let inputs = inputs.collect::<Result<_, String>>()?;
    let mut request = inference::request::InferenceRequest { inputs, ..Default::default() };
    let prepared = prepare(&mut request, signature, config, &RandomState::new());
    prepared.map(|it| it.work).map_err(|it| it.to_string())
}

/// The sample's input for `rows` rows, each the same.
fn sample_tensor(
    input: &WarmupInput,
    shape: Shape,
    rows: usize,
    dir: &Path,
) -> Result<Tensor, String> {
    let zeros = made_tensors::zeros(input.dtype, &shape).map_err(|it| it.to_string())?;
    let data = match &input.data {
        WarmupData::Zero => return Ok(zeros),
        // Random strings would mean nothing to any model.
        WarmupData::Random if input.dtype == DataType::Bytes => return Ok(zeros),
        WarmupData::Random => random_bytes(zeros.byte_len(), input.dtype),
        WarmupData::File(file) => {
            let path = dir.join("warmup").join(file);
            let one =
                fs::read(&path).map_err(|it| format!("cannot read {}: {it}", path.display()))?;
            made_tensors::repeated(&one, rows).map_err(|it| it.to_string())?
        }
    };
    Tensor::new(input.dtype, shape, Bytes::from(data)).map_err(|it| it.to_string())
}

/// Bytes that are small numbers in every type: each element has one random low byte.
fn random_bytes(length: usize, dtype: DataType) -> Vec<u8> {
    let random = RandomState::new();
    let size = dtype.size().unwrap_or(1);
    let mut bytes = vec![0; length];
    for (at, element) in bytes.chunks_exact_mut(size).enumerate() {
        let value = (random.hash_one(at) & 1) as u8;
        match dtype {
            // The high bytes make a number between 0.5 and 2 of either float format.
            DataType::Fp32 => element.copy_from_slice(&(f32::from(value) + 0.5).to_le_bytes()),
            DataType::Fp64 => element.copy_from_slice(&(f64::from(value) + 0.5).to_le_bytes()),
            _ => {
                if let Some(low) = element.first_mut() {
                    *low = value;
                }
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;
    use inference::signature::Port;

    /// Fails so for inputs of more than one element.
    struct Fake {
        fails: Arc<dyn Fn() -> BackendError + Send + Sync>,
        large: Arc<AtomicUsize>,
    }

    impl Instance for Fake {
        fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
            if batch.inputs.iter().all(|it| it.tensor.elements() <= 1) {
                return Ok(batch.inputs.to_vec());
            }
            self.large.fetch_add(1, Relaxed);
            Err((self.fails)())
        }
    }

    /// How many instances are made, and how many runs of a usual request, which fails so, where the least takes `took`.
    fn warmed(
        took: Duration,
        fails: impl Fn() -> BackendError + Send + Sync + 'static,
    ) -> (usize, usize) {
        let port = |name: &str| Port {
            name: name.into(),
            dtype: DataType::Fp32,
            // The first is the batch.
            dims: vec![None, None],
            any_rank: false,
            scalar: false,
            optional: false,
            labels: Arc::default(),
            text_codes: Arc::default(),
        };
        let signature = Signature {
            takes_missing: false,
            model: "m".into(),
            version: 1,
            max_batch_size: 0,
            graph_checks_shapes: false,
            most_rows: None,
            inputs: vec![port("x")],
            outputs: vec![port("y")],
            on_request: Vec::new(),
            pipeline: None,
            named: None,
        };
        let config = crate::load::proof::tests::config_of(
            "input { name: 'x' data_type: TYPE_FP32 dims: [-1, -1] }
             output { name: 'y' data_type: TYPE_FP32 dims: [-1, -1] }",
        );
        let fails: Arc<dyn Fn() -> BackendError + Send + Sync> = Arc::new(fails);
        let (made, large): (AtomicUsize, Arc<AtomicUsize>) = Default::default();
        let make = || -> Result<Box<dyn Instance>, BackendError> {
            made.fetch_add(1, Relaxed);
            Ok(Box::new(Fake { fails: fails.clone(), large: large.clone() }))
        };
        let limit = RunLimit::start(None, backend::Device::Cpu).unwrap();
        let (dir, guess) = (Path::new("."), Guess::Least);
        let extra = &ExtraInputs::of(&config, dir).unwrap();
        let (signature, config, limit) = (&signature, &config, &limit);
        let warming = Warming { signature, config, dir, extra, guess, limit };
        let size = UsualSize::read(&Default::default(), [dir; 2]);
        // Given, as what is measured follows the machine's other work.
        let mut times = RunTimes::default();
        times.record(1, took);
        let mut instance = make().unwrap();
        assert!(warming.warm(&mut *instance).unwrap().mean(1).is_some());
        let (_, times) = warming.place(instance, times, size, &make).unwrap();
        assert!(times.mean(1).is_some());
        (made.load(Relaxed), large.load(Relaxed))
    }

    #[test]
    fn a_usual_run_that_ends_its_process_is_not_made_again_and_the_model_is_warm_without() {
        for fails in [BackendError::Crashed, BackendError::Device] {
            assert_eq!(warmed(Duration::ZERO, move || fails("it is gone".to_owned())), (2, 1));
        }
    }

    #[test]
    fn a_usual_run_that_fails_leaves_its_instance_as_it_is() {
        for fails in [BackendError::Execute, BackendError::OutOfMemory, BackendError::InvalidInput]
        {
            assert_eq!(warmed(Duration::ZERO, move || fails("not that".to_owned())), (1, 1));
        }
    }

    #[test]
    fn no_usual_run_is_made_where_the_least_is_slow() {
        assert_eq!(warmed(SLOW, || BackendError::Crashed("it is gone".to_owned())), (1, 0));
    }
}
