//! A request against the model's signature: names, types, shapes, rows. What passes is ready to be queued.
//! Pure.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::Arc,
};

use backend::{LARGEST_WITHOUT_ZEROS, MOST_EMPTY_PARTS, NamedTensor, Shape, Tensor};

use crate::config::model::{ModelConfig, PortConfig, Rows};
use inference::{
    error::Error,
    messages,
    request::InferenceRequest,
    signature::{Port, Signature, nearest},
};
use schedule::work::Work;

/// A request that fits its model.
#[derive(Debug)]
pub struct Prepared {
    /// Its inputs in the order of the signature and in the engine's shapes, its outputs by name.
    pub work: Work,
    /// Requests with equal keys may share a batch.
    pub shape_key: u64,
}

/// Checks a request against `signature`, and brings its tensors into the shapes that `config` says the engine
/// wants. The inputs are taken out of the request.
///
/// # Errors
/// The first thing that is wrong, with what was expected and what was given.
pub fn prepare(
    request: &mut InferenceRequest,
    signature: &Signature,
    config: &ModelConfig,
) -> Result<Prepared, Error> {
    check_names(request, signature)?;
    let mut rows = None;
    let mut inputs = Vec::with_capacity(request.inputs.len());
    let mut key = DefaultHasher::new();
    let mut varies = false;
    let leaves_shapes = request.leaves_shapes_to_graph && signature.graph_checks_shapes;
    for (at, port) in signature.inputs.iter().enumerate() {
        let Some(given) = request.inputs.iter().position(|it| it.name == port.name) else {
            // Requests that leave out the same optional inputs may share a batch.
            (at, "absent").hash(&mut key);
            varies = true;
            continue;
        };
        let NamedTensor { name, tensor } = request.inputs.swap_remove(given);
        if tensor.dtype() != port.dtype {
            return Err(Error::InvalidRequest(messages::wrong_data_type(
                &port.name,
                tensor.dtype(),
                &signature.model,
                port.dtype,
            )));
        }
        check_size(port, tensor.shape())?;
        if leaves_shapes && is_left_to_graph(signature, port, tensor.shape()) {
            // Only requests of the same shapes may share a batch.
            tensor.shape().hash(&mut key);
            varies = true;
            if signature.batches() {
                check_rows(signature, port, tensor.shape(), &mut rows)?;
            }
            inputs.push(NamedTensor { name, tensor });
            continue;
        }
        let item = item_dims(signature, port, config.inputs.get(at), tensor.shape())?;
        if signature.batches() {
            check_rows(signature, port, tensor.shape(), &mut rows)?;
        }
        let is_ragged = config.inputs.get(at).is_some_and(|it| it.ragged);
        if port.dims.contains(&None) && !is_ragged {
            item.hash(&mut key);
            varies = true;
        }
        let shape = engine_shape(tensor.shape(), item, config.inputs.get(at), config.rows());
        let tensor = match shape {
            Some(shape) if shape == *tensor.shape() => Some(tensor),
            Some(shape) => tensor.reshape(shape),
            None => None,
        };
        let problem = || Error::input(&*port.name, "its shape does not fit the configured reshape");
        inputs.push(NamedTensor { name, tensor: tensor.ok_or_else(problem)? });
    }
    let outputs = match request.outputs.as_slice() {
        [] => signature.outputs.iter().map(|it| it.name.clone()).collect(),
        wanted => wanted.to_vec(),
    };
    let rows = rows.unwrap_or(1);
    check_cuts(signature, &inputs, rows)?;
    let shape_key = key_of(signature, if varies { key.finish() } else { 0 });
    Ok(Prepared { work: Work { inputs, outputs, rows, signature: signature.index() }, shape_key })
}

/// The hash of its shapes; where a model has several signatures, with the number of this one in front, so that requests
/// for two of them never have equal keys.
fn key_of(signature: &Signature, shapes: u64) -> u64 {
    match (signature.index(), signature.others()) {
        (0, []) => shapes,
        (index, _) => (index as u64) << SHAPE_BITS | shapes >> (u64::BITS - SHAPE_BITS),
    }
}

