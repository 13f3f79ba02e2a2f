//! Ragged batches: `allow_ragged_batch`, `batch_input`, `batch_output`.

use std::sync::Arc;

use backend::DataType;

use crate::config::check::{
    report::Report,
    types::{type_name, type_of_number},
};
use inference::signature::nearest;
use schedule::ragged::{BatchInput, BatchInputKind, BatchOutput, CountType, Ragged};
use serving::config::{
    model::PortConfig,
    raw::{
        BatchInput as RawInput, BatchOutput as RawOutput, ModelConfig as RawConfig,
        batch_input::Kind, batch_output::Kind as OutputKind,
    },
    server_ports::{ServerPort, ServerPorts, sequence_batching},
};

/// Reads everything about ragged batches; `None` where there is nothing. What is made is added to `made`, and outputs
/// that are scattered are marked in `outputs`.
pub(super) fn ragged(
    raw: &RawConfig,
    inputs: &[PortConfig],
    outputs: &mut [PortConfig],
    made: &mut ServerPorts,
    report: &mut Report,
) -> Option<Ragged> {
    let flat: Vec<Arc<str>> =
        inputs.iter().filter(|it| it.ragged).map(|it| it.name.clone()).collect();
    if flat.is_empty() && raw.batch_input.is_empty() && raw.batch_output.is_empty() {
        return None;
    }
    if sequence_batching(raw).is_some() {
        report.problem(
            "sequence_batching excludes allow_ragged_batch, batch_input and batch_output: requests of sequences share a \
             run only if their shapes are equal",
        );
    }
    let mut batch_inputs = Vec::with_capacity(raw.batch_input.len());
    for (i, it) in raw.batch_input.iter().enumerate() {
        let place = format!("batch_input[{i}]");
        let Some(input) = batch_input(&place, raw, it, report) else { continue };
        let rank =
            inputs.iter().find(|it| it.name == input.source).map(|it| it.engine_dims().len());
        let dims = match input.kind {
            BatchInputKind::ItemShape => vec![None, rank],
            _ => vec![None],
        };
        let dtype = input.dtype.dtype();
        let port = |name: &Arc<str>| ServerPort {
            place: place.clone(),
            name: name.clone(),
            dtype,
            dims: dims.clone(),
        };
        made.inputs.extend(input.targets.iter().map(port));
        batch_inputs.push(input);
    }
    let mut batch_outputs: Vec<BatchOutput> = Vec::with_capacity(raw.batch_output.len());
    for (i, it) in raw.batch_output.iter().enumerate() {
        let place = format!("batch_output[{i}]");
        let Some(output) = batch_output(&place, raw, it, report) else { continue };
        for (at, target) in output.targets.iter().enumerate() {
            let before = output.targets.iter().take(at);
            let before = batch_outputs.iter().flat_map(|it| &it.targets).chain(before);
            if before.into_iter().any(|it| it == target) {
                report.problem(format!(
                    "{place}: target_name '{target}' is listed before; expected each output once"
                ));
            }
            outputs.iter_mut().filter(|it| it.name == *target).for_each(|it| it.ragged = true);
        }
        batch_outputs.push(output);
    }
    Some(Ragged { batches: raw.max_batch_size() > 0, inputs: flat, batch_inputs, batch_outputs })
}

fn batch_input(
    place: &str,
    raw: &RawConfig,
    given: &RawInput,
    report: &mut Report,
) -> Option<BatchInput> {
    let kind = match Kind::try_from(given.kind) {
        Ok(Kind::BatchElementCount) => Some(BatchInputKind::ElementCount),
        Ok(Kind::BatchAccumulatedElementCount) => Some(BatchInputKind::AccumulatedCount),
        Ok(Kind::BatchAccumulatedElementCountWithZero) => {
            Some(BatchInputKind::AccumulatedCountWithZero)
        }
        Ok(Kind::BatchMaxElementCountAsShape) => Some(BatchInputKind::MaxCountAsShape),
        Ok(Kind::BatchItemShape) => Some(BatchInputKind::ItemShape),
        Ok(Kind::BatchItemShapeFlatten) => Some(BatchInputKind::ItemShapeFlat),
        Err(_) => {
            report.problem(format!(
                "{place}: kind {} is not known; expected a name that begins with BATCH_",
                given.kind
            ));
            None
        }
    };
    let dtype = match type_of_number(given.data_type) {
        Some(DataType::Int32) => Some(CountType::Int32),
        Some(DataType::Fp32) => Some(CountType::Fp32),
        other => {
            report.problem(format!(
                "{place}: data_type is {}; expected TYPE_INT32 or TYPE_FP32",
                other.map_or("none", type_name)
            ));
            None
        }
    };
    let targets = targets(place, &given.target_name, report);
    let source = source(place, raw, &given.source_input, report);
    Some(BatchInput { kind: kind?, dtype: dtype?, targets: targets?, source: source? })
}

fn batch_output(
    place: &str,
    raw: &RawConfig,
    given: &RawOutput,
    report: &mut Report,
) -> Option<BatchOutput> {
    if OutputKind::try_from(given.kind).is_err() {
        report.problem(format!(
            "{place}: kind {} is not known; expected BATCH_SCATTER_WITH_INPUT_SHAPE",
            given.kind
        ));
    }
    let targets = targets(place, &given.target_name, report);
    let outputs: Vec<&str> = raw.output.iter().map(|it| it.name.as_str()).collect();
    for target in targets.iter().flatten().filter(|it| !outputs.contains(&&***it)) {
        report.problem(format!(
            "{place}: target_name '{target}' is not a configured output{}",
            hint(target, &outputs)
        ));
    }
    let source = source(place, raw, &given.source_input, report);
    Some(BatchOutput { targets: targets?, source: source? })
}

fn targets(place: &str, given: &[String], report: &mut Report) -> Option<Vec<Arc<str>>> {
    if given.is_empty() || given.iter().any(String::is_empty) {
        report.problem(format!("{place}: target_name is missing; expected at least one name"));
        return None;
    }
    Some(given.iter().map(|it| it.as_str().into()).collect())
}

fn source(place: &str, raw: &RawConfig, given: &[String], report: &mut Report) -> Option<Arc<str>> {
    let [source] = given else {
        report.problem(format!(
            "{place}: expected one source_input, given {}",
            if given.is_empty() { "none".to_owned() } else { given.join(", ") }
        ));
        return None;
    };
    let inputs: Vec<&str> = raw.input.iter().map(|it| it.name.as_str()).collect();
    if !inputs.contains(&source.as_str()) {
        report.problem(format!(
            "{place}: source_input '{source}' is not a configured input{}",
            hint(source, &inputs)
        ));
        return None;
    }
    Some(source.as_str().into())
}

fn hint(given: &str, known: &[&str]) -> String {
    let nearest = nearest(given, known.iter().copied());
    let nearest = nearest.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
    format!(", which are: {}{nearest}", known.join(", "))
}
