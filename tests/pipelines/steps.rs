//! Steps as models of their own: ensembles that take texts, images and sounds.

use std::fs;

use serde_json::{Value, json};

use crate::{
    image_pipelines::{ask, ask_of_file, picture, said},
    support::{
        IN_PROCESS, Page, Repository, Server, infer,
        pipelines::{agrees, fixtures, sentiment, step},
        post_head, wait_for,
    },
};

/// A request with these texts in `text`.
fn texts(texts: &[&str]) -> String {
    let input =
        json!({"name": "text", "datatype": "BYTES", "shape": [texts.len(), 1], "data": texts});
    json!({"inputs": [input], "outputs": [{"name": "label"}, {"name": "score"}]}).to_string()
}

#[test]
fn an_ensemble_of_steps_answers_as_the_folder_does() {
    let repository = sentiment("graph/tokenizer.json");
    let server = Server::start(&repository, &[]);
    let body = texts(&["a film that was good", "bad", "I am super happy right now."]);
    let ask = |model: &str| {
        let path = format!("/v2/models/{model}/infer");
        server.post(&path, &body).expect(200).json()["outputs"].clone()
    };
    assert_eq!(ask("sentiment"), ask("sst2"));
    for (model, rows) in [("sentiment", 3), ("tokens", 3), ("labels", 3), ("graph", 3)] {
        let path = format!("/v2/models/{model}/stats");
        let stats = server.get(&path).expect(200).json()["model_stats"][0].clone();
        assert_eq!(stats["inference_count"], rows, "{model}: {stats}");
    }
}

#[test]
fn a_step_knows_its_inputs_and_outputs() {
    let repository = sentiment("graph/tokenizer.json");
    let server = Server::start(&repository, &[]);
    let metadata = server.get("/v2/models/tokens").expect(200).json();
    assert_eq!(
        metadata["inputs"][0],
        json!({"name": "text", "datatype": "BYTES", "shape": [-1, 1]})
    );
    assert_eq!(metadata["outputs"][0]["name"], "input_ids");
    let config = server.get("/v2/models/tokens/config").expect(200).json();
    assert_eq!(config["input"][1]["optional"], true, "{config}");
    assert_eq!(config["dynamic_batching"], Value::Null, "{config}");
    // Alone it is a model as any other.
    let body = texts(&["a film"]).replace("label", "input_ids").replace("score", "attention_mask");
    let reply = server.post("/v2/models/tokens/infer", &body).expect(200).json();
    assert_eq!(reply["outputs"][1]["data"], json!([1, 1, 1, 1, 1]));
    let body = texts(&["a"; 65]).replace("label", "input_ids").replace("score", "attention_mask");
    server.post("/v2/models/tokens/infer", &body).error(400);
}

#[test]
fn what_is_wrong_with_a_step_is_said() {
    let repository = sentiment("graph/tokeniser.json");
    let flags = ["--exit-on-error=false", "--model-control-mode=explicit", "--load-model=*"];
    let server = Server::start(&repository, &flags);
    let index = server.post("/v2/repository/index", "").expect(200).json();
    let reason = |name: &str| {
        let models = index.as_array().unwrap();
        models.iter().find(|it| it["name"] == name).unwrap()["reason"].as_str().unwrap().to_owned()
    };
    let tokens = reason("tokens");
    assert!(tokens.contains("config.pbtxt:4: parameter 'file': there is no "), "{tokens}");
    assert!(reason("sentiment").contains("tokens"), "{}", reason("sentiment"));
    // A client may not have the files of other models read.
    let config = json!({"backend": "steps", "parameters": {
        "step": {"string_value": "classify"}, "labels": {"string_value": "graph/config.json"}}});
    let body = json!({"parameters": {"config": config.to_string()}}).to_string();
    let refused = server.post("/v2/repository/models/labels/load", &body).error(400);
    assert!(refused.contains("parameter labels reads files of other models"), "{refused}");
}

/// A picture, a graph and boxes as an operator writes it: three configuration files, and no code. The detector has
/// these parameters besides.
fn pictures_to_boxes(more: &[(&str, &str)]) -> Repository {
    let graph = fs::read(fixtures().join("yolo/yolo.onnx")).unwrap();
    let detect = [("step", "detect"), ("head", "yolo"), ("labels", "names.txt")];
    Repository::new()
        .file("graph/1/model.onnx", graph)
        .file("graph/config.pbtxt", "backend: \"onnxruntime\"")
        .file("pixels/config.pbtxt", step(&[("step", "image"), ("letterbox", "128")]))
        .file("boxes/config.pbtxt", step(&[&detect[..], more].concat()))
        .file("boxes/names.txt", "cat\ndog\nremote control\nnaïve café\ntie\n")
        .model(
            "yolo",
            r#"platform: "ensemble"  max_batch_size: 1
               input  { name: "image" data_type: TYPE_STRING dims: [ 1 ] }
               output { name: "result" data_type: TYPE_STRING dims: [ 1 ] }
               ensemble_scheduling { step [
                 { model_name: "pixels"
                   input_map { key: "image" value: "image" }
                   output_map { key: "pixel_values" value: "pixels" }
                   output_map { key: "size" value: "size" }
                   output_map { key: "scale" value: "scale" } },
                 { model_name: "graph"
                   input_map { key: "images" value: "pixels" }
                   output_map { key: "output0" value: "found" } },
                 { model_name: "boxes"
                   input_map { key: "output0" value: "found" }
                   input_map { key: "size" value: "size" }
                   input_map { key: "scale" value: "scale" }
                   output_map { key: "result" value: "result" } } ] }"#,
        )
}

