//! The configuration of a model whose first dimension turned out not to be a batch, with that dimension written out.

use backend::{ModelSpec, TensorSpec};

use serving::config::raw::{
    ModelConfig as RawConfig, ModelTensorReshape,
    model_config::SchedulingChoice,
    model_warmup::{Input, input::InputDataType},
};

/// Writes the first dimension into everything that was configured without it.
pub(crate) fn unbatch(raw: &mut RawConfig, spec: &ModelSpec) {
    raw.max_batch_size = Some(0);
    if let Some(SchedulingChoice::DynamicBatching(batching)) = &mut raw.scheduling_choice {
        // Its queue stays as it was asked for.
        batching.preferred_batch_size.clear();
    }
    for port in &mut raw.input {
        prepend(&spec.inputs, &port.name, &mut port.dims, &mut port.reshape);
    }
    for port in &mut raw.output {
        prepend(&spec.outputs, &port.name, &mut port.dims, &mut port.reshape);
    }
    for sample in &mut raw.model_warmup {
        let rows = sample.batch_size;
        let inputs = sample.inputs.values_mut().filter(|_| 0 < rows);
        inputs.for_each(|it| as_one(it, rows.into()));
        sample.batch_size = rows.min(1);
    }
}

fn prepend(
    specs: &[TensorSpec],
    name: &str,
    dims: &mut Vec<i64>,
    reshape: &mut Option<ModelTensorReshape>,
) {
    let rank = reshape.as_ref().map_or(dims.len(), |it| it.shape.len());
    let is_row = |it: &TensorSpec| *it.name == *name && it.dims.len() == rank + 1;
    // Without dimensions it gets those of the model, all of them.
    let given = !dims.is_empty() || reshape.is_some();
    if given && specs.iter().any(is_row) {
        dims.insert(0, -1);
        if let Some(reshape) = reshape {
            reshape.shape.insert(0, -1);
        }
    }
}

/// The rows of a sample as one request: as many as before, unless they come from a file, which has one row.
fn as_one(input: &mut Input, rows: i64) {
    let from_file = matches!(input.input_data_type, Some(InputDataType::InputDataFile(_)));
    input.dims.insert(0, if from_file { 1 } else { rows });
}
