//! A model's sequence batching in the terms of the scheduler.

use std::path::Path;

use backend::{DataType, RerunPolicy, Shape, Tensor};

use crate::load::{
    load_error::LoadError,
    load_settings::LoadSettings,
    queue_settings::{niceness, run_limit},
};
use schedule::{
    admission::LongestStay,
    sequence::{ImplicitState, SequenceSettings, Wiring},
};
use serving::{
    config::{
        model::{ModelConfig, Rows},
        sequence_batching::{SequenceBatching, StateConfig},
    },
    made_tensors,
};

/// What the model gets beside the inputs of a request. `dir` is the model's directory. Blocking.
///
/// # Errors
/// When a file with an initial state cannot be read, or does not hold one.
pub(crate) fn wiring(
    config: &ModelConfig,
    batching: &SequenceBatching,
    dir: &Path,
) -> Result<Wiring, LoadError> {
    let batches = config.rows() == Rows::First;
    let states = batching.states.iter().map(|it| {
        let batch = batches.then_some(1);
        let shape: Shape = batch.into_iter().chain(it.initial_dims.iter().copied()).collect();
        let initial = initial(it, shape, dir)
            .map_err(|problem| format!("initial_state of state '{}': {problem}", it.input))?;
        Ok(ImplicitState { input: it.input.clone(), output: it.output.clone(), initial })
    });
    let states = states.collect::<Result<_, LoadError>>()?;
    let (controls, hashes) = (batching.controls.clone(), Default::default());
    Ok(Wiring { batches, controls, states, hashes })
}

fn initial(state: &StateConfig, shape: Shape, dir: &Path) -> Result<Tensor, LoadError> {
    let zeros = made_tensors::zeros(state.dtype, &shape).map_err(|it| it.to_string())?;
    let Some(file) = &state.initial_file else { return Ok(zeros) };
    let path = dir.join("initial_state").join(file);
    let mut data =
        backend::read_file(&path).map_err(|it| format!("cannot read {}: {it}", path.display()))?;
    // As in Triton, a file may hold more than is needed.
    if state.dtype != DataType::Bytes {
        data.truncate(zeros.byte_len());
    }
    let tensor = Tensor::new(state.dtype, shape, data.into());
    tensor.map_err(|it| format!("{}: {it}", path.display()).into())
}

/// How this model's sequences are scheduled.
pub(crate) fn settings(
    config: &ModelConfig,
    batching: &SequenceBatching,
    wiring: Wiring,
    (engine_keeps_state, answers_calls): (bool, bool),
    server: &LoadSettings,
) -> SequenceSettings {
    SequenceSettings {
        model: config.name.as_str().into(),
        strategy: batching.strategy.clone(),
        idle: batching.idle,
        longest_backlog: match server.scheduling.longest_stay {
            LongestStay::Fixed(longest) => Some(longest),
            LongestStay::Auto | LongestStay::Unbounded => server.defaults.queue_timeout,
        },
        wiring,
        seats: batching.seats,
        run_limit: run_limit(config, server),
        watchdog: server.watchdog.clone(),
        busy: server.busy.clone(),
        niceness: niceness(config.priority),
        rerun: RerunPolicy::default(),
        engine_keeps_state,
        answers_calls,
        iterates: batching.iterates,
        hold: server.scheduling.hold,
        hold_backlog: server.scheduling.hold_backlog,
    }
}
