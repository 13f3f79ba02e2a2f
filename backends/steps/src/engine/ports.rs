//! The inputs and outputs of a step, as the configuration may have narrowed them.

use backend::{DataType, ModelSource, ModelSpec, TensorHint, TensorSpec};

/// Floating-point numbers, the usual type first.
pub(super) const FLOATS: &[DataType] =
    &[DataType::Fp32, DataType::Fp16, DataType::Bf16, DataType::Fp64];
/// What steps give of floating-point numbers.
pub(super) const FLOAT: &[DataType] = &[DataType::Fp32];
/// Whole numbers, the usual type first.
pub(super) const INTEGERS: &[DataType] = &[DataType::Int64, DataType::Int32];
/// Texts.
pub(super) const TEXT: &[DataType] = &[DataType::Bytes];

/// One input or output.
pub(super) struct Port<'a> {
    name: &'a str,
    /// The types that it may have, the usual one first.
    dtypes: &'a [DataType],
    /// Its dimensions, that of the rows included.
    dims: Vec<Option<usize>>,
    is_optional: bool,
}

/// A port of this name, these types and these dimensions.
pub(super) fn port<'a>(name: &'a str, dtypes: &'a [DataType], dims: &[Option<usize>]) -> Port<'a> {
    Port { name, dtypes, dims: dims.to_vec(), is_optional: false }
}

/// An input that may be left out.
pub(super) fn optional<'a>(
    name: &'a str,
    dtypes: &'a [DataType],
    dims: &[Option<usize>],
) -> Port<'a> {
    Port { is_optional: true, ..port(name, dtypes, dims) }
}

/// These ports, each of the type that the configuration says where it is one that the port may have.
pub(super) fn spec(source: &ModelSource, inputs: &[Port<'_>], outputs: &[Port<'_>]) -> ModelSpec {
    let tensors = |ports: &[Port<'_>], hints: &[TensorHint]| -> Vec<TensorSpec> {
        let tensor = |it: &Port<'_>| {
            let said = hints.iter().find(|hint| &*hint.name == it.name).and_then(|it| it.dtype);
            let usual = it.dtypes.first().copied().unwrap_or(DataType::Bytes);
            TensorSpec {
                name: it.name.into(),
                dtype: said.filter(|said| it.dtypes.contains(said)).unwrap_or(usual),
                dims: it.dims.clone(),
                any_rank: false,
                optional: it.is_optional,
            }
        };
        ports.iter().map(tensor).collect()
    };
    ModelSpec {
        inputs: tensors(inputs, &source.hints.inputs),
        outputs: tensors(outputs, &source.hints.outputs),
        ..ModelSpec::default()
    }
}
