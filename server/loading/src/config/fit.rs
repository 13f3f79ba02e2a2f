//! Does a configuration fit the model that was loaded? Names, types and shapes against the engine's
//! [`ModelSpec`].

use backend::{ModelSpec, PortNames, TensorSpec};

use crate::config::check::{
    report::Report,
    types::{dims_text, type_name},
};
use inference::signature::nearest;
use serving::config::{
    model::{ModelConfig, PortConfig},
    raw::ModelConfig as RawConfig,
    server_ports::{self, ServerPort},
};

/// Compares, and notes in `config` which inputs and outputs of a model without a batch dimension are
/// scalars. `raw` has the names of all that was configured, also of what was at fault in itself.
pub(crate) fn fit(
    config: &mut ModelConfig,
    raw: &RawConfig,
    spec: &ModelSpec,
    report: &mut Report,
) {
    let inputs = Side { what: "input", specs: &spec.inputs };
    let outputs = Side { what: "output", specs: &spec.outputs };
    let input_names: Vec<&str> = raw.input.iter().map(|it| it.name.as_str()).collect();
    let output_names: Vec<&str> = raw.output.iter().map(|it| it.name.as_str()).collect();
    unknown_names(inputs.what, &inputs.names(), &input_names, report);
    unknown_names(outputs.what, &outputs.names(), &output_names, report);
    let made_names = server_ports::input_names(raw);
    let given: Vec<&str> = input_names.iter().chain(&made_names).copied().collect();
    missing_inputs(inputs, &given, config.max_batch_size, report);
    check_made(inputs, &config.made.inputs, report);
    check_made(outputs, &config.made.outputs, report);
    missing_outputs(outputs, &output_names, config.max_batch_size, report);
    let can_batch = config.max_batch_size == 0 || check_batching(config, spec, report);
    let sides = [(inputs, &mut config.inputs), (outputs, &mut config.outputs)];
    for (side, ports) in sides {
        for port in ports {
            let Some(spec) = side.specs.iter().find(|it| it.name == port.name) else { continue };
            let is_scalar = spec.dims.is_empty() && !spec.any_rank;
            let is_one = !port.dims.is_empty() && port.dims.iter().all(|it| *it == Some(1));
            if is_scalar && config.max_batch_size == 0 && is_one {
                port.reshape = Some(vec![]);
            }
            let place = format!("{} '{}'", side.what, port.name);
            if port.optional && !spec.optional {
                report.problem(format!(
                    "{place}: optional is given, but the model has no default for it"
                ));
            }
            check_type(&place, port, spec, report);
            if port.ragged {
                check_ragged(&place, spec, report);
            } else if can_batch {
                check_dims(&place, port, spec, config.max_batch_size, report);
            }
        }
    }
}

/// All inputs or all outputs of the model.
#[derive(Clone, Copy)]
struct Side<'a> {
    what: &'static str,
    specs: &'a [TensorSpec],
}

impl<'a> Side<'a> {
    fn names(self) -> Vec<&'a str> {
        self.specs.iter().map(|it| &*it.name).collect()
    }
}

/// Compares the names of a model that is not loaded, as far as its files say them.
pub(crate) fn fit_names(raw: &RawConfig, ports: &PortNames, report: &mut Report) {
    let sides = [("input", &ports.inputs), ("output", &ports.outputs)];
    let inputs: Vec<&str> = raw.input.iter().map(|it| it.name.as_str()).collect();
    let outputs: Vec<&str> = raw.output.iter().map(|it| it.name.as_str()).collect();
    for ((what, known), names) in sides.into_iter().zip([inputs, outputs]) {
        let known: Vec<&str> = known.iter().map(|it| &**it).collect();
        if !known.is_empty() {
            unknown_names(what, &known, &names, report);
        }
    }
}

/// Can the model take any number of rows? Only if every tensor that is served begins with a free dimension.
pub(crate) fn batches(spec: &ModelSpec, raw: &RawConfig) -> bool {
    let is_served =
        |it: &&TensorSpec| !it.optional || raw.input.iter().any(|port| *port.name == *it.name);
    spec.inputs.iter().filter(is_served).chain(&spec.outputs).all(begins_free)
}

