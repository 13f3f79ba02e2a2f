//! The first runs of an instance, before a request waits for them: they pay for what engines put off, and teach
//! how fast the model is.

use std::{
    fmt::Display,
    hash::{BuildHasher, RandomState},
    path::Path,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, DataType, Instance, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use crate::load::{extra_inputs::ExtraInputs, run_limit::RunLimit};
use inference::{error::Error, signature::Signature};
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
            let in_sample = |problem: &dyn Display| {
                BackendError::Load(format!("model_warmup '{}': {problem}", sample.name))
            };
            let work = sample_work(sample, signature, config, dir).map_err(|it| in_sample(&it))?;
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
                    it => in_sample(&it),
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
) -> Result<Work, Error> {
    let inputs = sample.inputs.iter().map(|input| {
        let batch = (config.rows() == Rows::First).then_some(sample.rows);
        let shape: Shape = batch.into_iter().chain(input.dims.iter().copied()).collect();
        let tensor = sample_tensor(input, shape, batch.unwrap_or(1), dir)?;
        Ok(NamedTensor { name: input.name.clone(), tensor })
    });
    let inputs = inputs.collect::<Result<_, Error>>()?;
    let mut request = inference::request::InferenceRequest { inputs, ..Default::default() };
    let prepared = prepare(&mut request, signature, config, &RandomState::new());
    prepared.map(|it| it.work)
}

/// The sample's input for `rows` rows, each the same.
fn sample_tensor(
    input: &WarmupInput,
    shape: Shape,
    rows: usize,
    dir: &Path,
) -> Result<Tensor, Error> {
    let wrong = |problem: &dyn Display| Error::input(&*input.name, problem);
    let zeros = made_tensors::zeros(input.dtype, &shape).map_err(|it| wrong(&it))?;
    let data = match &input.data {
        WarmupData::Zero => return Ok(zeros),
        // Random strings would mean nothing to any model.
        WarmupData::Random if input.dtype == DataType::Bytes => return Ok(zeros),
        WarmupData::Random => random_bytes(zeros.byte_len(), input.dtype),
        WarmupData::File(file) => {
            let path = dir.join("warmup").join(file);
            let one = backend::read_file(&path)
                .map_err(|it| wrong(&format_args!("cannot read {}: {it}", path.display())))?;
            made_tensors::repeated(&one, rows).map_err(|it| wrong(&it))?
        }
    };
    Tensor::new(input.dtype, shape, Bytes::from(data)).map_err(|it| wrong(&it))
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
