//! The KServe v2 protocol over HTTP: health, metadata, configuration, index, and inference in its forms.

use serde_json::{Value, json};

use crate::support::{
    Client, Form, Repository, Server, Tensor,
    control::{EXPLICIT, load},
    infer_body,
};

const INFER: &str = "/v2/models/copy/infer";
const LENGTH: &str = "inference-header-content-length";

/// A server with the model `copy`.
fn copy() -> (Repository, Server) {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    (repository, server)
}

fn row(values: [f32; 4]) -> Tensor {
    Tensor::fp32("INPUT0", &[1, 4], &values)
}

#[test]
fn the_root_says_in_words_where_everything_is() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[]);
    let reply = server.get("/").expect(200);
    for address in ["/v2/repository/index", "/v2/models/<model>/infer", "/invocations", "/metrics"]
    {
        assert!(reply.text().contains(address), "{}", reply.text());
    }
}

#[test]
fn a_loaded_server_is_live_and_ready_by_status_and_in_words_that_kserve_reads() {
    let (_repository, server) = copy();
    for (path, body) in [
        ("/v2/health/live", r#"{"live":true}"#),
        ("/v2/health/ready", r#"{"ready":true}"#),
        ("/v2/models/copy/ready", ""),
    ] {
        let reply = server.get(path).expect(200);
        assert_eq!(reply.text(), body, "{path}");
        let head = server.client().request("HEAD", path, &[], None);
        assert_eq!(head.status, 200, "{path}");
    }
    server.get("/v2/models/copy/versions/1/ready").expect(200);
}

/// `[ "$(curl -s -w %{http_code} ../ready)" = 200 ]` is how scripts wait for Triton.
#[test]
fn without_health_bodies_a_loaded_server_says_so_by_its_status_alone() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &["--health-bodies=false"]);
    for path in ["/v2/health/live", "/v2/health/ready", "/v2/models/copy/ready"] {
        assert_eq!(server.get(path).expect(200).text(), "", "{path}");
    }
}

#[test]
fn the_server_names_itself_its_version_and_its_extensions() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &["--id=house"]);
    let metadata = server.get("/v2").expect(200).json();
    assert_eq!(metadata["name"], "house");
    assert!(metadata["version"].as_str().is_some_and(|it| !it.is_empty()), "{metadata}");
    let extensions = metadata["extensions"].as_array().unwrap();
    for extension in ["binary_tensor_data", "classification", "model_configuration"] {
        assert!(extensions.contains(&json!(extension)), "{metadata}");
    }
}

#[test]
fn a_model_is_described_with_its_ports_and_its_batch_dimension() {
    let repository = Repository::of(&["two_outputs"]);
    let server = Server::start(&repository, &[]);
    let port = |name: &str| json!({"name": name, "datatype": "FP32", "shape": [-1, 4]});
    let expected = json!({
        "name": "two_outputs",
        "versions": ["1"],
        "platform": "onnxruntime_onnx",
        "inputs": [port("a"), port("b")],
        "outputs": [port("sum"), port("difference"), port("product")],
    });
    assert_eq!(server.get("/v2/models/two_outputs").expect(200).json(), expected);
    assert_eq!(server.get("/v2/models/two_outputs/versions/1").expect(200).json(), expected);
}

#[test]
fn the_configuration_is_shown_with_what_was_filled_in() {
    let repository = Repository::of(&["two_outputs"]);
    let server = Server::start(&repository, &["--backend-config=default-max-batch-size=16"]);
    let config = server.get("/v2/models/two_outputs/config").expect(200).json();
    assert_eq!(config["name"], "two_outputs");
    assert_eq!(config["backend"], "onnxruntime");
    assert_eq!(config["max_batch_size"], 16);
    assert_eq!(config["input"][0]["name"], "a");
    assert_eq!(config["input"][0]["data_type"], "TYPE_FP32");
    // A 64-bit number is a string in the JSON form of the schema; clients read either.
    assert!(config["input"][0]["dims"] == json!(["4"]) || config["input"][0]["dims"] == json!([4]));
    assert_eq!(config["output"].as_array().unwrap().len(), 3);
}

