//! Facts about decoding requests and encoding responses of TensorFlow Serving's calls.

use backend::{DataType, NamedTensor, Shape, Tensor};
use formats::tfs::Results;
use half::{bf16, f16};
use prost::Message;

use super::*;
use formats::tfs::types;
use frontend::grpc::proto::tensorflow::{
    BytesList, Example, Feature, Features, FloatList, Int64List, TensorProto, TensorShapeProto,
    feature::Kind,
    serving::{
        ClassificationRequest, ClassificationResponse, ExampleListWithContext, InferenceTask,
        Input, ModelSpec, MultiInferenceRequest, MultiInferenceResponse, PredictRequest,
        PredictResponse, RegressionResponse, inference_result, input,
    },
    tensor_shape_proto::Dim,
};
use inference::signature::Port;

fn encode(
    form: &Form,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<VecDeque<Bytes>, Error> {
    super::encode(form, signature, response, &Grant::all(0))
}

fn port(name: &str, dtype: DataType, dims: &[Option<usize>], labels: &[&str]) -> Port {
    Port {
        name: name.into(),
        dtype,
        dims: dims.to_vec(),
        any_rank: false,
        scalar: false,
        optional: false,
        labels: labels.iter().map(|it| (*it).to_owned()).collect(),
        text_codes: Default::default(),
    }
}

fn signature(inputs: Vec<Port>, outputs: Vec<Port>) -> Signature {
    Signature {
        named: None,
        graph_checks_shapes: false,
        takes_missing: false,
        model: "m".into(),
        version: 3,
        max_batch_size: 8,
        most_rows: None,
        inputs,
        outputs,
        on_request: Vec::new(),
        pipeline: None,
    }
}

/// A signature with one input and one output `x` of that type.
fn one(dtype: DataType) -> Signature {
    let port = || vec![port("x", dtype, &[None], &[])];
    signature(port(), port())
}

fn spec() -> Option<ModelSpec> {
    Some(ModelSpec { name: "m".to_owned(), ..ModelSpec::default() })
}

fn shape(sizes: &[i64]) -> Option<TensorShapeProto> {
    let dim = sizes.iter().map(|&size| Dim { size, name: String::new() }).collect();
    Some(TensorShapeProto { dim, unknown_rank: false })
}

fn predict(tensor: TensorProto) -> PredictRequest {
    let inputs = [("x".to_owned(), tensor)].into();
    PredictRequest { model_spec: spec(), inputs, ..PredictRequest::default() }
}

fn read(
    method: Method,
    signature: &Signature,
    message: &impl Message,
) -> Result<(InferenceRequest, Form), Error> {
    let message = Bytes::from(message.encode_to_vec());
    Request::of(method, &message)?.decode(signature, &Grant::all(0))
}

/// The tensor that a request with `given` is decoded into.
fn tensor(dtype: DataType, given: TensorProto) -> Result<Tensor, String> {
    let read = read(Method::Predict, &one(dtype), &predict(given));
    let read = read.map_err(|error| error.to_string())?;
    Ok(read.0.inputs[0].tensor.clone())
}

fn response(outputs: Vec<(&str, Tensor)>) -> InferenceResponse {
    let named = |(name, tensor): (&str, Tensor)| NamedTensor { name: name.into(), tensor };
    let outputs = outputs.into_iter().map(named).collect();
    InferenceResponse {
        model: "m".into(),
        version: 3,
        id: None,
        rows: None,
        outputs,
        timings: None,
        parameters: Vec::new(),
    }
}

/// Decodes the message behind the prefix, and checks the length in the prefix.
#[track_caller]
fn message<M: Message + Default>(pieces: &VecDeque<Bytes>) -> M {
    let mut all = pieces.iter().flatten().copied().collect::<Vec<u8>>();
    let message = all.split_off(5);
    assert_eq!(all[0], 0);
    assert_eq!(all[1..], u32::try_from(message.len()).unwrap().to_be_bytes());
    M::decode(&*message).unwrap()
}

/// Two elements of each type; the extremes where the type has some.
fn samples() -> Vec<Tensor> {
    fn of<T: backend::Element + Send>(values: [T; 2]) -> Tensor {
        Tensor::from_vec(Shape::new(&[2]), values.to_vec()).unwrap()
    }
    vec![
        Tensor::new(DataType::Bool, Shape::new(&[2]), Bytes::from_static(&[0, 1])).unwrap(),
        of([u8::MIN, u8::MAX]),
        of([u16::MIN, u16::MAX]),
        of([u32::MIN, u32::MAX]),
        of([u64::MIN, u64::MAX]),
        of([i8::MIN, i8::MAX]),
        of([i16::MIN, i16::MAX]),
        of([i32::MIN, i32::MAX]),
        of([i64::MIN, i64::MAX]),
        of([f16::NEG_INFINITY, f16::from_f32(1.5)]),
        of([bf16::from_f32(-0.5), bf16::INFINITY]),
        of([f32::MIN, 0.25]),
        of([f64::MAX, -0.0]),
        Tensor::from_strings(Shape::new(&[2]), [b"a\0".as_slice(), b"\xff"]).unwrap(),
    ]
}

#[test]
fn what_a_response_lists_a_request_may_list_for_every_type() {
    for sample in samples() {
        let dtype = sample.dtype();
        let pieces = encode(&Form::Predict, &one(dtype), &response(vec![("x", sample.clone())]));
        let written: PredictResponse = message(&pieces.unwrap());
        let proto = written.outputs["x"].clone();
        assert_eq!(proto.dtype, types::number(dtype));
        assert!(proto.tensor_content.is_empty(), "{dtype}");
        let back = tensor(dtype, proto).unwrap();
        assert_eq!((back.shape(), back.to_bytes()), (sample.shape(), sample.to_bytes()), "{dtype}");
    }
}

#[test]
fn tensor_content_is_the_memory_of_the_tensor_and_not_copied() {
    for sample in samples().iter().filter(|it| it.dtype() != DataType::Bytes) {
        let dtype = sample.dtype();
        let proto = TensorProto {
            dtype: types::number(dtype),
            tensor_shape: shape(&[2]),
            tensor_content: sample.to_bytes(),
            ..TensorProto::default()
        };
        let bytes = Bytes::from(predict(proto).encode_to_vec());
        let request = Request::of(Method::Predict, &bytes).unwrap();
        assert_eq!(request.work(&one(dtype)), 0);
        let (request, _) = request.decode(&one(dtype), &Grant::all(0)).unwrap();
        let read = request.inputs[0].tensor.to_bytes();
        assert_eq!(read, sample.to_bytes(), "{dtype}");
        assert!(bytes.as_ptr_range().contains(&read.as_ptr()), "{dtype}");
    }
}

#[test]
fn strings_in_tensor_content_have_their_lengths_in_front() {
    let content = |content: &'static [u8]| TensorProto {
        dtype: 7,
        tensor_shape: shape(&[2]),
        tensor_content: Bytes::from_static(content),
        ..TensorProto::default()
    };
    let read = tensor(DataType::Bytes, content(b"\x02\x01abc")).unwrap();
    assert_eq!(read.strings().collect::<Vec<_>>(), [b"ab".as_slice(), b"c"]);
    for (wrong, part) in [
        (&b"\x02"[..], "expected 2 strings"),
        (b"\x02\x02abc", "expected 2 strings"),
        (b"\x01\x01abc", "1 bytes are left"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "expected 2 strings"),
    ] {
        let error = tensor(DataType::Bytes, content(wrong)).unwrap_err();
        assert!(error.contains("input 'x'") && error.contains(part), "{error}");
    }
}

