//! What a configuration says of inputs and outputs, for engines whose model files do not say it themselves.
//! It has not been checked yet: what is not valid is left out, and reported when the configuration is checked. Pure.

use backend::{DataType, Hints, TensorHint};

use crate::config::check::types::type_of_number;
use serving::config::{
    raw::{ModelConfig as RawConfig, ModelTensorReshape, model_sequence_batching::Control},
    server_ports,
};

/// The configured inputs and outputs, in the engine's shapes.
pub(crate) fn hints(raw: &RawConfig) -> Hints {
    let batches = raw.max_batch_size() > 0;
    let hint = |name: &String, data_type: i32, dims: &[i64], reshape: &Option<_>| TensorHint {
        name: name.as_str().into(),
        dtype: type_of_number(data_type),
        dims: shape(dims, reshape.as_ref(), batches),
    };
    let sequences = server_ports::sequence_batching(raw);
    let controls = sequences.into_iter().flat_map(|it| &it.control_input);
    let controls = controls.map(|it| TensorHint {
        name: it.name.as_str().into(),
        dtype: it.control.first().and_then(control_type),
        dims: shape(&[1], None, batches),
    });
    let states = || sequences.into_iter().flat_map(|it| &it.state);
    let read = states().map(|it| hint(&it.input_name, it.data_type, &it.dims, &None));
    let inputs = raw.input.iter().map(|it| {
        let given = hint(&it.name, it.data_type, &it.dims, &it.reshape);
        let dims = if it.allow_ragged_batch { Some(vec![None]) } else { given.dims };
        TensorHint { dims, ..given }
    });
    let batch_inputs = raw.batch_input.iter().flat_map(|it| {
        let dtype = type_of_number(it.data_type);
        it.target_name.iter().map(move |name| TensorHint {
            name: name.as_str().into(),
            dtype,
            dims: None,
        })
    });
    let outputs = raw.output.iter().map(|it| hint(&it.name, it.data_type, &it.dims, &it.reshape));
    let mut outputs: Vec<TensorHint> = outputs.collect();
    for state in states() {
        // One that clients get, too, is configured already.
        if raw.output.iter().all(|it| it.name != state.output_name) {
            outputs.push(hint(&state.output_name, state.data_type, &state.dims, &None));
        }
    }
    let inputs = inputs.chain(controls).chain(read).chain(batch_inputs).collect();
    Hints { inputs, outputs, is_unbatched: raw.max_batch_size == Some(0) }
}

/// The element type of a control.
fn control_type(control: &Control) -> Option<DataType> {
    let flag = [
        (DataType::Int32, control.int32_false_true.is_empty()),
        (DataType::Fp32, control.fp32_false_true.is_empty()),
        (DataType::Bool, control.bool_false_true.is_empty()),
    ];
    let flag = flag.into_iter().find(|(_, is_empty)| !is_empty).map(|(dtype, _)| dtype);
    flag.or_else(|| type_of_number(control.data_type))
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
    use crate::config::pbtxt::ConfigReader;

    fn hints_of(text: &str) -> Hints {
        hints(&ConfigReader::default().parse_text("config.pbtxt", text).unwrap())
    }

    #[test]
    fn dims_get_the_batch_dimension_of_a_model_that_batches() {
        let input = "input { name: \"x\" data_type: TYPE_FP32 dims: [ 3, -1 ] }";
        let dims = |text: &str| hints_of(text).inputs[0].dims.clone();
        assert_eq!(dims(input), Some(vec![Some(3), None]));
        assert_eq!(dims(&format!("max_batch_size: 8 {input}")), Some(vec![None, Some(3), None]));
    }

    #[test]
    fn a_batch_size_of_zero_is_a_hint_where_it_is_written() {
        assert!(hints_of("max_batch_size: 0").is_unbatched);
        assert!(!hints_of("").is_unbatched && !hints_of("max_batch_size: 1").is_unbatched);
    }

    #[test]
    fn the_engine_sees_the_reshape() {
        let scalar = "max_batch_size: 2 input { name: \"x\" dims: 1 reshape { shape: [ ] } }";
        assert_eq!(hints_of(scalar).inputs[0].dims, Some(vec![None]));
    }

    #[test]
    fn what_the_server_makes_for_sequences_comes_behind_what_clients_send() {
        let hints = hints_of(
            "max_batch_size: 2 input { name: \"x\" data_type: TYPE_FP32 dims: 3 }
             sequence_batching {
               control_input { name: \"start\" control { int32_false_true: [ 0, 1 ] } }
               control_input { name: \"id\" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }
               state { input_name: \"in\" output_name: \"out\" data_type: TYPE_FP32 dims: -1 } }",
        );
        let inputs: Vec<_> = hints.inputs.iter().map(|it| (&*it.name, it.dtype)).collect();
        let (number, text) = (DataType::Fp32, DataType::Bytes);
        let expected = [("x", number), ("start", DataType::Int32), ("id", text), ("in", number)];
        assert_eq!(inputs, expected.map(|(name, dtype)| (name, Some(dtype))));
        assert_eq!(hints.inputs[1].dims, Some(vec![None, Some(1)]));
        assert_eq!(&*hints.outputs[0].name, "out");
    }

    #[test]
    fn what_is_left_out_or_no_size_is_no_hint() {
        let hints = hints_of("output { name: \"y\" } output { name: \"z\" dims: [ 1, 0 ] }");
        let all: Vec<_> = hints.outputs.iter().map(|it| (&*it.name, it.dtype, &it.dims)).collect();
        assert_eq!(all, [("y", None, &None), ("z", None, &None)]);
        assert!(hints.inputs.is_empty());
    }
}
