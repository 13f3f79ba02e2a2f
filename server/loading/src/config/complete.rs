//! Fills in what a configuration leaves out, checks the result, and compares it with the loaded model.

use std::time::Duration;

use backend::{EngineDescription, ModelSpec, TensorSpec};

use crate::config::{
    check::{
        check,
        report::{Report, name_of_folder},
        types::{type_name, type_number},
    },
    choose::{Completion, EngineChoice},
    engines::Engines,
    fit::{batches, begins_free, fit, warn_of_one_row},
    open_ranks::OpenRanks,
    planned_group::PlannedGroup,
    unbatch::unbatch,
    zero_sizes,
};
use serving::config::{
    model::{ConfigErrors, InstanceKind, ModelConfig, is_finding},
    raw::{
        ModelConfig as RawConfig, ModelDynamicBatching, ModelInput, ModelInstanceGroup,
        ModelOutput, ModelTensorReshape, ModelVersionPolicy,
        model_config::SchedulingChoice,
        model_instance_group::Kind,
        model_optimization_policy::PinnedMemoryBuffer,
        model_sequence_batching::StrategyChoice,
        model_version_policy::{Latest, PolicyChoice},
    },
    server_ports,
};

/// How long a sequence may be without a request where nothing is said, as in Triton.
const SEQUENCE_IDLE: Duration = Duration::from_secs(1);

/// The server's settings for what configurations leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// `max_batch_size` of a model that can batch and does not say
    /// (`--backend-config=default-max-batch-size=`, `--default-max-batch-size`, 4 by default).
    pub max_batch_size: usize,
    /// Are requests merged also where all else is written down? (`--default-dynamic-batching`)
    pub dynamic_batching: bool,
    /// Longest wait for company; zero for none.
    pub queue_delay: Duration,
    /// Requests that may wait; 0 for any number.
    pub max_queue_size: usize,
    /// May inputs, outputs and batching be taken from the model?
    pub completion: Completion,
    /// How long a sequence may be without a request.
    pub sequence_idle: Duration,
    /// What is known of the rows of the model's runs.
    pub rows: RowsKnown,
}

/// Does what a model answers for a row depend on the other rows of its run?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsKnown {
    /// No, as far as its shapes say.
    Independent,
    /// Perhaps: nothing is merged, and nothing is called a batch, unless it is written down.
    Dependent,
    /// Perhaps, but they are texts for which the first dimension is that of rows in any case: nothing is merged.
    OfTexts,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults {
            max_batch_size: 4,
            dynamic_batching: false,
            queue_delay: Duration::ZERO,
            max_queue_size: 0,
            completion: Completion::On,
            sequence_idle: SEQUENCE_IDLE,
            rows: RowsKnown::Independent,
        }
    }
}

/// A configuration, ready for use.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// As clients see it; `ConfigReader::to_json` shows it.
    pub raw: RawConfig,
    /// As the server uses it.
    pub config: ModelConfig,
    /// What is ignored, and why.
    pub warnings: Vec<String>,
}

impl Completed {
    /// Takes other groups and another policy into a configuration that was complete, and leaves the rest as it is.
    pub(crate) fn regroup(
        &mut self,
        groups: Vec<ModelInstanceGroup>,
        policy: Option<ModelVersionPolicy>,
        engines: &Engines,
    ) -> Result<(), ConfigErrors> {
        (self.raw.instance_group, self.raw.version_policy) = (groups, policy);
        fill_defaults(&mut self.raw);
        let mut report = Report::default();
        let open = OpenRanks::of_config(&self.config);
        let checked = check(&self.raw, engines, &open, &mut report);
        report.into_result(&self.raw.name, ())?;
        self.config.instance_groups = checked.instance_groups;
        self.config.version_policy = checked.version_policy;
        Ok(())
    }