#[test]
fn one_value_fills_the_tensor_the_last_what_is_missing_and_none_is_zeros() {
    let floats = |values: &[f32]| {
        let float_val = values.to_vec();
        let tensor_shape = shape(&[2, 2]);
        let proto = TensorProto { dtype: 1, tensor_shape, float_val, ..TensorProto::default() };
        tensor(DataType::Fp32, proto).map(|it| it.as_slice_of::<f32>().unwrap().to_vec())
    };
    assert_eq!(floats(&[1.5]).unwrap(), [1.5; 4]);
    assert_eq!(floats(&[1.0, 2.0, 3.0]).unwrap(), [1.0, 2.0, 3.0, 3.0]);
    assert_eq!(floats(&[]).unwrap(), [0.0; 4]);
    let error = floats(&[0.0; 5]).unwrap_err();
    assert_eq!(error, "input 'x': shape [2,2] has 4 elements, float_val has 5");
    let string_val = vec![Bytes::from_static(b"ab")];
    let proto =
        TensorProto { dtype: 7, tensor_shape: shape(&[3]), string_val, ..TensorProto::default() };
    let read = tensor(DataType::Bytes, proto).unwrap();
    assert_eq!(read.strings().collect::<Vec<_>>(), [b"ab".as_slice(); 3]);
}

