//! Sizes of zero: a tensor with one has no elements, so that it is a mistake wherever the model's file does not say so.

use backend::{ModelSpec, TensorSpec};

use crate::config::check::report::Report;
use serving::config::raw::ModelConfig as RawConfig;

/// Notes each input and output whose `dims` have a zero that the model's file does not have. `spec` is what the engine
/// says about the loaded model.
pub(super) fn check(raw: &RawConfig, spec: Option<&ModelSpec>, report: &mut Report) {
    let inputs = raw.input.iter().map(|it| (&it.name, &it.dims));
    note("input", inputs, spec.map_or(&[], |it| &it.inputs), report);
    let outputs = raw.output.iter().map(|it| (&it.name, &it.dims));
    note("output", outputs, spec.map_or(&[], |it| &it.outputs), report);
}

fn note<'a>(
    what: &str,
    ports: impl Iterator<Item = (&'a String, &'a Vec<i64>)>,
    specs: &[TensorSpec],
    report: &mut Report,
) {
    for (i, (name, dims)) in ports.enumerate() {
        let Some(at) = dims.iter().position(|it| *it == 0) else { continue };
        let mut of_model = specs.iter().filter(|it| *it.name == **name);
        if of_model.any(|it| it.dims.contains(&Some(0))) {
            continue;
        }
        report.problem(format!(
            "{what}[{i}] '{name}': dims[{at}] is 0; expected at least 1, or -1 for any size: the model's file has no \
             size of 0 there"
        ));
    }
}