    /// Shows clients what became of the instance groups, one by one.
    pub(crate) fn show_instances(&mut self, planned: &[Option<PlannedGroup>]) {
        for (group, planned) in self.raw.instance_group.iter_mut().zip(planned) {
            let Some(planned) = planned else { continue };
            group.set_kind(match planned.kind {
                InstanceKind::Auto => Kind::Auto,
                InstanceKind::Gpu => Kind::Gpu,
                InstanceKind::Cpu => Kind::Cpu,
                InstanceKind::Model => Kind::Model,
            });
            group.count = planned.count.try_into().unwrap_or(i32::MAX);
            group.gpus = planned.gpus.iter().filter_map(|it| i32::try_from(*it).ok()).collect();
        }
    }
}

/// Completes the configuration of `model`, the name of its folder. `spec` is what the engine says about the
/// loaded model; without it, inputs and outputs must be configured.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn complete(
    raw: Option<&RawConfig>,
    model: &str,
    choice: &EngineChoice,
    engines: &Engines,
    spec: Option<&ModelSpec>,
    defaults: &Defaults,
) -> Result<Completed, ConfigErrors> {
    let mut report = Report::default();
    let mut raw = raw.cloned().unwrap_or_default();
    name_of_folder(&mut raw, model, &mut report);
    raw.parameters.retain(|key, _| !is_finding(key));
    raw.platform.clone_from(&choice.platform);
    raw.backend.clone_from(&choice.backend);
    raw.default_model_filename = choice.default_model_filename.clone().unwrap_or_default();
    let engine = engines.description(&choice.backend);
    let mut open = OpenRanks::default();
    if let Some(spec) = spec.filter(|_| defaults.completion == Completion::On) {
        open = OpenRanks::of(&raw, spec);
        warn_of_one_row(spec, &raw, &mut report);
        rows_must_be_known(&raw, &open, spec, &mut report);
        fill_from_model(&mut raw, spec, engine, defaults);
    }
    fill_batching(&mut raw, engine, defaults);
    fill_defaults(&mut raw);
    fill_idle_time(&mut raw, defaults.sequence_idle);
    let mut config = check(&raw, engines, &open, &mut report);
    zero_sizes::check(&raw, spec, &mut report);
    match spec {
        Some(spec) if raw.max_batch_size() >= 0 => fit(&mut config, &raw, spec, &mut report),
        // What dimensions mean is not known.
        Some(_) => {}
        None => must_be_configured(&raw, engine, &mut report),
    }
    let ((raw, config), warnings) = report.into_result(model, (raw, config))?;
    Ok(Completed { raw, config, warnings })
}

fn must_be_configured(raw: &RawConfig, engine: &EngineDescription, report: &mut Report) {
    // Rows are counted by inputs.
    let may_lack_inputs = engine.may_lack_inputs && raw.max_batch_size() == 0;
    let missing =
        [("input", raw.input.is_empty() && !may_lack_inputs), ("output", raw.output.is_empty())];
    for (field, _) in missing.iter().filter(|(_, missing)| *missing) {
        report.problem(format!(
            "no {field} is configured, and the backend '{}' cannot tell it from the model; \
             write {field} {{ name: \"..\" data_type: .. dims: [ .. ] }}",
            raw.backend
        ));
    }
}

/// What a row of an input is cannot be said where the file does not say how many dimensions it has.
fn rows_must_be_known(raw: &RawConfig, open: &OpenRanks, spec: &ModelSpec, report: &mut Report) {
    let open = spec.inputs.iter().filter(|it| !it.optional && open.inputs.contains(&*it.name));
    for spec in open.filter(|_| 0 < raw.max_batch_size()) {
        report.problem(format!(
            "input '{}': the model's file does not say how many dimensions it has; write input {{ name: \"{}\" \
             data_type: {} dims: [ .. ] }}, and max_batch_size: 0 where dims name all of them",
            spec.name,
            spec.name,
            type_name(spec.dtype)
        ));
    }
}

