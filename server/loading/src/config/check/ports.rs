//! Inputs and outputs: names, types, dimensions, reshapes.

use crate::config::check::{
    report::{Report, file_name},
    types::{data_type, dims_text},
};
use serving::config::{
    model::PortConfig,
    raw::{ModelConfig as RawConfig, ModelTensorReshape, model_input::Format},
};

/// What inputs and outputs have in common.
struct Given<'a> {
    /// For example `input[0] 'x'`.
    place: String,
    name: &'a str,
    data_type: i32,
    dims: &'a [i64],
    reshape: Option<&'a ModelTensorReshape>,
    batches: bool,
}

/// The inputs that are valid in themselves.
pub(super) fn inputs(raw: &RawConfig, report: &mut Report) -> Vec<PortConfig> {
    repeated_names("input", raw.input.iter().map(|it| it.name.as_str()), report);
    let inputs = raw.input.iter().enumerate().filter_map(|(i, it)| {
        let place = place("input", i, &it.name);
        match Format::try_from(it.format) {
            Ok(Format::None) => {}
            Ok(_) if it.dims.len() == 3 => {}
            Ok(format) => report.problem(format!(
                "{place}: format {} needs 3 dims, given {}: {}",
                format.as_str_name(),
                it.dims.len(),
                numbers(&it.dims)
            )),
            Err(_) => report.problem(format!(
                "{place}: format {} is not known; expected FORMAT_NONE, FORMAT_NHWC or FORMAT_NCHW",
                it.format
            )),
        }
        tensor_rt_only(&place, it.is_shape_tensor, it.is_non_linear_format_io, report);
        let reshape = it.reshape.as_ref();
        let (name, data_type, dims) = (it.name.as_str(), it.data_type, it.dims.as_slice());
        let batches = raw.max_batch_size() > 0;
        let port = port(&Given { place, name, data_type, dims, reshape, batches }, report)?;
        Some(PortConfig { optional: it.optional, ragged: it.allow_ragged_batch, ..port })
    });
    inputs.collect()
}

/// The outputs that are valid in themselves.
pub(super) fn outputs(raw: &RawConfig, report: &mut Report) -> Vec<PortConfig> {
    repeated_names("output", raw.output.iter().map(|it| it.name.as_str()), report);
    let outputs = raw.output.iter().enumerate().filter_map(|(i, it)| {
        let place = place("output", i, &it.name);
        tensor_rt_only(&place, it.is_shape_tensor, it.is_non_linear_format_io, report);
        file_name(&format!("{place}: label_filename"), &it.label_filename, report);
        let reshape = it.reshape.as_ref();
        let (name, data_type, dims) = (it.name.as_str(), it.data_type, it.dims.as_slice());
        let batches = raw.max_batch_size() > 0;
        let port = port(&Given { place, name, data_type, dims, reshape, batches }, report)?;
        let labels = Some(it.label_filename.clone()).filter(|it| !it.is_empty());
        Some(PortConfig { label_filename: labels, ..port })
    });
    outputs.collect()
}

fn place(what: &str, index: usize, name: &str) -> String {
    match name {
        "" => format!("{what}[{index}]"),
        name => format!("{what}[{index}] '{name}'"),
    }
}

fn repeated_names<'a>(what: &str, names: impl Iterator<Item = &'a str>, report: &mut Report) {
    let names: Vec<&str> = names.collect();
    for (i, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        if let Some(first) = names.iter().take(i).position(|it| it == name) {
            report.problem(format!("{what}[{i}] '{name}': {what}[{first}] has the same name"));
        }
    }
}

fn tensor_rt_only(place: &str, shape_tensor: bool, non_linear: bool, report: &mut Report) {
    let flags = [("is_shape_tensor", shape_tensor), ("is_non_linear_format_io", non_linear)];
    for (field, _) in flags.iter().filter(|(_, given)| *given) {
        report.problem(format!("{place}: {field} is not supported, it belongs to TensorRT"));
    }
}

fn port(given: &Given<'_>, report: &mut Report) -> Option<PortConfig> {
    let place = &given.place;
    let before = report.problems.len();
    if given.name.is_empty() {
        report.problem(format!("{place}: name is missing"));
    }
    let dtype = data_type(place, given.data_type, report);
    if given.dims.is_empty() {
        report.problem(format!(
            "{place}: dims is missing; expected at least one size, each at least 1, or -1 for any"
        ));
    }
    let dims = sizes(place, "dims", given.dims, report);
    let reshape = match given.reshape {
        None => None,
        Some(reshape) => {
            let shape = sizes(place, "reshape.shape", &reshape.shape, report)?;
            check_reshape(given, dims.as_deref()?, &shape, report);
            Some(shape)
        }
    };
    (report.problems.len() == before).then_some(())?;
    Some(PortConfig {
        name: given.name.into(),
        dtype: dtype?,
        dims: dims?,
        any_rank: false,
        reshape,
        optional: false,
        label_filename: None,
        ragged: false,
    })
}

/// Sizes, `None` for -1; noted and `None` as a whole if any is another number below zero. Whether a size of zero may be
/// is up to the model's file.
fn sizes(
    place: &str,
    field: &str,
    given: &[i64],
    report: &mut Report,
) -> Option<Vec<Option<usize>>> {
    let mut valid = true;
    let mut sizes = Vec::with_capacity(given.len());
    for (i, &size) in given.iter().enumerate() {
        match usize::try_from(size) {
            Ok(size) => sizes.push(Some(size)),
            Err(_) if size == -1 => sizes.push(None),
            Err(_) => {
                valid = false;
                report.problem(format!(
                    "{place}: {field}[{i}] is {size}; expected at least 1, or -1 for any size"
                ));
            }
        }
    }
    valid.then_some(sizes)
}

fn check_reshape(
    given: &Given<'_>,
    dims: &[Option<usize>],
    shape: &[Option<usize>],
    report: &mut Report,
) {
    let (place, dims_shown) = (&given.place, dims_text(dims));
    if shape.is_empty() {
        if !given.batches || dims != [Some(1)] {
            let batches = if given.batches { "above 0" } else { "0" };
            report.problem(format!(
                "{place}: reshape with an empty shape needs max_batch_size above 0 and dims [ 1 ]; \
                 given max_batch_size {batches} and dims {dims_shown}"
            ));
        }
        return;
    }
    let shape_shown = dims_text(shape);
    let free = |it: &[Option<usize>]| it.iter().filter(|size| size.is_none()).count();
    if free(dims) != free(shape) {
        report.problem(format!(
            "{place}: reshape.shape {shape_shown} and dims {dims_shown} must have equally many -1; \
             given {} and {}",
            free(shape),
            free(dims)
        ));
        return;
    }
    let counts = |it: &[Option<usize>]| -> Vec<Option<usize>> {
        let pieces = it.split(Option::is_none);
        pieces.map(|it| it.iter().flatten().try_fold(1usize, |n, &it| n.checked_mul(it))).collect()
    };
    let differs = |(a, b): (&Option<usize>, &Option<usize>)| a.is_none() || a != b;
    if counts(shape).iter().zip(&counts(dims)).any(differs) {
        report.problem(format!(
            "{place}: reshape.shape {shape_shown} and dims {dims_shown} must have equally many \
             elements, also before, between and after each -1"
        ));
    }
}

fn numbers(dims: &[i64]) -> String {
    let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("[ {} ]", dims.join(", "))
}
