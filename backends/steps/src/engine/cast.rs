//! The step `cast`: the numbers of a tensor as those of another type.

use std::sync::Arc;

use backend::{BackendError, DataType, NamedTensor, Shape, Tensor};

use super::{
    arithmetic::{dims, names},
    call::{Call, named},
    kind::{Opened, Run},
    ports::{port, spec},
    settings::StepSettings,
};
use crate::numbers::of_type;

pub(super) const PARAMETERS: &[&str] = &["data_type"];

/// The types of numbers.
const NUMBERS: &[DataType] = &[
    DataType::Fp32,
    DataType::Fp16,
    DataType::Bf16,
    DataType::Fp64,
    DataType::Int64,
    DataType::Int32,
    DataType::Int16,
    DataType::Int8,
    DataType::Uint64,
    DataType::Uint32,
    DataType::Uint16,
    DataType::Uint8,
    DataType::Bool,
];

struct Cast {
    input: Arc<str>,
    output: Arc<str>,
    to: DataType,
}

/// Opens it.
///
/// # Errors
/// When a parameter is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let (input, output) = names(settings.source);
    let known: Vec<&str> = NUMBERS.iter().map(|it| it.name()).collect();
    let read = |name: &str| {
        let name = name.strip_prefix("TYPE_").unwrap_or(name);
        DataType::from_name(name).filter(|it| NUMBERS.contains(it))
    };
    let said = settings.source.hints.outputs.first().and_then(|it| it.dtype);
    let Some(to) = settings.named("data_type", &known, read)?.or(said) else {
        return Err(BackendError::Load(
            "parameter 'data_type' is missing: the type of the output, as FP16".to_owned(),
        ));
    };
    let dims = dims(settings);
    let inputs = [port(&input, NUMBERS, &dims)];
    let spec = spec(settings.source, &inputs, &[port(&output, &[to], &dims)]);
    Ok(Opened { spec, run: Box::new(Cast { input, output, to }) })
}

impl Run for Cast {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let given = call.tensor(&self.input)?;
        let bytes = of_type(self.to, given);
        let shape = Shape::new(given.shape().dims());
        Ok(vec![named(&self.output, Tensor::new(self.to, shape, bytes.into()))?])
    }
}
