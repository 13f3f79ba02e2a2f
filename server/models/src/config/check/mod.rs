//! Raw configuration → [`ModelConfig`], noting everything that is wrong. The rules are Triton's.

mod cache;
mod ensemble;
mod ports;
mod ragged;
mod scheduling;
mod sequence;
pub(crate) mod settings;
mod unsupported;
mod warmup;

use backend::DataType;

use crate::config::{
    model::{ConfigErrors, ModelConfig, Scheduling},
    raw::{self, ModelConfig as RawConfig},
    server_ports::ServerPorts,
};

pub(crate) use crate::config::check::{ensemble::ensemble, unsupported::unsupported};

/// What was found while checking.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Each prevents the load.
    pub(crate) problems: Vec<String>,
    /// What is ignored, and why.
    pub(crate) warnings: Vec<String>,
}

impl Report {
    pub(crate) fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// `value` with the warnings, unless there were problems.
    pub(crate) fn into_result<T>(
        self,
        model: &str,
        value: T,
    ) -> Result<(T, Vec<String>), ConfigErrors> {
        match self.problems.is_empty() {
            true => Ok((value, self.warnings)),
            false => Err(ConfigErrors { model: model.to_owned(), problems: self.problems }),
        }
    }
}

/// Reads a completed configuration. What is at fault is noted in the report and left out of the result,
/// so that the result can still be compared with the model.
pub(crate) fn check(raw: &RawConfig, report: &mut Report) -> ModelConfig {
    unsupported(raw, &raw.backend, report);
    let max_batch_size = settings::max_batch_size(raw, report);
    let inputs = ports::inputs(raw, report);
    let mut outputs = ports::outputs(raw, report);
    let mut made = ServerPorts::default();
    let sequences = sequence::sequences(raw, max_batch_size, &mut made, report);
    let ragged = ragged::ragged(raw, &inputs, &mut outputs, &mut made, report);
    sequence::check_made(raw, &made, report);
    let (gpu_accelerators, cpu_accelerators) = settings::accelerators(raw, report);
    ModelConfig {
        name: raw.name.clone(),
        platform: raw.platform.clone(),
        backend: raw.backend.clone(),
        version_policy: settings::version_policy(raw, report),
        max_batch_size,
        instance_groups: settings::instance_groups(raw, report),
        default_model_filename: Some(raw.default_model_filename.clone())
            .filter(|it| !it.is_empty()),
        scheduling: match sequences {
            Some(sequences) => Scheduling::Sequences(sequences),
            None => scheduling::scheduling(raw, max_batch_size, report),
        },
        parameters: settings::parameters(raw),
        graph_level: settings::graph_level(raw, report),
        priority: settings::priority(raw, report),
        gpu_accelerators,
        cpu_accelerators,
        warmups: warmup::warmups(raw, &inputs, max_batch_size, report),
        metric_tags: raw.metric_tags.clone(),
        histograms: settings::histograms(raw, report),
        response_cache: cache::response_cache(raw, report),
        inputs,
        outputs,
        made,
        ragged,
    }
}

/// The name of an element type in a configuration.
pub(crate) const fn type_name(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Bool => "TYPE_BOOL",
        DataType::Uint8 => "TYPE_UINT8",
        DataType::Uint16 => "TYPE_UINT16",
        DataType::Uint32 => "TYPE_UINT32",
        DataType::Uint64 => "TYPE_UINT64",
        DataType::Int8 => "TYPE_INT8",
        DataType::Int16 => "TYPE_INT16",
        DataType::Int32 => "TYPE_INT32",
        DataType::Int64 => "TYPE_INT64",
        DataType::Fp16 => "TYPE_FP16",
        DataType::Bf16 => "TYPE_BF16",
        DataType::Fp32 => "TYPE_FP32",
        DataType::Fp64 => "TYPE_FP64",
        DataType::Bytes => "TYPE_STRING",
    }
}

/// The number of an element type in a configuration.
pub(crate) fn type_number(dtype: DataType) -> i32 {
    raw::DataType::from_str_name(type_name(dtype)).unwrap_or_default() as i32
}

/// The element type of that number.
pub(crate) fn type_of_number(number: i32) -> Option<DataType> {
    DataType::ALL.into_iter().find(|&it| type_number(it) == number)
}

/// The element type of that number; noted when there is none.
fn data_type(place: &str, number: i32, report: &mut Report) -> Option<DataType> {
    let dtype = type_of_number(number);
    if dtype.is_none() {
        let given = match number {
            0 => "is missing".to_owned(),
            _ => format!("{number} is not known"),
        };
        let known = DataType::ALL.map(type_name).join(", ");
        report.problem(format!("{place}: data_type {given}; expected one of {known}"));
    }
    dtype
}

/// Notes a file name that could lead out of the folder it belongs to.
pub(crate) fn file_name(place: &str, name: &str, report: &mut Report) {
    let escapes = |it: &str| it == ".." || it.contains('\0');
    if name.starts_with('/') || name.split('/').any(escapes) {
        report.problem(format!(
            "{place}: '{name}' leads out of the model's folder; expected a relative path without '..'"
        ));
    }
}

/// Dimensions as a configuration writes them: `[ 3, -1 ]`.
pub(crate) fn dims_text(dims: &[Option<usize>]) -> String {
    let sizes: Vec<String> =
        dims.iter().map(|it| it.map_or("-1".to_owned(), |size| size.to_string())).collect();
    match sizes.is_empty() {
        true => "[ ]".to_owned(),
        false => format!("[ {} ]", sizes.join(", ")),
    }
}