#[test]
fn the_index_lists_every_model_and_on_request_only_the_ready_ones() {
    let repository =
        Repository::identity("copy", &[]).copy("corrupt", "tests/fixtures/broken/corrupt");
    let server = Server::start(&repository, &[]);
    let all = server.post("/v2/repository/index", "").expect(200).json();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], json!({"name": "copy", "version": "1", "state": "READY"}));
    assert_eq!(all[1]["name"], "corrupt");
    assert_eq!(all[1]["state"], "UNAVAILABLE");
    assert!(!all[1]["reason"].as_str().unwrap().is_empty());
    let ready = server.post("/v2/repository/index", r#"{"ready": true}"#).expect(200).json();
    assert_eq!(ready.as_array().unwrap(), &all[..1]);
}

/// A connection remembers what is around the tensors of its requests.
#[test]
fn a_connection_that_asks_the_same_again_asks_the_model_that_was_loaded_anew() {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=copy"]);
    let load_as = |dtype: &str| {
        let port = |name: &str| json!([{"name": name, "data_type": dtype, "dims": [4]}]);
        let (input, output) = (port("INPUT0"), port("OUTPUT0"));
        let config =
            json!({"backend": "identity", "max_batch_size": 8, "input": input, "output": output});
        let body = json!({"parameters": {"config": config.to_string()}}).to_string();
        load(&server, "copy", &body).expect(200);
    };
    let mut client = server.client();
    for form in [Form::Binary, Form::Json] {
        load_as("TYPE_FP32");
        for value in [1.0, 2.0, 3.0] {
            let reply = client.infer("copy", &[row([value; 4])], form, "");
            assert_eq!(reply.output().numbers(), [f64::from(value); 4]);
        }
        load_as("TYPE_INT32");
        let error = client.infer("copy", &[row([4.0; 4])], form, "").error(400);
        assert!(error.contains("INT32"), "{error}");
    }
}

