//! Warm-up requests: they must be requests that the model would take.

use crate::config::check::{
    report::{Report, file_name},
    types::{data_type, dims_text, type_name},
};
use inference::signature::nearest;
use serving::config::{
    model::{PortConfig, Warmup, WarmupData, WarmupInput},
    raw::{
        ModelConfig as RawConfig, ModelWarmup,
        model_warmup::{Input, input::InputDataType},
    },
    server_ports,
};

/// So often a sample is run at most: an instance is not ready before.
const MOST_RUNS: usize = 100_000;

pub(super) fn warmups(
    raw: &RawConfig,
    inputs: &[PortConfig],
    max_batch_size: usize,
    report: &mut Report,
) -> Vec<Warmup> {
    // With an input at fault, what is said about the sample would be wrong.
    let complete = inputs.len() == raw.input.len();
    let warmups = raw.model_warmup.iter().enumerate().filter_map(|(i, sample)| {
        let place = format!("model_warmup[{i}] '{}'", sample.name);
        if sample.batch_size == 0 {
            report.warn(format!("{place} is skipped: its batch_size is 0"));
            return None;
        }
        let most = max_batch_size.max(1);
        let rows = usize::try_from(sample.batch_size).ok().filter(|it| (1..=most).contains(it));
        if rows.is_none() {
            report.problem(format!(
                "{place}: batch_size is {}; expected 0 to skip it, or 1 to {most}",
                sample.batch_size
            ));
        }
        if complete {
            missing_inputs(&place, sample, inputs, report);
        }
        let data = sample.inputs.iter().filter_map(|(name, given)| {
            let place = format!("{place}: inputs '{name}'");
            let port = inputs.iter().find(|it| &*it.name == name);
            if server_ports::input_names(raw).contains(&name.as_str()) {
                report.warn(format!("{place} is ignored, as the server makes this input"));
                return None;
            }
            if port.is_none() && complete {
                let hint = nearest(name, inputs.iter().map(|it| &*it.name))
                    .map(|it| format!("; did you mean '{it}'?"))
                    .unwrap_or_default();
                report.problem(format!("{place} is not an input of the model{hint}"));
            }
            input(&place, given, port?, report)
        });
        let inputs = data.collect();
        let count = usize::try_from(sample.count.max(1)).unwrap_or(usize::MAX);
        if MOST_RUNS < count {
            report.problem(format!(
                "{place}: count is {count}; expected at most {MOST_RUNS}, as an instance is ready after so many runs"
            ));
        }
        Some(Warmup { name: sample.name.clone(), rows: rows?, count, inputs })
    });
    warmups.collect()
}

fn missing_inputs(place: &str, sample: &ModelWarmup, inputs: &[PortConfig], report: &mut Report) {
    let given = |it: &&PortConfig| it.optional || sample.inputs.contains_key(&*it.name);
    for port in inputs.iter().filter(|it| !given(it)) {
        report.problem(format!(
            "{place}: inputs '{}' is missing; the model needs {} {}",
            port.name,
            type_name(port.dtype),
            dims_text(&port.dims)
        ));
    }
}

fn input(
    place: &str,
    given: &Input,
    port: &PortConfig,
    report: &mut Report,
) -> Option<WarmupInput> {
    let dtype = data_type(place, given.data_type, report);
    if let Some(dtype) = dtype.filter(|&it| it != port.dtype) {
        report.problem(format!(
            "{place}: data_type is {}, the model's input is {}",
            type_name(dtype),
            type_name(port.dtype)
        ));
    }
    let dims: Option<Vec<usize>> = given.dims.iter().map(|&it| usize::try_from(it).ok()).collect();
    let fits = |dims: &Vec<usize>| {
        let mut pairs = port.dims.iter().zip(dims);
        let fits = dims.len() == port.dims.len()
            && pairs.all(|(port, &it)| port.is_none_or(|port| port == it));
        port.any_rank || fits
    };
    let dims = dims.filter(fits);
    if dims.is_none() {
        report.problem(format!(
            "{place}: dims are {:?}; the model's input is {}, and each -1 needs a size of 0 or more",
            given.dims,
            dims_text(&port.dims)
        ));
    }
    let data = match &given.input_data_type {
        Some(InputDataType::ZeroData(_)) => WarmupData::Zero,
        Some(InputDataType::RandomData(_)) => WarmupData::Random,
        Some(InputDataType::InputDataFile(file)) => {
            file_name(&format!("{place}: input_data_file"), file, report);
            WarmupData::File(file.clone())
        }
        None => {
            report.problem(format!(
                "{place}: its data is missing; expected zero_data, random_data or input_data_file"
            ));
            return None;
        }
    };
    Some(WarmupInput { name: port.name.clone(), dtype: dtype?, dims: dims?, data })
}