#[test]
fn what_a_short_message_becomes_is_known_before_it_is_decoded() {
    let huge = shape(&[1 << 30]);
    for proto in [
        TensorProto {
            dtype: 1,
            tensor_shape: huge.clone(),
            float_val: vec![1.0],
            ..TensorProto::default()
        },
        TensorProto { dtype: 1, tensor_shape: huge.clone(), ..TensorProto::default() },
        TensorProto {
            dtype: 7,
            tensor_shape: huge,
            string_val: vec![vec![0; 100].into()],
            ..TensorProto::default()
        },
    ] {
        let bytes = Bytes::from(predict(proto).encode_to_vec());
        let request = Request::of(Method::Predict, &bytes).unwrap();
        assert!(request.work(&one(DataType::Fp32)) >= 4 << 30);
    }
}

#[test]
fn strings_in_the_content_count_with_what_gathers_them() {
    let proto = TensorProto {
        dtype: 7,
        tensor_shape: shape(&[1000]),
        tensor_content: vec![0; 1000].into(),
        ..TensorProto::default()
    };
    let bytes = Bytes::from(predict(proto).encode_to_vec());
    let request = Request::of(Method::Predict, &bytes).unwrap();
    assert!(request.work(&one(DataType::Bytes)) >= 28 * 1000);
}

#[test]
fn what_is_wrong_with_a_tensor_names_its_input() {
    let check = |proto: TensorProto, expected: &str| {
        let proto = TensorProto { tensor_shape: proto.tensor_shape.or(shape(&[1])), ..proto };
        let error = tensor(DataType::Int8, proto).unwrap_err();
        assert_eq!(error, format!("input 'x': {expected}"));
    };
    let none = TensorProto::default;
    check(none(), "dtype: expected DT_INT8 (6), given none");
    check(TensorProto { dtype: 1, ..none() }, "dtype: expected DT_INT8 (6), given DT_FLOAT (1)");
    check(TensorProto { dtype: 8, ..none() }, "dtype: expected DT_INT8 (6), given the number 8");
    let int8 = || TensorProto { dtype: 6, ..none() };
    let float_val = vec![1.0];
    check(TensorProto { float_val, ..int8() }, "expected int_val for DT_INT8, given float_val");
    let too_large = TensorProto { int_val: vec![128], ..int8() };
    check(too_large, "int_val: 128 does not fit DT_INT8");
    let (int_val, tensor_content) = (vec![1], Bytes::from_static(&[1]));
    let both = TensorProto { int_val, tensor_content: tensor_content.clone(), ..int8() };
    check(both, "expected tensor_content or int_val, given both");
    let negative = TensorProto { tensor_shape: shape(&[2, -1]), ..int8() };
    check(negative, "tensor_shape: expected sizes >= 0, given [2, -1]");
    let unknown = TensorShapeProto { unknown_rank: true, ..TensorShapeProto::default() };
    let unknown = TensorProto { tensor_shape: Some(unknown), ..int8() };
    check(unknown, "tensor_shape: expected a known rank, given unknown_rank");
    let two = TensorProto { tensor_shape: shape(&[2]), tensor_content, ..int8() };
    check(two, "tensor_content: INT8 of shape [2] takes 2 bytes, given 1");
    let boolean = TensorProto {
        dtype: 10,
        tensor_shape: shape(&[1]),
        tensor_content: Bytes::from_static(&[2]),
        ..none()
    };
    let error = tensor(DataType::Bool, boolean).unwrap_err();
    assert!(error.contains("element 0 is the byte 2, expected 0 or 1"), "{error}");
}