/// Warns of a model that was exported for one row, where nobody has said that it should be so: each of its tensors has
/// 1 as the first of several dimensions.
pub(crate) fn warn_of_one_row(spec: &ModelSpec, raw: &RawConfig, report: &mut Report) {
    let is_one = |it: &TensorSpec| matches!(*it.dims, [Some(1), _, ..]);
    let is_said = raw.max_batch_size.is_some() || !raw.input.is_empty() || !raw.output.is_empty();
    if is_said || spec.inputs.is_empty() || !spec.inputs.iter().chain(&spec.outputs).all(is_one) {
        return;
    }
    let axes =
        spec.inputs.iter().chain(&spec.outputs).map(|it| format!("'{}': {{0: 'batch'}}", it.name));
    let axes: Vec<String> = axes.collect();
    report.warn(format!(
        "it takes one row in each run, as the first dimension of all its tensors is 1: requests cannot share a run. A \
         model of PyTorch is exported for any number by torch.onnx.export(.., dynamo=False, dynamic_axes={{{}}}); \
         max_batch_size: 0 in config.pbtxt says that one row is meant",
        axes.join(", ")
    ));
}

/// Is its first dimension open?
pub(crate) fn begins_free(spec: &TensorSpec) -> bool {
    spec.dims.first().is_some_and(Option::is_none)
}

fn check_batching(config: &ModelConfig, spec: &ModelSpec, report: &mut Report) -> bool {
    let fixed = |what: &'static str, ports: &[PortConfig], specs: &[TensorSpec]| -> Vec<String> {
        let configured = |it: &&TensorSpec| ports.iter().any(|port| port.name == it.name);
        let fixed = specs.iter().filter(configured).filter(|it| !it.any_rank && !begins_free(it));
        fixed.map(|it| format!("{what} '{}' {}", it.name, dims_text(&it.dims))).collect()
    };
    let mut names = fixed("input", &config.inputs, &spec.inputs);
    names.extend(fixed("output", &config.outputs, &spec.outputs));
    if names.is_empty() {
        return true;
    }
    report.problem(format!(
        "max_batch_size is {}, but the model cannot batch, as the first dimension is not free in {}; \
         write max_batch_size: 0, and dims with all dimensions",
        config.max_batch_size,
        names.join(", ")
    ));
    false
}

fn unknown_names(what: &str, known: &[&str], names: &[&str], report: &mut Report) {
    for name in names.iter().filter(|it| !it.is_empty() && !known.contains(it)) {
        let hint = nearest(name, known.iter().copied())
            .map(|it| format!("; did you mean '{it}'?"))
            .unwrap_or_default();
        let all: Vec<String> = known.iter().map(|it| format!("'{it}'")).collect();
        report.problem(format!(
            "{what} '{name}' is not in the model, whose {what}s are {}{hint}",
            all.join(", ")
        ));
    }
}

/// Has the model what the server makes for it and keeps of it?
fn check_made(side: Side<'_>, made: &[ServerPort], report: &mut Report) {
    for port in made {
        let ServerPort { place, name, dtype, dims } = port;
        let Some(spec) = side.specs.iter().find(|it| it.name == *name) else {
            let known: Vec<String> = side.specs.iter().map(|it| format!("'{}'", it.name)).collect();
            let hint = nearest(name, side.specs.iter().map(|it| &*it.name))
                .map(|it| format!("; did you mean '{it}'?"))
                .unwrap_or_default();
            let what = side.what;
            report.problem(format!(
                "{place}: '{name}' is not an {what} of the model, whose {what}s are {}{hint}",
                known.join(", ")
            ));
            continue;
        };
        if spec.dtype != *dtype {
            report.problem(format!(
                "{place}: '{name}' would be {}, the model has {}",
                type_name(*dtype),
                type_name(spec.dtype)
            ));
        }
        let fits =
            |(model, given): (&Option<usize>, &Option<usize>)| model.is_none() || model == given;
        if spec.any_rank {
            continue;
        }
        if spec.dims.len() != dims.len() || !spec.dims.iter().zip(dims).all(fits) {
            report.problem(format!(
                "{place}: '{name}' would have the shape {}, the model has {}",
                dims_text(dims),
                dims_text(&spec.dims)
            ));
        }
    }
}