/// Bits of a key that are left for shapes.
const SHAPE_BITS: u32 = 48;

/// So many signatures can be told from each other.
pub(crate) const MOST_SIGNATURES: usize = 1 << (u64::BITS - SHAPE_BITS);

/// Every input known and given once, every required one there, every output known.
fn check_names(request: &InferenceRequest, signature: &Signature) -> Result<(), Error> {
    let model = &signature.model;
    for (at, input) in request.inputs.iter().enumerate() {
        if !signature.inputs.iter().any(|it| it.name == input.name) {
            let unexpected = messages::unexpected_input(&input.name, model);
            return Err(unknown(unexpected, &input.name, &signature.inputs));
        }
        if request.inputs.iter().take(at).any(|it| it.name == input.name) {
            return Err(Error::InvalidRequest(messages::input_exists(&input.name)));
        }
    }
    let is_given = |port: &&Port| request.inputs.iter().any(|it| it.name == port.name);
    let missing: Vec<&str> = signature
        .inputs
        .iter()
        .filter(|it| !it.optional && !is_given(it))
        .map(|it| &*it.name)
        .collect();
    if !missing.is_empty() {
        return Err(Error::InvalidRequest(messages::inputs_missing(
            signature.inputs.iter().filter(|it| !it.optional).count(),
            signature.inputs.len(),
            model,
            request.inputs.iter().map(|it| &*it.name),
            missing.into_iter(),
        )));
    }
    for name in &request.outputs {
        let mut known = signature.outputs.iter().chain(&signature.on_request);
        if !known.any(|it| it.name == *name) {
            let unexpected = messages::unexpected_output(name, model);
            return Err(unknown(unexpected, name, &signature.outputs));
        }
    }
    Ok(())
}

fn unknown(unexpected: String, name: &str, ports: &[Port]) -> Error {
    let names: Vec<&str> = ports.iter().map(|it| &*it.name).collect();
    let hint = nearest(name, names.iter().copied());
    let hint = hint.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
    Error::InvalidRequest(format!("{unexpected}; it has: {}{hint}", names.join(", ")))
}

/// The dimensions of one element, however many there are.
const ONES: [usize; 8] = [1; 8];

/// What is left of a shape without the batch dimension; `None` where it has none.
fn item_of<'s>(signature: &Signature, dims: &'s [usize]) -> Option<&'s [usize]> {
    if signature.batches() { dims.get(1..) } else { Some(dims) }
}

/// Is it a shape that is not the port's and that the graph itself is to judge? One of as many dimensions in other
/// sizes, where requests are not merged; or, as the first example of TensorFlow Serving's documentation sends it, one
/// without a last dimension of 1. Other ranks are left to no graph: there are kernels that end the process at one.
fn is_left_to_graph(signature: &Signature, port: &Port, shape: &Shape) -> bool {
    let Some(item) = item_of(signature, shape.dims()) else { return false };
    if !signature.batches() && item.len() == port.dims.len() {
        return !port.takes(item);
    }
    let Some((Some(1), rest)) = port.dims.split_last() else { return false };
    let fits = |(given, dim): (&usize, &Option<usize>)| dim.is_none_or(|it| it == *given);
    item.len() == rest.len() && item.iter().zip(rest).all(fits)
}

/// The dimensions of one item, the batch dimension taken off, checked against the port.
fn item_dims<'s>(
    signature: &Signature,
    port: &Port,
    config: Option<&PortConfig>,
    shape: &'s Shape,
) -> Result<&'s [usize], Error> {
    let given = shape.dims();
    let item = item_of(signature, given);
    let is_scalar = config.is_some_and(|it| it.reshape.as_ref().is_some_and(Vec::is_empty));
    let ones = ONES.get(..port.dims.len()).unwrap_or_default();
    match item {
        Some(item) if port.takes(item) => Ok(item),
        // A scalar may be written with or without its one dimension.
        Some([]) if port.dims == [Some(1)] => Ok(&[1]),
        Some([1]) if port.dims.is_empty() => Ok(&[]),
        // What has no dimensions in the engine may have any number of them.
        Some(item) if is_scalar && item.iter().all(|it| *it == 1) => Ok(ones),
        _ => Err(Error::InvalidRequest(wrong_shape(signature, port, shape))),
    }
}

