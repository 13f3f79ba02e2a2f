//! TensorFlow Serving's services over gRPC, against the whole server. The client is tonic's over the same messages.

use std::time::Duration;

use frontend::grpc::proto::{
    health::{HealthCheckRequest, HealthCheckResponse},
    reflection::{
        ServerReflectionRequest, ServerReflectionResponse,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    },
    tensorflow::{
        Example, Feature, Features, FloatList, TensorProto, TensorShapeProto,
        feature::Kind,
        serving::{model_spec::VersionChoice, model_version_status::State, *},
        tensor_shape_proto::Dim,
    },
};
use prost::Message;
use textproto::tensorflow::model_server_config;
use tonic::{Code, Request, Status};

use crate::support::{
    Page, Repository, Server, Start,
    grpc::{Client, refused},
};

const PREDICTION: &str = "tensorflow.serving.PredictionService";
const MODELS: &str = "tensorflow.serving.ModelService";

/// A server with its port for TensorFlow Serving, and a client of that.
fn start(repository: &Repository, flags: &[&str]) -> (Server, Client) {
    let server = Server::start(repository, &[&["--tfs-grpc-port=0"], flags].concat());
    let client = Client::connect(server.address("tfs-grpc").unwrap());
    (server, client)
}

fn ask<Q, R>(client: &mut Client, call: &str, request: Q) -> Result<R, Status>
where
    Q: Message + Send + Sync + 'static,
    R: Message + Default + Send + Sync + 'static,
{
    let service = if call.starts_with("GetModelStatus") || call.starts_with("Handle") {
        MODELS
    } else {
        PREDICTION
    };
    client.call_with(&format!("{service}/{call}"), Request::new(request))
}

fn spec(name: &str) -> ModelSpec {
    ModelSpec { name: name.to_owned(), ..ModelSpec::default() }
}

fn version(name: &str, choice: VersionChoice) -> Option<ModelSpec> {
    Some(ModelSpec { version_choice: Some(choice), ..spec(name) })
}

fn shape(sizes: &[i64]) -> Option<TensorShapeProto> {
    let dim = sizes.iter().map(|&size| Dim { size, name: String::new() }).collect();
    Some(TensorShapeProto { dim, unknown_rank: false })
}

/// Rows of four floats.
fn rows(values: &[f32]) -> TensorProto {
    TensorProto {
        dtype: 1,
        tensor_shape: shape(&[(values.len() / 4) as i64, 4]),
        float_val: values.to_vec(),
        ..TensorProto::default()
    }
}

/// A request to a model that `Repository::with_identity` makes.
fn identity(name: &str, values: &[f32]) -> PredictRequest {
    let inputs = [("INPUT0".to_owned(), rows(values))].into();
    PredictRequest { model_spec: Some(spec(name)), inputs, ..PredictRequest::default() }
}

fn predict(client: &mut Client, request: PredictRequest) -> Result<PredictResponse, Status> {
    ask(client, "Predict", request)
}

/// `scores`: three floats, which are the scores of `cat`, `dog` and one without a name. `value`: one float.
fn examples_models() -> Repository {
    let model = |size, label| {
        format!(
            "backend: \"identity\"\nmax_batch_size: 8\n\
             input {{ name: \"x\" data_type: TYPE_FP32 dims: [ {size} ] }}\n\
             output {{ name: \"y\" data_type: TYPE_FP32 dims: [ {size} ] {label} }}\n"
        )
    };
    Repository::new()
        .model("scores", &model(3, "label_filename: \"labels.txt\""))
        .file("scores/labels.txt", "cat\ndog\n")
        .model("value", &model(1, ""))
}

fn input(rows: &[&[f32]]) -> Option<Input> {
    let example = |values: &&[f32]| {
        let kind = Some(Kind::FloatList(FloatList { value: values.to_vec() }));
        let feature = [("x".to_owned(), Feature { kind })].into();
        Example { features: Some(Features { feature }) }
    };
    let examples = rows.iter().map(example).collect();
    Some(Input { kind: Some(input::Kind::ExampleList(ExampleList { examples })) })
}

