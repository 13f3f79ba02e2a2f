//! What of a model its clients never see: inputs that the server makes, and outputs that it keeps. Pure.

use std::sync::Arc;

use backend::DataType;

use crate::config::raw::{
    ModelConfig as RawConfig, ModelSequenceBatching, model_config::SchedulingChoice,
};

/// An input that the server makes, or an output that it keeps, as the model must have it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerPort {
    /// Where the configuration names it.
    pub place: String,
    /// Its name in the model.
    pub name: Arc<str>,
    /// Element type.
    pub dtype: DataType,
    /// Its whole shape; `None` takes any size.
    pub dims: Vec<Option<usize>>,
}

/// All of them, of one model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerPorts {
    /// Inputs that the server makes.
    pub inputs: Vec<ServerPort>,
    /// Outputs that it keeps.
    pub outputs: Vec<ServerPort>,
}

/// The sequence batching of a configuration that has it.
pub fn sequence_batching(raw: &RawConfig) -> Option<&ModelSequenceBatching> {
    match &raw.scheduling_choice {
        Some(SchedulingChoice::SequenceBatching(it)) => Some(it),
        _ => None,
    }
}

/// Names of the inputs that the server makes.
pub fn input_names(raw: &RawConfig) -> Vec<&str> {
    let sequences = sequence_batching(raw);
    let controls = sequences.into_iter().flat_map(|it| &it.control_input).map(|it| &it.name);
    let states = sequences.into_iter().flat_map(|it| &it.state).map(|it| &it.input_name);
    let batch = raw.batch_input.iter().flat_map(|it| &it.target_name);
    controls.chain(states).chain(batch).map(String::as_str).collect()
}

/// Names of the outputs that it keeps.
pub fn output_names(raw: &RawConfig) -> Vec<&str> {
    let states = sequence_batching(raw).into_iter().flat_map(|it| &it.state);
    states.map(|it| it.output_name.as_str()).collect()
}