/// Inputs, outputs and batching as the model has them, unless both inputs and outputs are configured.
fn fill_from_model(
    raw: &mut RawConfig,
    spec: &ModelSpec,
    engine: &EngineDescription,
    defaults: &Defaults,
) {
    let all_given = !raw.input.is_empty() && !raw.output.is_empty();
    if !all_given {
        let may_batch = raw.max_batch_size.is_none()
            && batches(spec, raw)
            && (!engine.shows_optional_inputs || spec.inputs.iter().all(begins_free))
            && !whole_shapes_given(raw, spec);
        // A graph that looks at shapes itself may do anything with them: what a row is has to be said.
        let is_whole = engine.graph_checks_shapes
            && raw.scheduling_choice.is_none()
            && !defaults.dynamic_batching;
        if may_batch && (is_whole || defaults.rows == RowsKnown::Dependent) {
            unbatch(raw, spec);
        } else if may_batch {
            raw.max_batch_size = Some(defaults.max_batch_size.try_into().unwrap_or(i32::MAX));
        }
        merge(raw, engine, defaults);
    }
    let batches = raw.max_batch_size() > 0;
    if raw.input.is_empty() {
        // Inputs with a default in the model may be configured; by themselves they are no part of it, unless the engine
        // says so. In old files every weight is one.
        let made = server_ports::input_names(raw);
        let is_shown = |it: &&TensorSpec| !it.optional || engine.shows_optional_inputs;
        let shown = spec.inputs.iter().filter(is_shown);
        let needed = shown.filter(|it| !made.contains(&&*it.name));
        raw.input = needed.map(|it| input(it, batches)).collect();
    }
    if raw.output.is_empty() {
        let kept = server_ports::output_names(raw);
        let shown = spec.outputs.iter().filter(|it| !kept.contains(&&*it.name));
        raw.output = shown.map(|it| output(it, batches)).collect();
    }
    fill_ports(raw, spec, batches);
}

/// Has requests merged, where that is possible and the configuration says nothing of it.
fn merge(raw: &mut RawConfig, engine: &EngineDescription, defaults: &Defaults) {
    let is_independent = engine.merges_by_default && defaults.rows == RowsKnown::Independent;
    let may_merge = raw.max_batch_size() > 1 && is_independent;
    if may_merge && raw.scheduling_choice.is_none() {
        let batching = ModelDynamicBatching::default();
        raw.scheduling_choice = Some(SchedulingChoice::DynamicBatching(batching));
    }
}

/// What the server's settings say of merging requests, where the configuration does not.
fn fill_batching(raw: &mut RawConfig, engine: &EngineDescription, defaults: &Defaults) {
    if defaults.dynamic_batching {
        merge(raw, engine, defaults);
    }
    let Some(SchedulingChoice::DynamicBatching(batching)) = &mut raw.scheduling_choice else {
        return;
    };
    if batching.max_queue_delay_microseconds == 0 {
        let delay = defaults.queue_delay.as_micros();
        batching.max_queue_delay_microseconds = delay.try_into().unwrap_or(u64::MAX);
    }
    let size = defaults.max_queue_size.try_into().unwrap_or(u32::MAX);
    let policy = &mut batching.default_queue_policy;
    if 0 < size && policy.as_ref().is_none_or(|it| it.max_queue_size == 0) {
        policy.get_or_insert_default().max_queue_size = size;
    }
}

/// Do the configured inputs, outputs or states include the batch dimension? Then the model is not to batch.
fn whole_shapes_given(raw: &RawConfig, spec: &ModelSpec) -> bool {
    let rank = |dims: &[i64], reshape: &Option<ModelTensorReshape>| {
        reshape.as_ref().map_or(dims.len(), |it| it.shape.len())
    };
    let inputs = raw.input.iter().map(|it| (&it.name, rank(&it.dims, &it.reshape)));
    let outputs = raw.output.iter().map(|it| (&it.name, rank(&it.dims, &it.reshape)));
    let whole = |(name, rank): (&String, usize)| {
        let mut specs = spec.inputs.iter().chain(&spec.outputs);
        specs.any(|it| *it.name == **name && it.dims.len() == rank)
    };
    let states = server_ports::sequence_batching(raw).into_iter().flat_map(|it| &it.state);
    let states = states.map(|it| (&it.input_name, it.dims.len()));
    inputs.chain(outputs).chain(states).any(whole)
}

