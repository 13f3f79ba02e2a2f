//! Messages of KServe's and of TensorFlow Serving's gRPC services.

use bytes::Bytes;
use formats::expansion::Limit;
use frontend::grpc::proto::{
    InferParameter, InferTensorContents, ModelInferRequest,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};
use kserve::grpc::{infer_message, request};
use prost::Message;
use tensorflow_serving::grpc::{Method, messages};

use super::Target;
use crate::{
    oracle,
    requests::{Input, inputs},
    seen::Seen,
    signatures::numbers,
};

/// The parts of a parsed message, whose number is bounded.
const PARTS: Limit = Limit { free: 10 << 20, ratio: 8, most: usize::MAX };

const WORDS: &[&str] = &[
    "\u{a}\u{1}x",
    "\u{12}\u{4}FP32",
    "\u{1a}\u{1}\u{1}",
    "\u{2a}\u{0}",
    "\u{32}\u{0}",
    "\u{3a}\u{0}",
    "\u{8}\u{1}",
    "\u{22}\u{0}",
    "INT64",
    "BYTES",
    "BOOL",
    "x",
    "y",
    "sequence_id",
    "priority",
    "timeout",
    "binary_data",
    "classification",
    "shared_memory_region",
    "shared_memory_byte_size",
    "\u{7f}\u{7f}\u{7f}",
    "serving_default",
    "tensorflow/serving/predict",
    "tensorflow/serving/classify",
    "tensorflow/serving/regress",
];

/// `ModelInferRequest`.
pub(super) const INFER: Target = Target {
    name: "grpc-infer",
    decode: |data| {
        let mut seen = Seen::default();
        let Some(Input { signature, body, .. }) = Input::of(data) else { return seen };
        let message = Bytes::copy_from_slice(body);
        let target = infer_message::Target::of(&message).map(|it| it.model.len());
        let parsed = oracle::within(PARTS, body.len(), || infer_message::Request::of(&message));
        assert!(target.is_ok() || parsed.is_err(), "the start of a good message is good");
        let Some(parsed) = seen.result(parsed) else { return seen };
        // An error may name a part of the message; the list of inputs is as long as the message's.
        let decoded = oracle::within_grant(4 * body.len() + (4 << 10), |grant| {
            request::decode(&signature, parsed, grant)
        });
        let Some((request, wanted)) = seen.result(decoded) else { return seen };
        seen.fact((request.inputs.len(), wanted.forms.len(), wanted.shared.is_some()));
        seen
    },
    examples: || {
        let input = |datatype: &str, shape: &[i64], contents| InferInputTensor {
            name: "x".to_owned(),
            datatype: datatype.to_owned(),
            shape: shape.to_vec(),
            contents,
            ..InferInputTensor::default()
        };
        let none = InferTensorContents::default;
        let contents = [
            ("FP32", InferTensorContents { fp32_contents: vec![1.0, 2.0], ..none() }),
            ("INT64", InferTensorContents { int64_contents: vec![1, -2], ..none() }),
            ("BOOL", InferTensorContents { bool_contents: vec![true, false], ..none() }),
            (
                "BYTES",
                InferTensorContents {
                    bytes_contents: vec![Bytes::from_static(b"ab"); 2],
                    ..none()
                },
            ),
            ("FP64", InferTensorContents { fp64_contents: vec![1.0, 2.0, 3.0], ..none() }),
            ("UINT8", InferTensorContents { uint_contents: vec![1, 2], ..none() }),
            ("INT8", InferTensorContents { int_contents: vec![1, -2], ..none() }),
        ];
        let parameter = |choice| InferParameter { parameter_choice: Some(choice) };
        let mut bodies = Vec::new();
        for (datatype, contents) in contents {
            let shape = [1, if datatype == "FP64" { 3 } else { 2 }];
            let typed = input(datatype, &shape, Some(contents));
            let request = ModelInferRequest {
                model_name: "m".to_owned(),
                inputs: vec![typed],
                ..Default::default()
            };
            bodies.push(request.encode_to_vec());
            let raw = ModelInferRequest {
                model_version: "1".to_owned(),
                id: "i".to_owned(),
                inputs: vec![input(datatype, &[1, 1], None)],
                raw_input_contents: vec![Bytes::from_static(&[1, 0, 0, 0, b'a', 0, 0, 0])],
                outputs: vec![InferRequestedOutputTensor {
                    name: "x".to_owned(),
                    parameters: [(
                        "classification".to_owned(),
                        parameter(ParameterChoice::Int64Param(2)),
                    )]
                    .into(),
                }],
                parameters: [
                    (
                        "sequence_id".to_owned(),
                        parameter(ParameterChoice::StringParam("s".to_owned())),
                    ),
                    ("priority".to_owned(), parameter(ParameterChoice::Uint64Param(2))),
                    ("other".to_owned(), parameter(ParameterChoice::DoubleParam(0.5))),
                ]
                .into(),
                ..Default::default()
            };
            bodies.push(raw.encode_to_vec());
        }
        let region = parameter(ParameterChoice::StringParam("r".to_owned()));
        let size = parameter(ParameterChoice::Int64Param(8));
        let mut shared = input("FP32", &[1, 2], None);
        shared.parameters = [
            ("shared_memory_region".to_owned(), region),
            ("shared_memory_byte_size".to_owned(), size),
        ]
        .into();
        bodies
            .push(ModelInferRequest { inputs: vec![shared], ..Default::default() }.encode_to_vec());
        inputs(numbers(), [0], &bodies)
    },
    words: WORDS,
};