fn missing_inputs(side: Side<'_>, names: &[&str], max_batch_size: usize, report: &mut Report) {
    let needed: Vec<&TensorSpec> = side.specs.iter().filter(|it| !it.optional).collect();
    for spec in needed.iter().filter(|it| !names.contains(&&*it.name)) {
        report.problem(format!(
            "input '{}' is not configured; needed are {} in all, configured are {}; \
             write input {{ name: \"{}\" data_type: {} {} }}",
            spec.name,
            needed.len(),
            names.len(),
            spec.name,
            type_name(spec.dtype),
            dims_line(spec, max_batch_size)
        ));
    }
}

/// A configuration may leave outputs out, but not all of them.
fn missing_outputs(side: Side<'_>, names: &[&str], max_batch_size: usize, report: &mut Report) {
    let ([], Some(spec)) = (names, side.specs.first()) else { return };
    report.problem(format!(
        "no output is configured; the model has {}; write output {{ name: \"{}\" data_type: {} {} }}",
        side.specs.len(),
        spec.name,
        type_name(spec.dtype),
        dims_line(spec, max_batch_size)
    ));
}

fn check_type(place: &str, port: &PortConfig, spec: &TensorSpec, report: &mut Report) {
    let (expected, given) = (type_name(spec.dtype), type_name(port.dtype));
    if expected != given {
        report.problem(format!(
            "{place}: data_type is {given}, the model has {expected}; write data_type: {expected}"
        ));
    }
}

/// Is it one dimension of any size, for the elements of a whole batch?
fn check_ragged(place: &str, spec: &TensorSpec, report: &mut Report) {
    if spec.dims != [None] && !spec.any_rank {
        report.problem(format!(
            "{place}: the elements of a whole batch come in one dimension of any size, [ -1 ]; the model has {}",
            dims_text(&spec.dims)
        ));
    }
}

fn check_dims(
    place: &str,
    port: &PortConfig,
    spec: &TensorSpec,
    max_batch_size: usize,
    report: &mut Report,
) {
    let batch = (max_batch_size > 0).then_some(None);
    let given: Vec<Option<usize>> =
        batch.into_iter().chain(port.engine_dims().iter().copied()).collect();
    // A size that the model leaves free may be fixed by the configuration, but not the other way round.
    let fits = |(model, given): (&Option<usize>, &Option<usize>)| model.is_none() || model == given;
    if spec.any_rank {
        return;
    }
    if given.len() == spec.dims.len() && spec.dims.iter().zip(&given).all(fits) {
        return;
    }
    let field = match port.reshape {
        Some(_) => "reshape.shape",
        None => "dims",
    };
    let with_batch = match max_batch_size {
        0 => String::new(),
        _ => format!(
            " with the batch dimension, as max_batch_size is {max_batch_size} and dims leave it out"
        ),
    };
    report.problem(format!(
        "{place}: {field} give the shape {}{with_batch}; the model has {}; write {}",
        dims_text(&given),
        dims_text(&spec.dims),
        dims_line(spec, max_batch_size)
    ));
}

/// The part of a configuration that says this shape.
fn dims_line(spec: &TensorSpec, max_batch_size: usize) -> String {
    let dims = match max_batch_size {
        0 => spec.dims.as_slice(),
        _ => spec.dims.get(1..).unwrap_or_default(),
    };
    match (dims, max_batch_size) {
        _ if spec.any_rank => "dims: [ .. ]".to_owned(),
        ([], 0) => "dims: [ 1 ]".to_owned(),
        ([], _) => "dims: [ 1 ] reshape { shape: [ ] }".to_owned(),
        (dims, _) => format!("dims: {}", dims_text(dims)),
    }
}
