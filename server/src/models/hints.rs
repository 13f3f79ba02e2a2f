//! What a configuration says of inputs and outputs, for engines whose model files do not say it themselves.
//! It has not been checked yet: what is not valid is left out, and told when the configuration is. Pure.

use backend::{Hints, TensorHint};

use super::{
    check::type_of_number,
    raw::{ModelConfig as RawConfig, ModelTensorReshape},
};

/// The configured inputs and outputs, in the engine's shapes.
pub(super) fn hints(raw: &RawConfig) -> Hints {
    let batches = raw.max_batch_size > 0;
    let hint = |name: &String, data_type: i32, dims: &[i64], reshape: &Option<_>| TensorHint {
        name: name.as_str().into(),
        dtype: type_of_number(data_type),
        dims: shape(dims, reshape.as_ref(), batches),
    };
    let inputs = raw.input.iter();
    let outputs = raw.output.iter();
    Hints {
        inputs: inputs.map(|it| hint(&it.name, it.data_type, &it.dims, &it.reshape)).collect(),
        outputs: outputs.map(|it| hint(&it.name, it.data_type, &it.dims, &it.reshape)).collect(),
    }
}

/// The shape in the engine; `None` where dimensions are left out or are no sizes.
fn shape(
    dims: &[i64],
    reshape: Option<&ModelTensorReshape>,
    batches: bool,
) -> Option<Vec<Option<usize>>> {
    let sizes = match reshape {
        None if dims.is_empty() => return None,
        None => dims,
        Some(reshape) => reshape.shape.as_slice(),
    };
    let size = |&it: &i64| match usize::try_from(it) {
        Ok(size) if size >= 1 => Some(Some(size)),
        Err(_) if it == -1 => Some(None),
        _ => None,
    };
    let batch = batches.then_some(Some(None));
    batch.into_iter().chain(sizes.iter().map(size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::pbtxt::ConfigReader;

    fn hints_of(text: &str) -> Hints {
        hints(&ConfigReader::default().from_text("config.pbtxt", text).unwrap())
    }

    #[test]
    fn dims_get_the_batch_dimension_of_a_model_that_batches() {
        let input = "input { name: \"x\" data_type: TYPE_FP32 dims: [ 3, -1 ] }";
        let dims = |text: &str| hints_of(text).inputs[0].dims.clone();
        assert_eq!(dims(input), Some(vec![Some(3), None]));
        assert_eq!(dims(&format!("max_batch_size: 8 {input}")), Some(vec![None, Some(3), None]));
    }

    #[test]
    fn the_engine_sees_the_reshape() {
        let scalar = "max_batch_size: 2 input { name: \"x\" dims: 1 reshape { shape: [ ] } }";
        assert_eq!(hints_of(scalar).inputs[0].dims, Some(vec![None]));
    }

    #[test]
    fn what_is_left_out_or_no_size_is_no_hint() {
        let hints = hints_of("output { name: \"y\" } output { name: \"z\" dims: [ 1, 0 ] }");
        let all: Vec<_> = hints.outputs.iter().map(|it| (&*it.name, it.dtype, &it.dims)).collect();
        assert_eq!(all, [("y", None, &None), ("z", None, &None)]);
        assert!(hints.inputs.is_empty());
    }
}