#[test]
fn names_and_the_filter_are_checked() {
    let signature = one(DataType::Fp32);
    let refused = |request: PredictRequest| {
        read(Method::Predict, &signature, &request).err().unwrap().to_string()
    };
    let tensor = TensorProto { dtype: 1, tensor_shape: shape(&[1]), ..TensorProto::default() };
    let inputs = [("X".to_owned(), tensor.clone())].into();
    let error = refused(PredictRequest { inputs, ..predict(tensor.clone()) });
    assert!(error.contains("no input 'X'") && error.contains("'x'"), "{error}");
    let filtered = |filter: &[&str]| PredictRequest {
        output_filter: filter.iter().map(|it| (*it).to_owned()).collect(),
        ..predict(tensor.clone())
    };
    let (request, _) = read(Method::Predict, &signature, &filtered(&["x"])).unwrap();
    assert_eq!(request.outputs, ["x".into()]);
    let error = refused(filtered(&["y"]));
    assert!(error.starts_with("output_filter: model 'm' has no output 'y'"), "{error}");
    let error = refused(filtered(&["x", "x"]));
    assert!(error.contains("more than once"), "{error}");
    let error = refused(PredictRequest::default());
    assert!(error.starts_with("model_spec.name"), "{error}");
    let mut early = predict(tensor).encode_to_vec();
    early.pop();
    let early = Bytes::from(early);
    assert!(Request::of(Method::Predict, &early).is_err());
    let tiny = Bytes::from([0x1a, 0].repeat(20_000));
    let error = Request::of(Method::Predict, &tiny).err().unwrap().to_string();
    assert!(error.contains("at most 16384"), "{error}");
}

#[test]
fn fields_for_language_models_are_passed_over() {
    let tensor = TensorProto { dtype: 1, tensor_shape: shape(&[1]), ..TensorProto::default() };
    let mut bytes = predict(tensor).encode_to_vec();
    // An empty message, two bytes, and a message with a flag.
    bytes.extend_from_slice(b"\x2a\x00\x32\x02id\x3a\x02\x18\x01");
    let bytes = Bytes::from(bytes);
    let request = Request::of(Method::Predict, &bytes).unwrap();
    assert_eq!(request.decode(&one(DataType::Fp32), &Grant::all(0)).unwrap().0.inputs.len(), 1);
}

#[test]
fn large_floats_leave_as_they_are() {
    let large = Tensor::from_vec(Shape::new(&[1, 3000]), vec![3.0f32; 3000]).unwrap();
    let empty = Tensor::zeros(DataType::Int64, Shape::new(&[0, 2])).unwrap();
    let scalar = Tensor::from_vec(Shape::new(&[]), vec![7u64]).unwrap();
    let address = large.segments()[0].as_ptr();
    let outputs = vec![("l", large), ("e", empty), ("s", scalar)];
    let given = response(outputs);
    let pieces = encode(&Form::Predict, &one(DataType::Fp32), &given).unwrap();
    assert!(pieces.iter().any(|it| it.as_ptr() == address));
    let read: PredictResponse = message(&pieces);
    assert_eq!(read.outputs["l"].float_val, vec![3.0; 3000]);
    assert_eq!(read.outputs["e"].tensor_shape, shape(&[0, 2]));
    assert_eq!(
        (&read.outputs["s"].tensor_shape, &*read.outputs["s"].uint64_val),
        (&shape(&[]), &[7][..])
    );
    assert_eq!(read.model_spec.unwrap().signature_name, "serving_default");
}

fn feature(kind: Kind) -> Feature {
    Feature { kind: Some(kind) }
}

fn floats(value: &[f32]) -> Feature {
    feature(Kind::FloatList(FloatList { value: value.to_vec() }))
}

fn integers(value: &[i64]) -> Feature {
    feature(Kind::Int64List(Int64List { value: value.to_vec() }))
}

fn strings(value: &[&str]) -> Feature {
    let value = value.iter().map(|it| it.as_bytes().to_vec().into()).collect();
    feature(Kind::BytesList(BytesList { value }))
}

fn example(features: &[(&str, Feature)]) -> Example {
    let feature = features.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    Example { features: Some(Features { feature }) }
}

fn classify(examples: Vec<Example>, context: Option<Example>) -> ClassificationRequest {
    let kind = input::Kind::ExampleListWithContext(ExampleListWithContext { examples, context });
    ClassificationRequest { model_spec: spec(), input: Some(Input { kind: Some(kind) }) }
}

