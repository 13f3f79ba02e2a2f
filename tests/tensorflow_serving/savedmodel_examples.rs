//! Examples to the signatures of SavedModels that parse them themselves, over REST and gRPC, and what TensorFlow
//! Serving tells of all signatures.

use frontend::grpc::proto::tensorflow::{
    Example, Feature, Features, FloatList,
    feature::Kind,
    serving::{
        ClassificationRequest, ClassificationResponse, ExampleList, ExampleListWithContext,
        GetModelMetadataRequest, GetModelMetadataResponse, InferenceTask, Input, ModelSpec,
        MultiInferenceRequest, MultiInferenceResponse, RegressionRequest, RegressionResponse,
        SignatureDefMap, inference_result, input,
    },
};
use prost::Message;
use serde_json::{Value, json};
use tonic::{Code, Request, Status};

use crate::support::{
    grpc::Client as GrpcClient,
    root,
    savedmodels::{post, serve},
};

/// As TensorFlow 2 exports them, and as TensorFlow 1 did.
const MODELS: [&str; 2] = ["examples", "examples_of_tf1"];

fn spec(model: &str, signature: &str) -> Option<ModelSpec> {
    let (name, signature_name) = (model.to_owned(), signature.to_owned());
    Some(ModelSpec { name, signature_name, ..ModelSpec::default() })
}

fn example(features: &[(&str, f32)]) -> Example {
    let feature = features.iter().map(|(name, value)| {
        let kind = Some(Kind::FloatList(FloatList { value: vec![*value] }));
        ((*name).to_owned(), Feature { kind })
    });
    Example { features: Some(Features { feature: feature.collect() }) }
}

fn input(examples: &[&[(&str, f32)]], context: Option<&[(&str, f32)]>) -> Option<Input> {
    let examples = examples.iter().map(|it| example(it)).collect();
    let kind = match context {
        None => input::Kind::ExampleList(ExampleList { examples }),
        Some(context) => input::Kind::ExampleListWithContext(ExampleListWithContext {
            examples,
            context: Some(example(context)),
        }),
    };
    Some(Input { kind: Some(kind) })
}

fn ask<M: Message + 'static, R: Message + Default + 'static>(
    grpc: &mut GrpcClient,
    call: &str,
    message: M,
) -> Result<R, Status> {
    let path = format!("tensorflow.serving.PredictionService/{call}");
    grpc.call_with(&path, Request::new(message))
}

#[test]
fn examples_are_classified_and_regressed_by_signatures_that_parse_them() {
    let Some((mut process, _repository)) = serve(&MODELS, &["--tfs-grpc-port=0"]) else { return };
    let mut client = process.client();
    let mut grpc = GrpcClient::connect(process.address("tfs-grpc"));
    for model in MODELS {
        let address = |method: &str| format!("/v1/models/{model}:{method}");
        let body = json!({
            "signature_name": "regress_x_to_y",
            "examples": [{"x": 80.0, "x2": 1.0}, {"x": 2e0}],
        });
        let reply = post(&mut client, &address("regress"), &body);
        assert_eq!(reply, json!({"results": [42.0, 3.0]}), "{model}");
        let body = json!({"signature_name": "regress_x2_to_y2", "examples": [{"x": 80.0}]});
        assert!(matches!(
            post(&mut client, &address("regress"), &body)["results"][0].as_f64(),
            Some(3.0)
        ));
        let body = json!({
            "signature_name": "classify_x_to_y",
            "context": {"x": 10.0},
            "examples": [{"x": 20.0}, {"x2": 0.5}],
        });
        let reply = post(&mut client, &address("classify"), &body);
        assert_eq!(reply, json!({"results": [[["", 12.0]], [["", 7.0]]]}), "{model}");

        let regress = |context| RegressionRequest {
            model_spec: spec(model, "regress_x_to_y"),
            input: input(&[&[("x", 80.0)], &[("x2", 1.0)]], context),
        };
        let reply: RegressionResponse =
            ask(&mut grpc, "Regress", regress(Some(&[("x", 20.0)]))).unwrap();
        let values = reply.result.unwrap().regressions;
        assert_eq!(values.iter().map(|it| it.value).collect::<Vec<_>>(), [42.0, 12.0]);
        assert_eq!(reply.model_spec.unwrap().signature_name, "regress_x_to_y");
        // The second example has no `x`, and no context either.
        let lacking: Result<RegressionResponse, Status> = ask(&mut grpc, "Regress", regress(None));
        let lacking = lacking.unwrap_err();
        assert_eq!(lacking.code(), Code::InvalidArgument, "{lacking}");
        assert!(lacking.message().contains("Feature: x"), "{lacking}");
        let classify = ClassificationRequest {
            model_spec: spec(model, "classify_x_to_y"),
            input: input(&[&[("x", 80.0)]], None),
        };
        let reply: ClassificationResponse = ask(&mut grpc, "Classify", classify.clone()).unwrap();
        let classes = &reply.result.unwrap().classifications[0].classes;
        assert_eq!((&*classes[0].label, classes[0].score), ("", 42.0));
        let unknown = ClassificationRequest { model_spec: spec(model, "none"), ..classify };
        let status: Result<ClassificationResponse, Status> = ask(&mut grpc, "Classify", unknown);
        assert_eq!(status.unwrap_err().code(), Code::InvalidArgument);
    }
    let body = json!({"signature_name": "classify_with_labels", "examples": [{"x": 0.25}]});
    let reply = post(&mut client, "/v1/models/examples:classify", &body);
    assert_eq!(reply, json!({"results": [[["no", 0.75], ["yes", 0.25]]]}));
}