fn wrong_shape(signature: &Signature, port: &Port, given: &Shape) -> String {
    let expected = signature.shape_text(port);
    let example = expected.replace("-1", "1");
    let batch = match (signature.batches(), signature.most_rows) {
        (false, _) => "without a batch dimension".to_owned(),
        (true, None) => "the first dimension is the batch".to_owned(),
        (true, Some(most)) => format!("the first dimension is the batch, at most {most}"),
    };
    let wrong = messages::wrong_shape(&port.name, &signature.model, &expected, given);
    format!("{wrong} ({batch}; {example} would do)")
}

/// A shape without elements is of a size that any code may go by. Engines and clients differ in what they hold for a
/// dimension, and none of its bytes has been sent or counted.
fn check_size(port: &Port, given: &Shape) -> Result<(), Error> {
    if !given.overstates() {
        return Ok(());
    }
    let problem = format!(
        "its shape {given} has no elements; such a shape may have {MOST_EMPTY_PARTS} parts in front of its first zero, \
         and {LARGEST_WITHOUT_ZEROS} elements without its zeros"
    );
    Err(Error::input(&*port.name, problem))
}

/// All inputs have the same number of rows, no more than the model takes.
fn check_rows(
    signature: &Signature,
    port: &Port,
    shape: &Shape,
    rows: &mut Option<usize>,
) -> Result<(), Error> {
    let given = shape.rows().unwrap_or(0);
    if let Some(most) = signature.most_rows.filter(|it| *it < given) {
        return Err(Error::InvalidRequest(format!(
            "{}: input '{}' has {given} rows",
            messages::too_many_rows(most, &signature.model),
            port.name
        )));
    }
    match *rows.get_or_insert(given) {
        first if first == given => Ok(()),
        first => {
            let differ = messages::rows_differ(&port.name, &signature.model);
            let problem =
                format!("{differ}: it has {given} rows, and those before it have {first}");
            Err(Error::InvalidRequest(problem))
        }
    }
}

/// A request of more rows than a run has is cut into parts, so its rows must have elements: those without any take no
/// byte, and no limit on bytes would bound the runs.
fn check_cuts(signature: &Signature, inputs: &[NamedTensor], rows: usize) -> Result<(), Error> {
    let most = signature.max_batch_size;
    let is_empty = inputs.iter().all(|it| it.tensor.elements() == 0);
    if signature.batches() && most < rows && is_empty {
        return Err(Error::InvalidRequest(format!(
            "{}: its {rows} rows have no elements",
            messages::too_many_rows(most, &signature.model)
        )));
    }
    Ok(())
}

/// The shape that the engine wants; `None` where a configured reshape has no place for the item.
fn engine_shape(
    given: &Shape,
    item: &[usize],
    config: Option<&PortConfig>,
    rows: Rows,
) -> Option<Shape> {
    let batch = given.rows().filter(|_| rows == Rows::First);
    let shape: Shape = batch.into_iter().chain(item.iter().copied()).collect();
    match config {
        Some(config) if !config.any_rank => config.to_engine(&shape, rows),
        _ => Some(shape),
    }
}

/// Turns an engine's output into what clients see: the reverse of an input's reshape.
pub fn present(config: &ModelConfig, output: &mut NamedTensor) {
    let port = config.outputs.iter().find(|it| it.name == output.name);
    let Some(port) = port.filter(|it| it.reshape.is_some()) else { return };
    let shape = port.to_client(output.tensor.shape(), config.rows());
    if let Some(tensor) = shape.and_then(|it| output.tensor.reshape(it)) {
        output.tensor = tensor;
    }
}