#[test]
fn both_encodings_are_read_and_the_response_lists_its_elements() {
    let (server, mut client) = start(&Repository::identity("m", &[]), &[]);
    let values = [1.5, -2.0, 0.0, 4.0, 5.0, 6.0, 7.0, f32::INFINITY];
    let listed = predict(&mut client, identity("m", &values)).unwrap();
    let output = &listed.outputs["OUTPUT0"];
    assert_eq!((output.dtype, &output.tensor_shape), (1, &shape(&[2, 4])));
    assert_eq!(output.float_val, values);
    let expected = ModelSpec {
        version_choice: Some(VersionChoice::Version(1)),
        signature_name: "serving_default".to_owned(),
        ..spec("m")
    };
    assert_eq!(listed.model_spec, Some(expected));
    let content: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    let tensor =
        TensorProto { tensor_content: content.into(), float_val: Vec::new(), ..rows(&values) };
    let inputs = [("INPUT0".to_owned(), tensor)].into();
    let raw = PredictRequest { inputs, ..identity("m", &values) };
    assert_eq!(predict(&mut client, raw.clone()).unwrap(), listed);
    // The services are the same on the other port.
    assert_eq!(predict(&mut Client::new(&server), raw).unwrap(), listed);
}

#[test]
fn a_large_tensor_comes_in_many_frames_and_goes_back_whole() {
    let config = "backend: \"identity\"\n\
        input { name: \"x\" data_type: TYPE_INT32 dims: [ -1 ] }\n\
        output { name: \"y\" data_type: TYPE_INT32 dims: [ -1 ] }\n";
    let (_server, mut client) = start(&Repository::new().model("wide", config), &[]);
    let values: Vec<i32> = (0..500_000).map(|it| it * 4001 - 1_000_000_000).collect();
    let content: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    let tensor = TensorProto {
        dtype: 3,
        tensor_shape: shape(&[values.len() as i64]),
        tensor_content: content.into(),
        ..TensorProto::default()
    };
    let inputs = [("x".to_owned(), tensor)].into();
    let request =
        PredictRequest { model_spec: Some(spec("wide")), inputs, ..PredictRequest::default() };
    let mut answer = predict(&mut client, request).unwrap();
    assert_eq!(answer.outputs.remove("y").unwrap().int_val, values);
}

#[test]
fn the_filter_chooses_outputs_and_knows_their_names() {
    let (_server, mut client) = start(&Repository::of(&["two_outputs"]), &[]);
    let request = |filter: &[&str]| PredictRequest {
        model_spec: Some(spec("two_outputs")),
        inputs: ["a", "b"]
            .map(|it| (it.to_owned(), rows(&[2.0])))
            .map(|(name, it)| (name, TensorProto { tensor_shape: shape(&[1, 4]), ..it }))
            .into(),
        output_filter: filter.iter().map(|it| (*it).to_owned()).collect(),
    };
    let answer = predict(&mut client, request(&["difference", "sum"])).unwrap();
    assert_eq!(answer.outputs.keys().collect::<Vec<_>>(), ["difference", "sum"]);
    assert_eq!(answer.outputs["sum"].float_val, [4.0; 4]);
    assert_eq!(predict(&mut client, request(&[])).unwrap().outputs.len(), 3);
    let text = refused(predict(&mut client, request(&["sums"])), Code::InvalidArgument);
    assert!(text.contains("output_filter") && text.contains("'sum'"), "{text}");
}

#[test]
fn a_version_may_be_named_and_a_label_must_be_known() {
    let (_server, mut client) = start(&Repository::identity("m", &[]), &[]);
    let mut code = |model_spec| {
        let request = PredictRequest { model_spec, ..identity("m", &[0.0; 4]) };
        predict(&mut client, request)
            .map_or_else(|it| (it.code(), it.message().to_owned()), |_| (Code::Ok, String::new()))
    };
    assert_eq!(code(version("m", VersionChoice::Version(1))).0, Code::Ok);
    assert_eq!(code(version("m", VersionChoice::Version(2))).0, Code::NotFound);
    assert_eq!(code(version("m", VersionChoice::Version(-1))).0, Code::InvalidArgument);
    assert_eq!(code(version("none", VersionChoice::Version(1))).0, Code::NotFound);
    let (refused, text) = code(version("m", VersionChoice::VersionLabel("stable".to_owned())));
    assert_eq!(refused, Code::InvalidArgument);
    assert!(text.contains("label 'stable'"), "{text}");
    let other = ModelSpec { signature_name: "other".to_owned(), ..spec("m") };
    assert_eq!(code(Some(other)).0, Code::FailedPrecondition);
    let (refused, text) = code(None);
    assert_eq!(refused, Code::InvalidArgument);
    assert!(text.contains("model_spec.name"), "{text}");
}