#[test]
fn an_ensemble_finds_the_boxes_that_the_reference_finds() {
    let cases = fs::read_to_string(fixtures().join("yolo/expected.jsonl")).unwrap();
    let cases: Vec<Value> = cases.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let usual = json!({});
    let low = json!({"confidence": 0.05, "iou": 0.45, "max_detections": 9});
    let parameters = [("confidence", "0.05"), ("iou", "0.45"), ("max_detections", "9")];
    for (of, more) in [(&usual, &[][..]), (&low, &parameters)] {
        let server = Server::start(&pictures_to_boxes(more), &[]);
        let mut client = server.client();
        let asked: Vec<&Value> = cases.iter().filter(|it| it["parameters"] == *of).collect();
        assert_eq!(asked.len(), 4);
        for case in asked {
            let image = picture(case["picture"].as_str().unwrap());
            let given = said(&ask(&mut client, "yolo", &image, &json!({})).expect(200));
            assert!(agrees(&given, &case["reply"]), "{}: {given}", case["case"]);
        }
        let error = ask(&mut client, "yolo", b"no image", &json!({})).error(400);
        assert!(error.contains("row 0: the bytes are no image"), "{error}");
    }
}

/// Where others hold the memory, a step is refused as a model is: with a status that says when to come back.
#[test]
fn a_step_without_room_is_refused_until_there_is_some() {
    const MIB: usize = 1 << 20;
    let repository = Repository::new()
        // A picture of any size becomes one of a million pixels: some 16 MiB while it is made.
        .file("pixels/config.pbtxt", step(&[("step", "image"), ("letterbox", "1024")]))
        .model(
            "size",
            r#"platform: "ensemble"  max_batch_size: 1
               input  { name: "image" data_type: TYPE_STRING dims: [ 1 ] }
               output { name: "result" data_type: TYPE_INT64 dims: [ 2 ] }
               ensemble_scheduling { step [
                 { model_name: "pixels"
                   input_map { key: "image" value: "image" }
                   output_map { key: "size" value: "result" } } ] }"#,
        )
        .model(
            "slow",
            r#"backend: "identity"
               input  { name: "INPUT0" data_type: TYPE_UINT8 dims: [ -1 ] }
               output { name: "OUTPUT0" data_type: TYPE_UINT8 dims: [ -1 ] }
               parameters { key: "execute_delay_ms" value: { string_value: "600000" } }"#,
        );
    let flags = [IN_PROCESS, "--caller-runs=off", "--max-inflight-bytes=40MiB"];
    let server = Server::start(&repository, &flags);
    let image = picture("64x64.png");
    let send = || ask(&mut server.client(), "size", &image, &json!({}));
    assert_eq!(send().expect(200).json()["outputs"][0]["data"], json!([64, 64]));
    let held = 28 * MIB;
    let json = json!({"inputs": [{"name": "INPUT0", "shape": [held], "datatype": "UINT8",
                                  "parameters": {"binary_data_size": held}}],
                      "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": true}}]});
    let json = json.to_string();
    let length = json.len().to_string();
    let mut body = json.into_bytes();
    body.resize(body.len() + held, 0);
    let mut holder = server.client();
    let head =
        post_head(&infer("slow"), &[("inference-header-content-length", &length)], body.len());
    holder.send([head.as_bytes(), &body].concat()).unwrap();
    let in_flight = || Page::read(server.http()).value("muster_bytes_in_flight");
    wait_for("the memory to be held", || (held as f64 <= in_flight()).then_some(()));
    let reply = send();
    let error = reply.error(503);
    assert!(error.contains("decoding the files of the request takes up to"), "{error}");
    assert!(error.contains("--max-inflight-bytes") && error.contains("model 'pixels'"), "{error}");
    assert!(reply.header("retry-after").is_some(), "{error}");
    // Its client leaves, and what it held is there for others.
    drop(holder);
    wait_for("the memory to be given back", || (in_flight() < held as f64).then_some(()));
    send().expect(200);
}

#[test]
fn an_ensemble_spells_what_the_reference_spells() {
    let folder = fixtures().join("speech");
    let repository = Repository::new()
        .copy("graph/1/model.onnx", "tests/fixtures/pipelines/speech/folder/model.onnx")
        .copy("graph/vocab.json", "tests/fixtures/pipelines/speech/folder/vocab.json")
        .copy(
            "graph/tokenizer_config.json",
            "tests/fixtures/pipelines/speech/folder/tokenizer_config.json",
        )
        .file("graph/config.pbtxt", "backend: \"onnxruntime\"")
        .file("samples/config.pbtxt", step(&[("step", "audio")]))
        .file("letters/config.pbtxt", step(&[("step", "ctc"), ("file", "graph/vocab.json")]))
        .model(
            "speech",
            r#"platform: "ensemble"  max_batch_size: 1
               input  { name: "audio" data_type: TYPE_STRING dims: [ 1 ] }
               output { name: "result" data_type: TYPE_STRING dims: [ 1 ] }
               ensemble_scheduling { step [
                 { model_name: "samples"
                   input_map { key: "audio" value: "audio" }
                   output_map { key: "input_values" value: "samples" } },
                 { model_name: "graph"
                   input_map { key: "input_values" value: "samples" }
                   output_map { key: "logits" value: "frames" } },
                 { model_name: "letters"
                   input_map { key: "logits" value: "frames" }
                   output_map { key: "text" value: "result" } } ] }"#,
        );
    let server = Server::start(&repository, &[]);
    let mut client = server.client();
    let cases = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
    let cases: Vec<Value> = cases.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let sound = fs::read(folder.join(case["sound"].as_str().unwrap())).unwrap();
        let reply =
            ask_of_file(&mut client, "speech", ("audio", &sound), &json!({})).expect(200).json();
        assert_eq!(reply["outputs"][0]["data"][0], case["reply"]["text"], "{}", case["case"]);
    }
}