/// One request of zeros that the model must be able to run: what warming up uses. Free dimensions are 1. `None` where
/// it is not known how many there are.
pub fn request_of_zeros(signature: &Signature, rows: usize) -> Option<InferenceRequest> {
    let batch = signature.batches().then_some(rows);
    let required = signature.inputs.iter().filter(|it| !it.optional);
    if required.clone().any(|it| it.any_rank) {
        return None;
    }
    let inputs = required.map(|port| {
        let dims = port.dims.iter().map(|it| it.unwrap_or(1));
        let shape = batch.into_iter().chain(dims).collect();
        let tensor = Tensor::zeros(port.dtype, shape).ok()?;
        Some(NamedTensor { name: Arc::clone(&port.name), tensor })
    });
    Some(InferenceRequest { inputs: inputs.collect::<Option<_>>()?, ..InferenceRequest::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        choose::EngineChoice,
        complete::{Defaults, complete},
        pbtxt::ConfigReader,
    };
    use backend::DataType;
    use inference::signature::Named;
    use std::collections::BTreeMap;

    const USUAL: &str = r#"
        max_batch_size: 8
        input [{ name: "a" data_type: TYPE_FP32 dims: [ 3 ] }, { name: "b" data_type: TYPE_INT64 dims: [ -1 ] }]
        output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }]
    "#;

    /// The model of that configuration.
    fn model(text: &str) -> (Signature, ModelConfig) {
        let raw = ConfigReader::default().parse_text("config.pbtxt", text).unwrap();
        let choice = EngineChoice {
            platform: String::new(),
            backend: "identity".into(),
            default_model_filename: None,
            options: BTreeMap::new(),
        };
        let completed = complete(
            Some(&raw),
            "m",
            &choice,
            &crate::config::engines::usual(),
            None,
            &Defaults::default(),
        )
        .unwrap();
        (completed.config.signature(1, &BTreeMap::new()), completed.config)
    }

    fn prepared(text: &str, asked: &InferenceRequest) -> Result<Prepared, Error> {
        let (signature, config) = model(text);
        prepare(&mut asked.clone(), &signature, &config)
    }

    fn request(inputs: &[(&str, DataType, &[usize])]) -> InferenceRequest {
        let tensor = |dtype, shape| Tensor::zeros(dtype, Shape::new(shape)).unwrap();
        let inputs = inputs
            .iter()
            .map(|&(name, dtype, shape)| NamedTensor {
                name: name.into(),
                tensor: tensor(dtype, shape),
            })
            .collect();
        InferenceRequest { inputs, ..InferenceRequest::default() }
    }

    #[track_caller]
    fn fails(inputs: &[(&str, DataType, &[usize])], text: &str) {
        let error = prepared(USUAL, &request(inputs)).unwrap_err();
        assert_eq!(error.to_string(), text);
    }

    use DataType::{Fp32, Fp64, Int64};

    #[test]
    fn inputs_come_out_in_the_order_of_the_signature_and_all_outputs_are_wanted() {
        let asked = request(&[("b", Int64, &[2, 5]), ("a", Fp32, &[2, 3])]);
        let prepared = prepared(USUAL, &asked).unwrap();
        let names: Vec<&str> = prepared.work.inputs.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(prepared.work.outputs, [Arc::from("y")]);
        assert_eq!(prepared.work.rows, 2);
    }

    #[test]
    fn each_fault_is_named_with_what_was_expected_and_given() {
        fails(
            &[("a", Fp32, &[1, 3])],
            "expected 2 inputs but got 1 inputs for model 'm'. Got input(s) ['a'], but missing required input(s) \
             ['b']. Please provide all required input(s).",
        );
        fails(
            &[("aa", Fp32, &[1, 3])],
            "unexpected inference input 'aa' for model 'm'; it has: a, b; did you mean 'a'?",
        );
        let twice: &[(&str, DataType, &[usize])] = &[("a", Fp32, &[1, 3]), ("a", Fp32, &[1, 3])];
        fails(twice, "input 'a' already exists in request");
        fails(
            &[("a", Fp64, &[1, 3]), ("b", Int64, &[1, 1])],
            "inference input 'a' data-type is 'FP64', but model 'm' expects 'FP32'",
        );
        fails(
            &[("a", Fp32, &[3]), ("b", Int64, &[1, 1])],
            "inference input 'a': unexpected shape for input 'a' for model 'm'. Expected [-1,3], got [3] \
             (the first dimension is the batch; [1,3] would do)",
        );
        fails(
            &[("a", Fp32, &[2, 3]), ("b", Int64, &[1, 1])],
            "input 'b' batch size does not match other inputs for 'm': it has 1 rows, and those before it have 2",
        );
    }

    #[test]
    fn more_rows_than_a_run_has_are_refused_only_where_a_request_cannot_be_cut() {
        let nine = request(&[("a", Fp32, &[9, 3]), ("b", Int64, &[9, 1])]);
        assert_eq!(prepared(USUAL, &nine).unwrap().work.rows, 9);
        let (signature, config) = model(USUAL);
        let bounded = Signature { most_rows: Some(8), ..signature };
        let error = prepare(&mut nine.clone(), &bounded, &config).unwrap_err();
        let text = "inference request batch-size must be <= 8 for 'm': input 'a' has 9 rows";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn rows_without_elements_are_as_many_as_a_run_has_at_most() {
        let text = r#"
            max_batch_size: 8
            input [{ name: "x" data_type: TYPE_FP32 dims: [ -1 ] }]
            output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }]
        "#;
        let of = |dims: &[usize]| prepared(text, &request(&[("x", Fp32, dims)]));
        assert_eq!(of(&[8, 0]).unwrap().work.rows, 8);
        assert_eq!(of(&[9, 1]).unwrap().work.rows, 9);
        let error = of(&[1_000_000, 0]).unwrap_err().to_string();
        let text =
            "inference request batch-size must be <= 8 for 'm': its 1000000 rows have no elements";
        assert_eq!(error, text);
        let beside = request(&[("a", Fp32, &[9, 3]), ("b", Int64, &[9, 0])]);
        assert_eq!(prepared(USUAL, &beside).unwrap().work.rows, 9);
    }

    #[test]
    fn an_input_without_elements_is_of_a_size_that_could_be_sent() {
        let text = r#"
            input [{ name: "x" data_type: TYPE_FP32 dims: [ -1, -1, -1 ] }]
            output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] }]
        "#;
        let of = |dims: &[usize]| prepared(text, &request(&[("x", Fp32, dims)]));
        for dims in [[0, 4320, 7680], [4096, 0, 128], [1, 1, 0]] {
            assert_eq!(of(&dims).unwrap().work.inputs[0].tensor.shape().dims(), dims);
        }
        for dims in [[1, 1 << 50, 0], [0, 1 << 50, 1], [1 << 50, 0, 0], [1 << 40, 1 << 40, 0]] {
            let error = of(&dims).unwrap_err().to_string();
            let shown = format!("its shape {} has no elements; such a shape", Shape::new(&dims));
            assert!(error.contains("'x'") && error.contains(&shown), "{error}");
        }
    }

    #[test]
    fn an_unknown_output_is_named() {
        let mut asked = request(&[("a", Fp32, &[1, 3]), ("b", Int64, &[1, 1])]);
        asked.outputs = vec!["z".into()];
        let error = prepared(USUAL, &asked).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("unexpected inference output 'z' for model 'm'; it has: y")
        );
    }

    #[test]
    fn an_input_of_unknown_rank_takes_any_shape_and_each_for_itself() {
        let text = "input { name: 'x' data_type: TYPE_FP32 dims: [ -1 ] }
            output { name: 'y' data_type: TYPE_FP32 dims: [ 1 ] }";
        let (mut signature, mut config) = model(text);
        (signature.inputs[0].any_rank, config.inputs[0].any_rank) = (true, true);
        let prepared = |dims: &[usize]| {
            let prepared = prepare(&mut request(&[("x", Fp32, dims)]), &signature, &config);
            let Prepared { work, shape_key } = prepared.unwrap();
            assert_eq!(work.inputs[0].tensor.shape().dims(), dims);
            shape_key
        };
        let keys: std::collections::BTreeSet<u64> =
            [&[2][..], &[2, 3], &[3, 2], &[], &[1, 2, 3]].into_iter().map(prepared).collect();
        assert_eq!(keys.len(), 5);
        assert!(request_of_zeros(&signature, 1).is_none(), "what shape it takes is not known");
    }

    #[test]
    fn only_shapes_that_may_vary_keep_requests_apart() {
        let key = |b: &[usize]| {
            let asked = request(&[("a", Fp32, &[b[0], 3]), ("b", Int64, b)]);
            prepared(USUAL, &asked).unwrap().shape_key
        };
        assert_eq!(key(&[1, 4]), key(&[2, 4]));
        assert_ne!(key(&[1, 4]), key(&[1, 5]));
    }

    #[test]
    fn requests_for_two_signatures_of_a_model_never_have_equal_keys() {
        let asked = || request(&[("a", Fp32, &[1, 3]), ("b", Int64, &[1, 4])]);
        let (signature, config) = model(USUAL);
        let named = |index, others: &[Signature]| Named {
            name: "s".into(),
            index,
            method: None,
            others: others.into(),
            unusable: Arc::default(),
            definitions: Default::default(),
        };
        let other = Signature { named: Some(named(1, &[])), ..signature.clone() };
        let default =
            Signature { named: Some(named(0, std::slice::from_ref(&other))), ..signature };
        let prepared = |it: &Signature| prepare(&mut asked(), it, &config).unwrap();
        let (first, second) = (prepared(&default), prepared(&other));
        assert_eq!((first.work.signature, second.work.signature), (0, 1));
        assert_eq!((first.shape_key >> SHAPE_BITS, second.shape_key >> SHAPE_BITS), (0, 1));
    }

    #[test]
    fn an_optional_input_may_be_left_out_and_keeps_requests_apart() {
        let optional = &USUAL.replace("dims: [ -1 ]", "dims: [ -1 ] optional: true");
        let without = prepared(optional, &request(&[("a", Fp32, &[1, 3])])).unwrap();
        let with = request(&[("a", Fp32, &[1, 3]), ("b", Int64, &[1, 1])]);
        let with = prepared(optional, &with).unwrap();
        assert_ne!(without.shape_key, with.shape_key);
        assert_eq!(without.work.inputs.len(), 1);
    }

    #[test]
    fn a_scalar_may_be_written_either_way() {
        let text = r#"
            max_batch_size: 4
            input [{ name: "s" data_type: TYPE_FP32 dims: [ 1 ] reshape: { shape: [ ] } }]
            output [{ name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape: { shape: [ ] } }]
        "#;
        for shape in [[2].as_slice(), &[2, 1]] {
            let prepared = prepared(text, &request(&[("s", Fp32, shape)])).unwrap();
            assert_eq!(prepared.work.inputs[0].tensor.shape().dims(), [2]);
        }
        let (_, config) = model(text);
        let tensor = Tensor::zeros(Fp32, Shape::new(&[2])).unwrap();
        let mut output = NamedTensor { name: "y".into(), tensor };
        present(&config, &mut output);
        assert_eq!(output.tensor.shape().dims(), [2, 1]);
    }

    #[test]
    fn a_scalar_of_the_engine_may_have_any_number_of_dimensions_of_one() {
        for dims in ["1", "1, 1"] {
            let (signature, mut config) = model(&format!(
                "input {{ name: 's' data_type: TYPE_FP32 dims: [ {dims} ] }}
                 output {{ name: 'y' data_type: TYPE_FP32 dims: [ 1 ] }}"
            ));
            config.inputs[0].reshape = Some(Vec::new());
            let prepared =
                |shape| prepare(&mut request(&[("s", Fp32, shape)]), &signature, &config);
            for shape in [[].as_slice(), &[1], &[1, 1], &[1, 1, 1]] {
                let prepared = prepared(shape).unwrap();
                assert_eq!(prepared.work.inputs[0].tensor.shape().dims(), [] as [usize; 0]);
            }
            for shape in [[2].as_slice(), &[0], &[1, 2]] {
                prepared(shape).unwrap_err();
            }
        }
    }

    #[test]
    fn zero_rows_are_a_batch_too() {
        let asked = request(&[("a", Fp32, &[0, 3]), ("b", Int64, &[0, 5])]);
        let prepared = prepared(USUAL, &asked).unwrap();
        assert_eq!(prepared.work.rows, 0);
    }
}