#[test]
fn what_is_wrong_with_an_input_names_it() {
    let (_server, mut client) = start(&Repository::identity("m", &[]), &[]);
    let mut refuse = |tensor: TensorProto| {
        let inputs = [("INPUT0".to_owned(), tensor)].into();
        let request = PredictRequest { inputs, ..identity("m", &[0.0; 4]) };
        let text = refused(predict(&mut client, request), Code::InvalidArgument);
        assert!(text.contains("'INPUT0'") && text.contains("model 'm'"), "{text}");
    };
    refuse(TensorProto { dtype: 2, ..rows(&[0.0; 4]) });
    refuse(TensorProto { dtype: 99, ..rows(&[0.0; 4]) });
    refuse(TensorProto { tensor_shape: shape(&[1, 3]), ..rows(&[0.0; 3]) });
    refuse(TensorProto { tensor_shape: shape(&[-1, 4]), ..rows(&[0.0; 4]) });
    refuse(TensorProto { float_val: vec![0.0; 5], ..rows(&[0.0; 4]) });
    // A few bytes that stand for more than there is room for.
    refuse_room(&mut client);
}

fn refuse_room(client: &mut Client) {
    let tensor = TensorProto { tensor_shape: shape(&[1 << 40, 4]), ..rows(&[1.0]) };
    let inputs = [("INPUT0".to_owned(), tensor)].into();
    let request = PredictRequest { inputs, ..identity("m", &[0.0; 4]) };
    let text = refused(predict(client, request), Code::InvalidArgument);
    assert!(text.contains("--max-inflight-bytes"), "{text}");
}

#[test]
fn examples_are_classified_and_regressed() {
    let (_server, mut client) = start(&examples_models(), &[]);
    let request = ClassificationRequest {
        model_spec: Some(spec("scores")),
        input: input(&[&[0.5, 0.25, 1.0], &[0.0, 1.0, 2.0]]),
    };
    let answer: ClassificationResponse = ask(&mut client, "Classify", request).unwrap();
    let rows = answer.result.unwrap().classifications;
    let named: Vec<Vec<(&str, f32)>> = rows
        .iter()
        .map(|it| it.classes.iter().map(|it| (&*it.label, it.score)).collect())
        .collect();
    let expected =
        [[("cat", 0.5), ("dog", 0.25), ("", 1.0)], [("cat", 0.0), ("dog", 1.0), ("", 2.0)]];
    assert_eq!(named, expected);
    assert_eq!(answer.model_spec.unwrap().version_choice, Some(VersionChoice::Version(1)));
    let request =
        RegressionRequest { model_spec: Some(spec("value")), input: input(&[&[3.5], &[-4.0]]) };
    let answer: RegressionResponse = ask(&mut client, "Regress", request.clone()).unwrap();
    let values: Vec<f32> = answer.result.unwrap().regressions.iter().map(|it| it.value).collect();
    assert_eq!(values, [3.5, -4.0]);
    let classify: Result<ClassificationResponse, _> = ask(&mut client, "Classify", request);
    let text = refused(classify, Code::InvalidArgument);
    assert!(text.contains("label_filename"), "{text}");
}

#[test]
fn several_tasks_have_a_result_each_in_their_order() {
    let (_server, mut client) = start(&examples_models(), &[]);
    let task = |name: &str, method: &str| InferenceTask {
        model_spec: Some(spec(name)),
        method_name: format!("tensorflow/serving/{method}"),
    };
    // Two names of one signature.
    let mut named = task("value", "regress");
    named.model_spec.as_mut().unwrap().signature_name = "serving_default".to_owned();
    let tasks = vec![task("value", "regress"), named];
    let request = MultiInferenceRequest { tasks, input: input(&[&[2.0]]) };
    let answer: MultiInferenceResponse =
        ask(&mut client, "MultiInference", request.clone()).unwrap();
    assert_eq!(answer.results.len(), 2);
    for result in answer.results {
        let Some(inference_result::Result::RegressionResult(values)) = result.result else {
            panic!("{:?}", result.result)
        };
        assert_eq!(values.regressions[0].value, 2.0);
        assert_eq!(result.model_spec.unwrap().name, "value");
    }
    let tasks = vec![task("value", "regress"), task("scores", "classify")];
    let other: Result<MultiInferenceResponse, _> =
        ask(&mut client, "MultiInference", MultiInferenceRequest { tasks, ..request });
    let text = refused(other, Code::InvalidArgument);
    assert!(text.contains("tasks[1]"), "{text}");
}