#[test]
fn the_reply_repeats_the_id_and_names_model_and_version() {
    let (_repository, server) = copy();
    let row = row([1.0, 2.0, 3.0, 4.0]);
    for form in [Form::Json, Form::Binary] {
        let reply =
            server.client().infer("copy", std::slice::from_ref(&row), form, r#""id":"é 7""#);
        let length = reply.header(LENGTH).map_or(reply.body.len(), |it| it.parse().unwrap());
        let head: Value = serde_json::from_slice(&reply.body[..length]).unwrap();
        assert_eq!(head["id"], "é 7");
        assert_eq!(head["model_name"], "copy");
        assert_eq!(head["model_version"], "1");
        assert_eq!(reply.output().raw, row.raw);
    }
    let without = server.client().infer("copy", &[row], Form::Json, "").expect(200).json();
    assert!(without.get("id").is_none(), "{without}");
}

#[test]
fn inputs_may_come_partly_as_json_and_partly_as_bytes() {
    let repository = Repository::of(&["two_outputs"]);
    let server = Server::start(&repository, &[]);
    let b = Tensor::fp32("b", &[1, 4], &[10.0, 20.0, 30.0, 40.0]);
    let head = r#"{"inputs":[
        {"name":"a","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]},
        {"name":"b","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}],
        "outputs":[{"name":"sum"}]}"#;
    let length = head.len().to_string();
    let body = [head.as_bytes(), &b.raw].concat();
    let reply =
        server.client().post("/v2/models/two_outputs/infer", &[(LENGTH, &length)], body).output();
    assert_eq!(reply, Tensor::fp32("sum", &[1, 4], &[11.0, 22.0, 33.0, 44.0]));
}

#[test]
fn each_output_comes_as_bytes_or_json_as_it_was_asked_for() {
    let repository = Repository::of(&["two_outputs"]);
    let server = Server::start(&repository, &[]);
    let inputs = ["a", "b"].map(|name| Tensor::fp32(name, &[1, 4], &[1.0; 4]));
    let ask = |parameters: &str| {
        let (json, _) = infer_body(&inputs, Form::Json, parameters);
        server.client().post("/v2/models/two_outputs/infer", &[], json).expect(200)
    };
    let forms = |reply: &crate::support::Reply| -> Vec<bool> {
        let length = reply.header(LENGTH).map_or(reply.body.len(), |it| it.parse().unwrap());
        let head: Value = serde_json::from_slice(&reply.body[..length]).unwrap();
        let outputs = head["outputs"].as_array().unwrap().iter();
        outputs.map(|it| it["parameters"]["binary_data_size"].is_u64()).collect()
    };
    let mixed = ask(r#""outputs":[{"name":"sum","parameters":{"binary_data":true}},
        {"name":"difference","parameters":{"binary_data":false}}]"#);
    assert_eq!(forms(&mixed), [true, false]);
    assert_eq!(mixed.header("content-type"), Some("application/octet-stream"));
    assert_eq!(mixed.outputs()[0], Tensor::fp32("sum", &[1, 4], &[2.0; 4]));
    assert_eq!(mixed.outputs()[1], Tensor::fp32("difference", &[1, 4], &[0.0; 4]));

    let default = ask(r#""parameters":{"binary_data_output":true},"outputs":[{"name":"sum"},
        {"name":"difference","parameters":{"binary_data":false}}]"#);
    assert_eq!(forms(&default), [true, false]);
    let json = ask(r#""outputs":[{"name":"sum"}]"#);
    assert_eq!(json.header(LENGTH), None);
    assert_eq!(json.header("content-type"), Some("application/json"));
}

#[test]
fn a_header_length_of_zero_makes_the_body_the_only_input_and_the_reply_binary() {
    let (_repository, server) = copy();
    let row = row([1.0, -2.0, 0.5, 4.0]);
    let reply = server.client().post(INFER, &[(LENGTH, "0")], &row.raw).expect(200);
    assert!(reply.header(LENGTH).is_some());
    assert_eq!(reply.output(), Tensor { name: "OUTPUT0".into(), ..row });

    let repository = Repository::of(&["type_string", "two_outputs", "dynamic"]);
    let server = Server::start(&repository, &[]);
    let raw = |model: &str, body: &[u8]| {
        server.client().post(&format!("/v2/models/{model}/infer"), &[(LENGTH, "0")], body)
    };
    let open = raw("dynamic", &[0; 20]).output();
    assert_eq!(open.shape, [1, 1]);
    let several = raw("two_outputs", &[0; 16]).error(400);
    assert!(several.contains("only have 1 input") && several.contains("'a'"), "{several}");
    let strings = raw("type_string", b"abc").error(400);
    assert!(strings.contains("input 'input'") && strings.contains("[3]"), "{strings}");
}

#[test]
fn a_version_is_chosen_by_the_address_and_the_highest_without_one() {
    // Versions that can be told apart: 1 and 2 of `two` are models of different weights.
    let repository = Repository::new()
        .copy("two/1", "tests/fixtures/models/scalar_one/1")
        .copy("two/2", "tests/fixtures/models/type_fp32/1")
        .file("two/config.pbtxt", "version_policy: { all: { } }");
    let server = Server::start(&repository, &[]);
    let mut client = server.client();
    let versions = client.get("/v2/models/two").expect(200).json();
    assert_eq!(versions["versions"], json!(["1", "2"]));
    assert_eq!(versions["inputs"][0]["shape"], json!([-1, 3]));
    let first = client.get("/v2/models/two/versions/1").expect(200).json();
    assert_eq!(first["inputs"][0]["shape"], json!([1]));

    let run = |client: &mut Client, path: &str, shape: &[usize]| {
        let values = vec![1.0; shape.iter().product()];
        let body = infer_body(&[Tensor::fp32("input", shape, &values)], Form::Json, "").0;
        client.post(&format!("/v2/models/two{path}/infer"), &[], body)
    };
    let latest = run(&mut client, "", &[1, 3]).expect(200).json();
    assert_eq!(latest["model_version"], "2");
    let chosen = run(&mut client, "/versions/1", &[1]).expect(200).json();
    assert_eq!(chosen["model_version"], "1");
    let unknown = run(&mut client, "/versions/3", &[1]).error(404);
    assert!(
        unknown.contains("'two' version 3 is not found") && unknown.contains("1, 2"),
        "{unknown}"
    );
}

#[test]
fn the_version_policy_decides_which_versions_are_loaded() {
    for (policy, ready) in [
        ("", json!(["10"])),
        ("version_policy: { latest: { num_versions: 2 } }", json!(["9", "10"])),
        ("version_policy: { specific: { versions: [ 1, 9 ] } }", json!(["1", "9"])),
        ("version_policy: { all: { } }", json!(["1", "9", "10"])),
    ] {
        let mut repository = Repository::new().file("m/config.pbtxt", policy);
        for version in ["1", "9", "10"] {
            repository =
                repository.copy(&format!("m/{version}"), "tests/fixtures/models/scalar_one/1");
        }
        let server = Server::start(&repository, &[]);
        let metadata = server.get("/v2/models/m").expect(200).json();
        assert_eq!(metadata["versions"], ready, "{policy}");
    }
}

#[test]
fn names_are_percent_decoded() {
    let name = "a b+c%é";
    let repository = Repository::identity(name, &[]);
    let server = Server::start(&repository, &[]);
    let encoded = "a%20b+c%25%C3%A9";
    let metadata = server.get(&format!("/v2/models/{encoded}")).expect(200).json();
    assert_eq!(metadata["name"], name);
    let row = row([1.0; 4]);
    let reply = server.client().infer(encoded, std::slice::from_ref(&row), Form::Binary, "");
    assert_eq!(reply.output().raw, row.raw);
}

#[test]
fn classes_come_with_their_labels_best_first() {
    let repository = Repository::new().copy("digits", "model_repository/digits");
    let server = Server::start(&repository, &[]);
    let two = [
        0.0, 0.0, 7.0, 16.0, 14.0, 3.0, 0.0, 0.0, 0.0, 0.0, 9.0, 14.0, 11.0, 15.0, 0.0, 0.0, 0.0,
        0.0, 1.0, 5.0, 0.0, 15.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 16.0, 5.0, 0.0, 0.0, 0.0, 0.0,
        0.0, 3.0, 16.0, 4.0, 0.0, 0.0, 0.0, 0.0, 1.0, 12.0, 14.0, 1.0, 0.0, 0.0, 0.0, 5.0, 12.0,
        16.0, 16.0, 14.0, 1.0, 0.0, 0.0, 8.0, 16.0, 14.0, 10.0, 13.0, 3.0,
    ];
    let images = Tensor::fp32("image", &[2, 1, 8, 8], &[two, two].concat());
    for binary in ["true", "false"] {
        let outputs = format!(
            "\"outputs\":[{{\"name\":\"probabilities\",\
             \"parameters\":{{\"classification\":3,\"binary_data\":{binary}}}}}]"
        );
        let reply =
            server.client().infer("digits", std::slice::from_ref(&images), Form::Binary, &outputs);
        let classes = reply.output();
        assert_eq!((&*classes.datatype, &*classes.shape), ("BYTES", &[2, 3][..]));
        let lines = classes.split();
        assert_eq!(lines[..3], lines[3..], "the same image twice");
        let best = String::from_utf8(lines[0].clone()).unwrap();
        assert!(best.starts_with("0.99") && best.ends_with(":2:two"), "{best}");
    }
}

#[test]
fn many_requests_pass_over_one_connection_also_when_they_are_sent_ahead() {
    let (_repository, server) = copy();
    let mut client = server.client();
    let rows: Vec<Tensor> = (0..20u8).map(|it| row([it.into(); 4])).collect();
    for row in &rows {
        let body = infer_body(std::slice::from_ref(row), Form::Json, "").0;
        client.send(crate::support::post_head(INFER, &[], body.len())).unwrap();
        client.send(body).unwrap();
    }
    for row in &rows {
        assert_eq!(client.reply().output().raw, row.raw);
    }
}

#[test]
fn a_chunked_body_is_as_good_as_one_with_a_length() {
    let (_repository, server) = copy();
    let row = row([1.0, 2.0, 3.0, 4.0]);
    let body = infer_body(std::slice::from_ref(&row), Form::Json, "").0;
    let mut client = server.client();
    client
        .send(format!(
            "POST {INFER} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\
             expect: 100-continue\r\n\r\n"
        ))
        .unwrap();
    for part in body.as_bytes().chunks(7) {
        client.send([format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()).unwrap();
    }
    client.send("0\r\n\r\n").unwrap();
    assert_eq!(client.reply().output().raw, row.raw);
}

#[test]
fn loading_by_request_is_refused_with_the_mode_that_it_needs() {
    let (_repository, server) = copy();
    for action in ["load", "unload"] {
        let error = server.post(&format!("/v2/repository/models/copy/{action}"), "{}").error(503);
        assert!(error.contains("--model-control-mode=explicit"), "{error}");
    }
    server.get("/v2/models/copy/ready").expect(200);
}