#[test]
fn several_tasks_on_signatures_of_one_model_have_a_result_each_in_their_order() {
    let Some((mut process, _repository)) = serve(&["examples"], &["--tfs-grpc-port=0"]) else {
        return;
    };
    let mut grpc = GrpcClient::connect(process.address("tfs-grpc"));
    let task = |signature: &str, method: &str| InferenceTask {
        model_spec: spec("examples", signature),
        method_name: format!("tensorflow/serving/{method}"),
    };
    let request = |tasks| MultiInferenceRequest { tasks, input: input(&[&[("x", 80.0)]], None) };
    let tasks = vec![
        task("regress_x_to_y", "regress"),
        task("classify_x_to_y", "classify"),
        task("regress_x2_to_y2", "regress"),
    ];
    let reply: MultiInferenceResponse = ask(&mut grpc, "MultiInference", request(tasks)).unwrap();
    let found: Vec<(String, f32)> = reply
        .results
        .iter()
        .map(|it| {
            let score = match it.result.as_ref().unwrap() {
                inference_result::Result::RegressionResult(it) => it.regressions[0].value,
                inference_result::Result::ClassificationResult(it) => {
                    it.classifications[0].classes[0].score
                }
            };
            (it.model_spec.as_ref().unwrap().signature_name.clone(), score)
        })
        .collect();
    let expected = [("regress_x_to_y", 42.0), ("classify_x_to_y", 42.0), ("regress_x2_to_y2", 3.0)];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
    let tasks = vec![task("regress_x_to_y", "regress"), task("none", "regress")];
    let refused: Result<MultiInferenceResponse, Status> =
        ask(&mut grpc, "MultiInference", request(tasks));
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn where_names_of_methods_are_checked_a_signature_is_for_the_one_of_its_file() {
    let flags = ["--tensorflow-method-name-check=true", "--tfs-grpc-port=0"];
    let Some((mut process, _repository)) = serve(&MODELS, &flags) else { return };
    let mut client = process.client();
    let mut grpc = GrpcClient::connect(process.address("tfs-grpc"));
    // TensorFlow 2 writes predict into all of them.
    let [of_predict, own] = MODELS;
    let cases = [("classify", "classify_x_to_y"), ("regress", "regress_x_to_y")];
    for (method, signature) in cases {
        let body = json!({"signature_name": signature, "examples": [{"x": 2e0}]});
        let reply = post(&mut client, &format!("/v1/models/{own}:{method}"), &body);
        assert!(reply["results"].is_array(), "{reply}");
        let address = format!("/v1/models/{of_predict}:{method}");
        let error = client.post(&address, &[], body.to_string()).error(400);
        for part in [signature, "tensorflow/serving/predict", &format!("serving/{method}")] {
            assert!(error.contains(part), "no '{part}' in: {error}");
        }
        let mut tasks = |model: &str| -> Result<MultiInferenceResponse, Status> {
            let method_name = format!("tensorflow/serving/{method}");
            let tasks = vec![InferenceTask { model_spec: spec(model, signature), method_name }];
            let input = input(&[&[("x", 2.0)]], None);
            ask(&mut grpc, "MultiInference", MultiInferenceRequest { tasks, input })
        };
        tasks(own).unwrap();
        let refused = tasks(of_predict).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    let regress = |model: &str| RegressionRequest {
        model_spec: spec(model, "regress_x_to_y"),
        input: input(&[&[("x", 2.0)]], None),
    };
    let reply: RegressionResponse = ask(&mut grpc, "Regress", regress(own)).unwrap();
    assert_eq!(reply.result.unwrap().regressions[0].value, 3.0);
    let refused: Result<RegressionResponse, Status> =
        ask(&mut grpc, "Regress", regress(of_predict));
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    // Predict runs those that are for the others.
    let body = json!({"signature_name": "classify_y", "instances": [2.0]});
    let reply = post(&mut client, &format!("/v1/models/{own}:predict"), &body);
    assert!(reply["predictions"].is_array(), "{reply}");
}

#[test]
fn what_is_wrong_with_examples_is_named() {
    let Some((mut process, _repository)) = serve(&["examples"], &[]) else { return };
    let mut client = process.client();
    let mut refused = |method: &str, examples: &str| {
        let signature = if method == "classify" { "classify_x_to_y" } else { "regress_x_to_y" };
        let body = format!(r#"{{"signature_name": "{signature}", "examples": {examples}}}"#);
        client.post(&format!("/v1/models/examples:{method}"), &[], body).error(400)
    };
    for (examples, part) in [
        ("[]", "Input is empty"),
        (r#"[{"x": null}]"#, "examples[0].x"),
        (r#"[{"x": 1.5}, {"x": [1, 1.5]}]"#, "examples[1].x"),
        (r#"[{"x": [[1.5]]}]"#, "examples[0].x"),
        (r#"[{"y": 1.5}]"#, "Feature: x"),
        // An integer where the signature parses a number with a point.
        (r#"[{"x": 1}]"#, "x"),
    ] {
        for method in ["classify", "regress"] {
            let error = refused(method, examples);
            assert!(error.contains(part), "{examples}: {error}");
        }
    }
    // A signature of labels has no number to regress.
    let body = r#"{"signature_name": "classify_with_labels", "examples": [{"x": 1.5}]}"#;
    let error = client.post("/v1/models/examples:regress", &[], body).error(400);
    assert!(error.contains("cannot regress"), "{error}");
}

#[test]
fn metadata_are_all_signatures_as_protobuf_writes_them() {
    let models = ["signatures", "examples", "examples_of_tf1"];
    let Some((mut process, _repository)) = serve(&models, &["--tfs-grpc-port=0"]) else { return };
    let text = std::fs::read_to_string(root("tests/fixtures/savedmodels/metadata.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let mut client = process.client();
    let mut grpc = GrpcClient::connect(process.address("tfs-grpc"));
    for model in models {
        let reply = client.get(&format!("/v1/models/{model}/metadata")).expect(200).json();
        let spec = json!({"name": model, "signature_name": "", "version": "1"});
        assert_eq!(reply["model_spec"], spec);
        let found = &reply["metadata"]["signature_def"]["signature_def"];
        assert_eq!(*found, expected[model], "{model}");
        let request = GetModelMetadataRequest {
            model_spec: self::spec(model, ""),
            metadata_field: vec!["signature_def".to_owned()],
        };
        let reply: GetModelMetadataResponse = ask(&mut grpc, "GetModelMetadata", request).unwrap();
        let any = &reply.metadata["signature_def"];
        let map = SignatureDefMap::decode(any.value.as_slice()).unwrap();
        let mut names: Vec<&String> = map.signature_def.keys().collect();
        names.sort_unstable();
        let all: Vec<&String> = expected[model].as_object().unwrap().keys().collect();
        assert_eq!(names, all, "{model}");
    }
}