/// Type and dimensions of inputs and outputs that are configured with less than that, such as a name and
/// a label file.
fn fill_ports(raw: &mut RawConfig, spec: &ModelSpec, batches: bool) {
    for port in &mut raw.input {
        let Some(spec) = spec.inputs.iter().find(|it| *it.name == *port.name) else { continue };
        let model = input(spec, batches);
        if port.data_type == 0 {
            port.data_type = model.data_type;
        }
        if port.dims.is_empty() {
            (port.dims, port.reshape) = (model.dims, model.reshape);
        }
    }
    for port in &mut raw.output {
        let Some(spec) = spec.outputs.iter().find(|it| *it.name == *port.name) else { continue };
        let model = output(spec, batches);
        if port.data_type == 0 {
            port.data_type = model.data_type;
        }
        if port.dims.is_empty() {
            (port.dims, port.reshape) = (model.dims, model.reshape);
        }
    }
}

fn input(spec: &TensorSpec, batches: bool) -> ModelInput {
    let (dims, reshape) = client_dims(spec, batches);
    let data_type = type_number(spec.dtype);
    let (name, optional) = (spec.name.to_string(), spec.optional);
    ModelInput { name, data_type, dims, reshape, optional, ..Default::default() }
}

fn output(spec: &TensorSpec, batches: bool) -> ModelOutput {
    let (dims, reshape) = client_dims(spec, batches);
    let data_type = type_number(spec.dtype);
    ModelOutput { name: spec.name.to_string(), data_type, dims, reshape, ..Default::default() }
}

/// The dimensions that clients see. A scalar becomes one element, as dims cannot be empty.
fn client_dims(spec: &TensorSpec, batches: bool) -> (Vec<i64>, Option<ModelTensorReshape>) {
    if spec.any_rank {
        // As clients see it; any number of dimensions will do.
        return (vec![-1], None);
    }
    let number = |it: &Option<usize>| it.map_or(-1, |it| i64::try_from(it).unwrap_or(i64::MAX));
    let dims: Vec<i64> = spec.dims.iter().skip(usize::from(batches)).map(number).collect();
    match (dims.is_empty(), batches) {
        (false, _) => (dims, None),
        (true, true) => (vec![1], Some(ModelTensorReshape::default())),
        (true, false) => (vec![1], None),
    }
}

fn fill_idle_time(raw: &mut RawConfig, idle: Duration) {
    if let Some(SchedulingChoice::SequenceBatching(batching)) = &mut raw.scheduling_choice
        && batching.max_sequence_idle_microseconds == 0
    {
        let idle = u64::try_from(idle.as_micros()).unwrap_or(u64::MAX);
        batching.max_sequence_idle_microseconds = idle;
    }
}

/// What Triton shows for everything else that is left out.
fn fill_defaults(raw: &mut RawConfig) {
    let most_rows = *raw.max_batch_size.get_or_insert(0);
    let latest = Latest { num_versions: 1 };
    raw.version_policy
        .get_or_insert(ModelVersionPolicy { policy_choice: Some(PolicyChoice::Latest(latest)) });
    if let Some(SchedulingChoice::DynamicBatching(batching)) = &mut raw.scheduling_choice
        && batching.preferred_batch_size.is_empty()
        && most_rows > 0
    {
        batching.preferred_batch_size = vec![most_rows];
    }
    if let Some(SchedulingChoice::SequenceBatching(batching)) = &mut raw.scheduling_choice
        && let Some(StrategyChoice::Oldest(oldest)) = &mut batching.strategy_choice
        && oldest.preferred_batch_size.is_empty()
        && most_rows > 0
    {
        oldest.preferred_batch_size = vec![most_rows];
    }
    if raw.instance_group.is_empty() {
        let group = ModelInstanceGroup { name: raw.name.clone(), ..Default::default() };
        raw.instance_group.push(group);
    }
    for (i, group) in raw.instance_group.iter_mut().enumerate() {
        if group.name.is_empty() {
            group.name = format!("{}_{i}", raw.name);
        }
    }
    let optimization = raw.optimization.get_or_insert_default();
    optimization.input_pinned_memory.get_or_insert(PinnedMemoryBuffer { enable: true });
    optimization.output_pinned_memory.get_or_insert(PinnedMemoryBuffer { enable: true });
}

#[cfg(test)]
mod tests;