#[test]
fn metadata_hold_the_signature_in_an_any() {
    let (_server, mut client) = start(&Repository::identity("m", &[]), &[]);
    let request = |field: &[&str]| GetModelMetadataRequest {
        model_spec: Some(spec("m")),
        metadata_field: field.iter().map(|it| (*it).to_owned()).collect(),
    };
    let answer: GetModelMetadataResponse =
        ask(&mut client, "GetModelMetadata", request(&["signature_def"])).unwrap();
    assert_eq!(answer.model_spec.unwrap().version_choice, Some(VersionChoice::Version(1)));
    let any = &answer.metadata["signature_def"];
    assert_eq!(any.type_url, "type.googleapis.com/tensorflow.serving.SignatureDefMap");
    let map = SignatureDefMap::decode(&*any.value).unwrap();
    let signature = &map.signature_def["serving_default"];
    let info = &signature.inputs["INPUT0"];
    assert_eq!((info.dtype, &*info.name, &info.tensor_shape), (1, "INPUT0:0", &shape(&[-1, 4])));
    assert_eq!(signature.method_name, "tensorflow/serving/predict");
    for wrong in [&[][..], &["weights"]] {
        let refusal: Result<GetModelMetadataResponse, _> =
            ask(&mut client, "GetModelMetadata", request(wrong));
        assert!(refused(refusal, Code::InvalidArgument).contains("metadata_field"));
    }
}

#[test]
fn the_status_says_of_each_version_whether_it_is_available_and_why_not() {
    let repository =
        Repository::identity("m", &[]).copy("corrupt", "tests/fixtures/broken/corrupt");
    let (_server, mut client) = start(&repository, &[]);
    let mut status = |model_spec| -> Result<GetModelStatusResponse, Status> {
        ask(&mut client, "GetModelStatus", GetModelStatusRequest { model_spec })
    };
    let all = status(Some(spec("m"))).unwrap().model_version_status;
    assert_eq!((all.len(), all[0].version, all[0].state()), (1, 1, State::Available));
    assert_eq!(all[0].status.as_ref().unwrap().error_code, 0);
    let failed = status(Some(spec("corrupt"))).unwrap().model_version_status;
    assert_eq!(failed[0].state(), State::End);
    assert!(!failed[0].status.as_ref().unwrap().error_message.is_empty());
    refused(status(Some(spec("none"))), Code::NotFound);
    refused(status(version("m", VersionChoice::Version(7))), Code::NotFound);
    let label = VersionChoice::VersionLabel("x".to_owned());
    refused(status(version("m", label)), Code::InvalidArgument);
}

#[test]
fn a_configuration_by_request_replaces_all_models_and_their_labels_are_found() {
    let repository = Repository::identity("a", &[]).with_identity("b", &[]);
    let model = |name: &str, label: &str| {
        let base = repository.at(name);
        format!(
            "model_config_list {{ config {{ name: '{name}' base_path: '{base}' \
             version_labels {{ key: '{label}' value: 1 }} }} }}"
        )
    };
    let config = Repository::new().file("models.config", model("a", "stable"));
    let flag = format!("--model-config-file={}", config.at("models.config"));
    let server = Start::command(&[])
        .flags(&["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0", &flag])
        .run();
    let mut client = Client::connect(server.address("grpc").unwrap());
    let labelled = |model: &str, label: &str| {
        let choice = VersionChoice::VersionLabel(label.to_owned());
        PredictRequest { model_spec: version(model, choice), ..identity(model, &[1.0; 4]) }
    };
    let predict = |client: &mut Client, request| -> Result<PredictResponse, Status> {
        ask(client, "Predict", request)
    };
    let reload = |client: &mut Client, text: &str| -> Result<ReloadConfigResponse, Status> {
        let config = Some(model_server_config("request", text).unwrap());
        let request = ReloadConfigRequest { config, ..ReloadConfigRequest::default() };
        ask(client, "HandleReloadConfigRequest", request)
    };
    predict(&mut client, labelled("a", "stable")).unwrap();
    let done = reload(&mut client, &model("b", "canary")).unwrap();
    assert_eq!(done.status.unwrap().error_code, 0);
    let without_path = "model_config_list { config { name: 'c' } }";
    let text = refused(reload(&mut client, without_path), Code::InvalidArgument);
    assert!(text.contains("base_path"), "{text}");
    predict(&mut client, labelled("b", "canary")).unwrap();
    refused(predict(&mut client, labelled("a", "stable")), Code::NotFound);
    let nothing: Result<ReloadConfigResponse, _> =
        ask(&mut client, "HandleReloadConfigRequest", ReloadConfigRequest::default());
    assert!(refused(nothing, Code::InvalidArgument).contains("config"));
}