/// A signature with one feature of each list; its scores have labels.
fn classifier() -> Signature {
    let inputs = vec![
        port("f", DataType::Fp64, &[Some(2)], &[]),
        port("i", DataType::Int8, &[Some(1)], &[]),
        port("s", DataType::Bytes, &[], &[]),
    ];
    signature(inputs, vec![port("y", DataType::Fp32, &[Some(2)], &["no", "yes"])])
}

#[test]
fn features_of_each_list_become_inputs_and_the_context_fills_in() {
    let first = example(&[("f", floats(&[1.0, 2.0])), ("s", strings(&["a"])), ("z", floats(&[]))]);
    let second =
        example(&[("f", floats(&[3.0, 4.0])), ("s", strings(&["b"])), ("i", integers(&[-8]))]);
    let context = example(&[("i", integers(&[7])), ("other", strings(&["x"]))]);
    let request = classify(vec![first, second], Some(context));
    let (request, form) = read(Method::Classify, &classifier(), &request).unwrap();
    assert!(matches!(form, Form::One(Results::Classes(_))));
    assert_eq!(request.outputs, ["y".into()]);
    let input = |name: &str| {
        let found = request.inputs.iter().find(|it| &*it.name == name).unwrap();
        found.tensor.clone()
    };
    assert_eq!(input("f").as_slice_of::<f64>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(input("i").as_slice_of::<i8>().unwrap(), [7, -8]);
    assert_eq!(input("i").shape().dims(), [2, 1]);
    assert_eq!(input("s").strings().collect::<Vec<_>>(), [b"a", b"b"]);
    assert_eq!(input("s").shape().dims(), [2]);
}

#[test]
fn mistakes_in_examples_are_named_by_index_and_feature() {
    let good = || vec![("f", floats(&[1.0, 2.0])), ("s", strings(&["a"])), ("i", integers(&[1]))];
    type Features = Vec<(&'static str, Feature)>;
    let check = |change: &dyn Fn(&mut Features), expected: &str| {
        let mut wrong = good();
        change(&mut wrong);
        let request = classify(vec![example(&good()), example(&wrong)], None);
        let error = read(Method::Classify, &classifier(), &request).err().unwrap();
        assert_eq!(error.to_string(), expected);
    };
    check(&|it| it[2].1 = integers(&[200]), "examples[1].i: 200 does not fit INT8");
    check(&|it| it[2].1 = floats(&[1.0]), "examples[1].i: expected INT8, given a float");
    check(&|it| it[0].1 = strings(&["1"]), "examples[1].f: expected FP64, given a string");
    check(&|it| it[1].1 = integers(&[1]), "examples[1].s: expected BYTES, given an integer");
    check(
        &|it| it[0].1 = floats(&[1.0]),
        "examples[1].f: expected shape [2] as in the first example, found [1]",
    );
    check(
        &|it| it[0].0 = "F",
        "examples[1]: expected the feature 'f', found none; 'F' is no input",
    );
    let error = read(Method::Classify, &classifier(), &classify(Vec::new(), None)).err().unwrap();
    assert_eq!(error.to_string(), "input: expected at least one example, given none");
}

#[test]
fn a_long_context_is_not_repeated_without_end() {
    let signature = signature(
        vec![port("x", DataType::Fp32, &[None], &[])],
        vec![port("y", DataType::Fp32, &[], &[])],
    );
    let context = example(&[("x", floats(&vec![1.0; 1 << 20]))]);
    let request = classify(vec![Example::default(); 30], Some(context));
    let bytes = Bytes::from(request.encode_to_vec());
    let request = Request::of(Method::Regress, &bytes).unwrap();
    assert!(request.work(&signature) >= 64 << 20);
    let error = request.decode(&signature, &Grant::all(0)).err().unwrap().to_string();
    assert!(error.starts_with("examples[15]: the context is repeated"), "{error}");
}

#[test]
fn a_context_in_several_pieces_is_reckoned_with_whole() {
    let signature = one(DataType::Fp32);
    let context = example(&[("x", floats(&vec![1.0; 1 << 18]))]);
    let examples = vec![Example::default(); 30];
    let mut list = ExampleListWithContext { examples, context: Some(context) }.encode_to_vec();
    let last = Some(Example::default());
    list.extend(ExampleListWithContext { examples: vec![], context: last }.encode_to_vec());
    let head = ClassificationRequest { model_spec: spec(), input: None };
    let (mut input, mut message) = (Vec::new(), head.encode_to_vec());
    prost::encoding::bytes::encode(2, &list, &mut input);
    prost::encoding::bytes::encode(2, &input, &mut message);
    let bytes = Bytes::from(message);
    let request = Request::of(Method::Regress, &bytes).unwrap();
    assert!(request.work(&signature) >= 30 << 20);
}

#[test]
fn results_are_written_as_they_read_back() {
    let signature = classifier();
    let scores = Tensor::from_vec(Shape::new(&[2, 2]), vec![0.25f32, 0.75, 1.0, 0.0]).unwrap();
    let results = Results::of(&signature, formats::tfs::Method::Classify).unwrap();
    let given = response(vec![("y", scores)]);
    let pieces = encode(&Form::One(results.clone()), &signature, &given).unwrap();
    let one: ClassificationResponse = message(&pieces);
    let classes = &one.result.as_ref().unwrap().classifications;
    let named: Vec<Vec<(&str, f32)>> = classes
        .iter()
        .map(|it| it.classes.iter().map(|it| (&*it.label, it.score)).collect())
        .collect();
    assert_eq!(named, [[("no", 0.25), ("yes", 0.75)], [("no", 1.0), ("yes", 0.0)]]);
    let value = Tensor::from_vec(Shape::new(&[2, 1]), vec![3.5f32, 0.0]).unwrap();
    let mut given = given;
    given.outputs.push(NamedTensor { name: "v".into(), tensor: value });
    let values = Results::Values("v".into());
    let pieces = encode(&Form::One(values.clone()), &signature, &given).unwrap();
    let regressed: RegressionResponse = message(&pieces);
    let regressed = regressed.result.unwrap();
    assert_eq!(regressed.regressions.iter().map(|it| it.value).collect::<Vec<_>>(), [3.5, 0.0]);
    let pieces = encode(&Form::Many(vec![values, results]), &signature, &given).unwrap();
    let several: MultiInferenceResponse = message(&pieces);
    assert!(several.results.iter().all(|it| it.model_spec == one.model_spec));
    let [first, second] = &several.results[..] else { panic!("{several:?}") };
    let (first, second) = (first.result.clone().unwrap(), second.result.clone().unwrap());
    assert_eq!(first, inference_result::Result::RegressionResult(regressed));
    assert_eq!(second, inference_result::Result::ClassificationResult(one.result.unwrap()));
}

#[test]
fn tasks_are_of_one_model_and_have_a_method_each() {
    let refused = |tasks: Vec<InferenceTask>| {
        let request = MultiInferenceRequest { tasks, input: None };
        read(Method::MultiInference, &classifier(), &request).err().unwrap().to_string()
    };
    let task = |name: &str, method_name: &str| InferenceTask {
        model_spec: Some(ModelSpec { name: name.to_owned(), ..ModelSpec::default() }),
        method_name: method_name.to_owned(),
    };
    assert_eq!(refused(Vec::new()), "tasks: expected at least one, given none");
    let classify = "tensorflow/serving/classify";
    let error = refused(vec![task("m", classify), task("n", classify)]);
    assert!(error.starts_with("tasks[1].model_spec: expected the model"), "{error}");
    let error = refused(vec![task("m", classify), task("m", "tensorflow/serving/predict")]);
    assert!(error.starts_with("tasks[1].method_name: expected tensorflow/"), "{error}");
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::prelude::any::<Vec<u8>>(), at: usize, byte: u8) {
        let proto = TensorProto { dtype: 1, tensor_shape: shape(&[1]), float_val: vec![1.0], ..TensorProto::default() };
        let examples = vec![example(&[("f", floats(&[1.0])), ("i", integers(&[1]))])];
        let mut predict = predict(proto).encode_to_vec();
        let mut classify = classify(examples, None).encode_to_vec();
        for message in [&mut predict, &mut classify] {
            let at = at % message.len();
            message[at] = byte;
        }
        for message in [bytes, predict, classify].map(Bytes::from) {
            for method in [Method::Predict, Method::Classify, Method::MultiInference] {
                if let Ok(request) = Request::of(method, &message)
                    && request.work(&classifier()) < 1 << 20
                {
                    let _ = request.decode(&classifier(), &Grant::all(0));
                }
            }
        }
    }
}