/// A message of one of TensorFlow Serving's calls.
fn tensorflow(data: &[u8], method: impl Fn(u8) -> Method) -> Seen {
    let mut seen = Seen::default();
    let Some(Input { signature, choice, body }) = Input::of(data) else { return seen };
    let message = Bytes::copy_from_slice(body);
    let parsed =
        oracle::within(PARTS, body.len(), || messages::Request::of(method(choice), &message));
    let Some(parsed) = seen.result(parsed) else { return seen };
    seen.fact(parsed.spec().name.len().min(2));
    let decoded =
        oracle::within_grant(4 * body.len() + (4 << 10), |grant| parsed.decode(&signature, grant));
    let Some((request, _)) = seen.result(decoded) else { return seen };
    seen.fact((request.inputs.len(), request.outputs.len()));
    seen
}

/// `PredictRequest`.
pub(super) const TFS_PREDICT: Target = Target {
    name: "grpc-tfs-predict",
    decode: |data| tensorflow(data, |_| Method::Predict),
    examples: || {
        use frontend::grpc::proto::tensorflow::{
            DataType, TensorProto, TensorShapeProto, serving::PredictRequest,
            tensor_shape_proto::Dim,
        };
        let tensor = |dtype: DataType, dims: &[i64]| TensorProto {
            dtype: dtype.into(),
            tensor_shape: Some(TensorShapeProto {
                dim: dims.iter().map(|it| Dim { size: *it, ..Dim::default() }).collect(),
                ..TensorShapeProto::default()
            }),
            ..TensorProto::default()
        };
        let tensors = [
            TensorProto { float_val: vec![1.0], ..tensor(DataType::DtFloat, &[1, 2]) },
            TensorProto { tensor_content: vec![0; 8].into(), ..tensor(DataType::DtFloat, &[1, 2]) },
            TensorProto { int64_val: vec![1, -2], ..tensor(DataType::DtInt64, &[2, 1]) },
            TensorProto { bool_val: vec![true], ..tensor(DataType::DtBool, &[1, 1]) },
            TensorProto {
                string_val: vec![Bytes::from_static(b"ab")],
                ..tensor(DataType::DtString, &[1, 1])
            },
            TensorProto { double_val: vec![1.0; 3], ..tensor(DataType::DtDouble, &[1, 3]) },
            TensorProto { half_val: vec![15360], ..tensor(DataType::DtHalf, &[1, 2]) },
            TensorProto { int_val: vec![1, 2], ..tensor(DataType::DtUint8, &[2]) },
        ];
        let mut bodies = Vec::new();
        for tensor in tensors {
            let request = PredictRequest {
                model_spec: Some(spec()),
                inputs: [("x".to_owned(), tensor)].into(),
                output_filter: vec!["x".to_owned()],
            };
            bodies.push(request.encode_to_vec());
        }
        inputs(numbers(), [0], &bodies)
    },
    words: WORDS,
};

fn spec() -> frontend::grpc::proto::tensorflow::serving::ModelSpec {
    frontend::grpc::proto::tensorflow::serving::ModelSpec {
        name: "m".to_owned(),
        signature_name: "serving_default".to_owned(),
        ..Default::default()
    }
}

/// `ClassificationRequest`, `RegressionRequest` and `MultiInferenceRequest`.
pub(super) const TFS_EXAMPLES: Target = Target {
    name: "grpc-tfs-examples",
    decode: |data| {
        tensorflow(data, |choice| match choice % 3 {
            0 => Method::Classify,
            1 => Method::Regress,
            _ => Method::MultiInference,
        })
    },
    examples: || {
        use frontend::grpc::proto::tensorflow::{
            BytesList, Example, Feature, Features, FloatList, Int64List,
            feature::Kind,
            serving::{
                ClassificationRequest, ExampleList, ExampleListWithContext, InferenceTask,
                Input as Examples, MultiInferenceRequest, input,
            },
        };
        let example = |name: &str, kind| Example {
            features: Some(Features {
                feature: [(name.to_owned(), Feature { kind: Some(kind) })].into(),
            }),
        };
        let floats = || example("x", Kind::FloatList(FloatList { value: vec![1.0, 2.0] }));
        let integers = || example("x", Kind::Int64List(Int64List { value: vec![1, -2] }));
        let bytes =
            || example("x", Kind::BytesList(BytesList { value: vec![Bytes::from_static(b"ab")] }));
        let lists = [
            input::Kind::ExampleList(ExampleList { examples: vec![floats(), floats()] }),
            input::Kind::ExampleList(ExampleList { examples: vec![integers()] }),
            input::Kind::ExampleList(ExampleList { examples: vec![bytes()] }),
            input::Kind::ExampleListWithContext(ExampleListWithContext {
                examples: vec![
                    Example::default(),
                    example("y", Kind::Int64List(Int64List { value: vec![3] })),
                ],
                context: Some(floats()),
            }),
        ];
        let (mut single, mut several) = (Vec::new(), Vec::new());
        for list in lists {
            let input = Some(Examples { kind: Some(list) });
            let request = ClassificationRequest { model_spec: Some(spec()), input: input.clone() };
            single.push(request.encode_to_vec());
            let task = |method: &str| InferenceTask {
                model_spec: Some(spec()),
                method_name: format!("tensorflow/serving/{method}"),
            };
            let tasks = vec![task("classify"), task("regress")];
            several.push(MultiInferenceRequest { tasks, input }.encode_to_vec());
        }
        let mut all = inputs(numbers(), [0, 1], &single);
        all.extend(inputs(numbers(), [2], &several));
        all
    },
    words: WORDS,
};