#[test]
fn models_of_a_repository_are_not_configured_by_request() {
    let (_server, mut client) = start(&Repository::identity("m", &[]), &[]);
    let config = Some(model_server_config("request", "model_config_list { }").unwrap());
    let request = ReloadConfigRequest { config, ..ReloadConfigRequest::default() };
    let answer: Result<ReloadConfigResponse, _> =
        ask(&mut client, "HandleReloadConfigRequest", request);
    let text = refused(answer, Code::Unavailable);
    assert!(text.contains("--model-config-file"), "{text}");
}

#[test]
fn deadlines_tokens_and_counters_are_those_of_every_call() {
    let repository = Repository::identity("slow", &[("execute_delay_ms", "300")]);
    let (server, mut client) =
        start(&repository, &["--grpc-restricted-protocol=inference:key=let"]);
    // Without a deadline: that could pass before the token is looked at.
    let request = Request::new(identity("slow", &[0.0; 4]));
    let path = format!("{PREDICTION}/Predict");
    let call: Result<PredictResponse, _> = client.call_with(&path, request);
    refused(call, Code::Unavailable);
    let mut request = Request::new(identity("slow", &[0.0; 4]));
    request.set_timeout(Duration::from_millis(50));
    request.metadata_mut().insert("triton-grpc-protocol-key", "let".parse().unwrap());
    let late: Result<PredictResponse, _> = client.call_with(&path, request);
    let code = late.unwrap_err().code();
    // Whoever notices first.
    assert!([Code::DeadlineExceeded, Code::Cancelled].contains(&code), "{code:?}");
    let page = Page::read(server.http());
    assert_eq!(page.value("muster_grpc_requests_total{code=\"UNAVAILABLE\"}"), 1.0);
}

#[test]
fn health_and_reflection_are_there_too() {
    let (_server, mut client) = start(&Repository::identity("m", &[]), &[]);
    let request = HealthCheckRequest { service: PREDICTION.to_owned() };
    let health: HealthCheckResponse =
        client.call_with("grpc.health.v1.Health/Check", Request::new(request)).unwrap();
    assert_eq!(health.status, 1);
    let asked = [
        MessageRequest::ListServices(String::new()),
        MessageRequest::FileContainingSymbol(PREDICTION.to_owned()),
        MessageRequest::FileByFilename("tensorflow/core/framework/tensor.proto".to_owned()),
        MessageRequest::FileContainingSymbol("tensorflow.serving.SignatureDefMap".to_owned()),
    ];
    let requests = asked.map(|it| ServerReflectionRequest {
        message_request: Some(it),
        ..ServerReflectionRequest::default()
    });
    let path = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let (answers, end): (Vec<ServerReflectionResponse>, _) =
        client.stream(path, requests.to_vec(), &[]);
    end.unwrap();
    let answers: Vec<_> = answers.into_iter().map(|it| it.message_response.unwrap()).collect();
    let MessageResponse::ListServicesResponse(list) = &answers[0] else { panic!("{answers:?}") };
    for service in [PREDICTION, MODELS] {
        assert!(list.service.iter().any(|it| it.name == service), "{service}");
    }
    for answer in &answers[1..] {
        assert!(matches!(answer, MessageResponse::FileDescriptorResponse(_)), "{answer:?}");
    }
}

#[test]
fn the_port_is_open_only_when_it_is_asked_for() {
    let repository = Repository::identity("m", &[]);
    assert_eq!(Server::start(&repository, &[]).address("tfs-grpc"), None);
    let (server, mut client) = start(&repository, &["--allow-grpc=false"]);
    assert_eq!(server.address("grpc"), None);
    predict(&mut client, identity("m", &[0.0; 4])).unwrap();
}
