//! The SageMaker contract: /ping and /invocations with every content type, which model answers, and the
//! folders and ports that the platform hands out.

use crate::support::{Client, Form, Process, Reply, Repository, Server, Start, Tensor, infer_body};

const ATTRIBUTES: &str = "X-Amzn-SageMaker-Custom-Attributes";
const TARGET: &str = "X-Amzn-SageMaker-Target-Model";

/// A server whose only model gives a row of four floats back.
fn copy() -> (Repository, Server) {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, &[]);
    (repository, server)
}

fn invoke(server: &Server, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
    Client::connect(server.sagemaker()).post("/invocations", headers, body)
}

/// Sends a body and compares type and text of the reply.
#[track_caller]
fn check(server: &Server, content_type: &str, accept: &str, body: &str, expected: (&str, &str)) {
    let headers = [("content-type", content_type), ("accept", accept)];
    let headers: Vec<(&str, &str)> = headers.into_iter().filter(|it| !it.1.is_empty()).collect();
    let reply = invoke(server, &headers, body).expect(200);
    let given = (reply.header("content-type").unwrap_or(""), &*reply.text());
    assert_eq!(given, expected, "{content_type}, {accept}: {body}");
}

/// A file of NumPy's, version 1.0, of 32-bit floats.
fn npy(shape: &str, values: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &data].concat()
}

#[test]
fn ping_answers_every_method_with_an_empty_200() {
    let (_repository, server) = copy();
    for method in ["GET", "HEAD", "POST"] {
        let body = (method == "POST").then_some(&b""[..]);
        let reply = Client::connect(server.sagemaker()).request(method, "/ping", &[], body);
        assert_eq!((reply.status, &*reply.body), (200, &b""[..]), "{method}");
    }
}

#[test]
fn every_content_type_is_answered_in_its_own_form() {
    let (_repository, server) = copy();
    const LINES: &str = "[1,2,3,4]\n[5,6,7,8]\n";
    const FLOAT_LINES: &str = "[1.0,2.0,3.0,4.0]\n[5.0,6.0,7.0,8.0]\n";
    const ROWS: &str = "[[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0]]";
    let json = |body, expected: &str| {
        for content_type in ["application/json", "application/json; charset=utf-8", ""] {
            check(&server, content_type, "", body, ("application/json", expected));
        }
    };
    json("[[1,2,3,4],[5,6,7,8]]", ROWS);
    json(r#"{"instances":[[1,2,3,4],[5,6,7,8]]}"#, &format!("{{\"predictions\":{ROWS}}}"));
    json(r#"{"inputs":[[1,2,3,4],[5,6,7,8]]}"#, &format!("{{\"outputs\":{ROWS}}}"));
    json(r#"{"INPUT0":[[1,2,3,4],[5,6,7,8]]}"#, &format!("{{\"predictions\":{ROWS}}}"));
    for content_type in ["application/jsonlines", "application/x-ndjson", "application/jsons"] {
        check(&server, content_type, "", LINES, (content_type, FLOAT_LINES));
    }
    let csv = "1,2,3,4\n5,6,7,8\n";
    let floats = "1.0,2.0,3.0,4.0\n5.0,6.0,7.0,8.0\n";
    for content_type in ["text/csv", "text/csv; header=absent", "", "application/octet-stream"] {
        check(&server, content_type, "", csv, ("text/csv", floats));
    }
    // What the platform sends along for other containers changes nothing.
    let others = [
        ("content-type", "text/csv"),
        ("X-Amzn-SageMaker-Enable-Explanations", "`true`"),
        ("X-Amzn-SageMaker-Prefix-Aware-Id", "prefix"),
        ("X-Amzn-SageMaker-Adapter-Identifier", "adapter"),
    ];
    assert_eq!(invoke(&server, &others, csv).expect(200).text(), floats);
}

#[test]
fn whatever_host_is_named_is_served() {
    let (_repository, server) = copy();
    for host in ["169.254.255.131:8080", "model.aws.local", "_", ""] {
        let mut client = Client::connect(server.sagemaker());
        let head = format!(
            "POST /invocations HTTP/1.1\r\nhost: {host}\r\ncontent-type: text/csv\r\n\
             content-length: 8\r\n\r\n1,2,3,4\n"
        );
        client.send(head).unwrap();
        assert_eq!(client.reply().expect(200).text(), "1.0,2.0,3.0,4.0\n", "'{host}'");
    }
}

#[test]
fn a_numpy_array_is_answered_with_one_whether_or_not_its_type_is_given() {
    let (_repository, server) = copy();
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let body = npy("(2, 4)", &values);
    for headers in [&[("content-type", "application/x-npy")][..], &[]] {
        let reply = invoke(&server, headers, &body).expect(200);
        assert_eq!(reply.header("content-type"), Some("application/x-npy"));
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(text.contains("'<f4'") && text.contains("(2, 4)"), "{text}");
        let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        assert!(reply.body.ends_with(&data));
    }
}

#[test]
fn a_numpy_array_in_fortran_order_is_the_same_array() {
    let (_repository, server) = copy();
    let headers = [("content-type", "application/x-npy"), ("accept", "text/csv")];
    // Columns one after another, which the values of a data frame are.
    let columns = npy("(2, 4)", &[1.0, 5.0, 2.0, 6.0, 3.0, 7.0, 4.0, 8.0]);
    let at = columns.windows(5).position(|it| it == b"False").unwrap();
    let body = [&columns[..at], b"True ", &columns[at + 5..]].concat();
    let reply = invoke(&server, &headers, body).expect(200);
    assert_eq!(reply.text(), "1.0,2.0,3.0,4.0\n5.0,6.0,7.0,8.0\n");
}

#[test]
fn rows_without_elements_are_counted_before_they_are_written() {
    let port = |put: &str, name: &str| {
        format!("{put} {{ name: \"{name}\" data_type: TYPE_FP32 dims: [ -1, -1 ] }}\n")
    };
    let config = format!("backend: \"identity\"\n{}{}", port("input", "x"), port("output", "y"));
    let repository = Repository::new().model("m", &config);
    let server = Server::start(&repository, &["--max-inflight-bytes=1MiB"]);
    let ask = |rows: usize| {
        let headers = [("content-type", "application/x-npy"), ("accept", "application/json")];
        invoke(&server, &headers, npy(&format!("({rows}, 0)"), &[]))
    };
    let small = ask(2).expect(200).text();
    assert!(small.contains("[[],[]]"), "{small}");
    let refused = ask(1_000_000).error(400);
    assert!(refused.contains("--max-inflight-bytes"), "{refused}");
}

#[test]
fn raw_floats_without_a_type_are_one_row() {
    let (_repository, server) = copy();
    let row = Tensor::fp32("", &[4], &[1.0, 0.5, -2.0, 4.0]);
    let reply = invoke(&server, &[], &row.raw).expect(200);
    assert_eq!(reply.text(), "[[1.0,0.5,-2.0,4.0]]");
}

#[test]
fn kserve_requests_are_understood_as_json_and_under_the_binary_type() {
    let (_repository, server) = copy();
    let row = Tensor::fp32("INPUT0", &[1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let (json, _) = infer_body(std::slice::from_ref(&row), Form::Json, "");
    for headers in [&[("content-type", "application/json")][..], &[]] {
        assert_eq!(invoke(&server, headers, &json).output().raw, row.raw);
    }
    const BINARY: &str = "application/vnd.sagemaker-triton.binary+json;json-header-size=";
    let (json, raw) = infer_body(std::slice::from_ref(&row), Form::Binary, "");
    let content_type = format!("{BINARY}{}", json.len());
    let body = [json.as_bytes(), &raw].concat();
    let reply = invoke(&server, &[("content-type", &content_type)], body).expect(200);
    // The platform lets no other header through: the length is in the type of the reply too.
    let content_type = reply.header("content-type").unwrap();
    let length: usize = content_type.strip_prefix(BINARY).unwrap().parse().unwrap();
    assert_eq!(reply.body[length..], row.raw);
}

#[test]
fn accept_chooses_the_form_of_the_reply() {
    let (_repository, server) = copy();
    const CSV: &str = "1,2,3,4\n";
    const JSON: &str = r#"{"instances":[[1,2,3,4]]}"#;
    let predictions = r#"{"predictions":[[1.0,2.0,3.0,4.0]]}"#;
    let csv = ("text/csv", "1.0,2.0,3.0,4.0\n");
    check(&server, "text/csv", "application/json", CSV, ("application/json", predictions));
    check(&server, "text/csv", "*/*", CSV, csv);
    check(&server, "application/json", "text/csv", JSON, csv);
    check(&server, "application/json", "image/png, text/csv;q=0.5", JSON, csv);
    let lines = ("application/jsonlines", "[1.0,2.0,3.0,4.0]\n");
    check(&server, "application/json", "application/jsonlines", JSON, lines);
    let headers = [("content-type", "application/json"), ("accept", "application/x-npy")];
    let reply = invoke(&server, &headers, JSON).expect(200);
    assert!(reply.body.starts_with(b"\x93NUMPY"));
    let refused = [("content-type", "text/csv"), ("accept", "image/png")];
    let error = invoke(&server, &refused, CSV).error(406);
    assert!(error.contains("image/png") && error.contains("text/csv"), "{error}");
}

#[test]
fn the_platforms_default_accept_holds_for_clients_without_a_wish() {
    let repository = Repository::identity("copy", &[]);
    let start =
        Start::new(&repository).variable("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "text/csv");
    let server = start.run();
    let csv = ("text/csv", "1.0,2.0,3.0,4.0\n");
    check(&server, "application/json", "", "[[1,2,3,4]]", csv);
    let json = ("application/json", "[[1.0,2.0,3.0,4.0]]");
    check(&server, "application/json", "application/json", "[[1,2,3,4]]", json);
}

#[test]
fn errors_are_short_json_that_names_the_request() {
    let (_repository, server) = copy();
    let headers = [("content-type", "text/csv"), ("x-amzn-sagemaker-inference-id", "call-7")];
    let reply = invoke(&server, &headers, "1,2,3,4\n1,x,3,4\n");
    let error = reply.error(400);
    assert!(error.contains("'x'"), "{error}");
    assert_eq!(reply.json()["request_id"], "call-7");
    // The platform shows the caller only the beginning of an error.
    let long = "9".repeat(100_000);
    let reply = invoke(&server, &[("content-type", "text/csv")], format!("1,2,3,x{long}\n"));
    reply.error(400);
    assert!(reply.body.len() < 1100, "{} bytes", reply.body.len());
    let unsupported = invoke(&server, &[("content-type", "image/png")], "x").error(415);
    assert!(unsupported.contains("image/png") && unsupported.contains("text/csv"), "{unsupported}");
    assert!(invoke(&server, &[], "").error(400).contains("empty"));
}

#[test]
fn custom_attributes_come_back_with_the_reply() {
    let (_repository, server) = copy();
    let headers = [("content-type", "application/json"), (ATTRIBUTES, "trace=abc, user=7")];
    let reply = invoke(&server, &headers, "[[1,2,3,4]]").expect(200);
    assert_eq!(reply.header("x-amzn-sagemaker-custom-attributes"), Some("trace=abc, user=7"));
    let without = invoke(&server, &[], "[[1,2,3,4]]").expect(200);
    assert_eq!(without.header("x-amzn-sagemaker-custom-attributes"), None);
}

/// Two models whose answers to one number differ: 2·x and x + weight.
fn several() -> Repository {
    Repository::of(&["scalar", "fixed_batch"])
}

#[test]
fn among_several_models_the_request_or_the_operator_names_one() {
    let repository = several();
    let server = Server::start(&repository, &[]);
    let error = invoke(&server, &[], "21").error(400);
    for part in ["fixed_batch", "scalar", TARGET, "--sagemaker-default-model"] {
        assert!(error.contains(part), "{error}");
    }
    let named = invoke(&server, &[(TARGET, "scalar"), ("content-type", "text/csv")], "21\n");
    assert_eq!(named.expect(200).text().trim(), expected_scalar());

    let server = Server::start(&repository, &["--sagemaker-default-model=scalar"]);
    let default = invoke(&server, &[("content-type", "text/csv")], "21\n");
    assert_eq!(default.expect(200).text().trim(), expected_scalar());
    let named = invoke(
        &server,
        &[(TARGET, "fixed_batch"), ("content-type", "application/json")],
        "[[1,2,3],[4,5,6]]",
    );
    assert!(named.expect(200).text().starts_with("[["));
}

/// What the fixture `scalar` makes of 21.
fn expected_scalar() -> &'static str {
    "42.0"
}

#[test]
fn a_default_model_that_did_not_load_fails_the_ping_and_says_why() {
    let repository = several().copy("empty", "tests/fixtures/broken/empty");
    let server = Server::start(&repository, &["--sagemaker-default-model=empty"]);
    let ping = Client::connect(server.sagemaker()).get("/ping").expect(503);
    assert!(ping.text().contains("empty"), "{}", ping.text());
    invoke(&server, &[], "21").error(503);
    // Another model's failure does not count.
    let server = Server::start(&repository, &["--sagemaker-default-model=scalar"]);
    Client::connect(server.sagemaker()).get("/ping").expect(200);
}

#[test]
fn a_model_that_is_named_and_did_not_load_is_not_answered_for_by_the_default_one() {
    let repository = several().copy("empty", "tests/fixtures/broken/empty");
    let server = Server::start(&repository, &["--sagemaker-default-model=scalar"]);
    let invoke =
        |target| invoke(&server, &[(TARGET, target), ("content-type", "text/csv")], "21\n");
    let error = invoke("empty").error(503);
    assert!(error.contains("'empty'") && error.contains("model.onnx"), "{error}");
    // What the header names may be no model at all.
    assert_eq!(invoke("a/b/model.tar.gz").expect(200).text().trim(), expected_scalar());
}

#[test]
fn the_platform_learns_how_to_send_a_batch_job() {
    let (_repository, server) = copy();
    let parameters =
        Client::connect(server.sagemaker()).get("/execution-parameters").expect(200).json();
    assert!(parameters["MaxConcurrentTransforms"].as_u64().is_some_and(|it| 1 <= it));
    assert_eq!(parameters["BatchStrategy"], "MULTI_RECORD");
    assert_eq!(parameters["MaxPayloadInMB"], 6);
}

/// `muster serve` as the platform starts it, with models at `path` of the repository.
fn hosted(repository: &Repository, path: &str) -> Start {
    Start::command(&["serve"])
        .variable("SAGEMAKER_MODEL_PATH", &repository.at(path))
        .variable("SAGEMAKER_BIND_TO_PORT", "0")
}

#[test]
fn a_hosted_server_has_one_port_with_everything_on_it() {
    let repository = Repository::new().fixture("opt/ml/model/net", "scalar_one");
    let server = hosted(&repository, "opt/ml/model").run();
    assert!(server.address("http").is_none() && server.address("metrics").is_none());
    let mut client = Client::connect(server.sagemaker());
    client.get("/ping").expect(200);
    let metrics = client.get("/metrics").expect(200);
    assert!(metrics.text().contains("net"), "{}", metrics.text());
    assert!(invoke(&server, &[("content-type", "text/csv")], "1\n").expect(200).text().len() > 1);
}

#[test]
fn every_hosted_layout_is_found() {
    let one = "tests/fixtures/models/scalar_one/1/model.onnx";
    for (path, model, version) in [
        ("net/1/model.onnx", "net", "1"), // a repository
        ("model.onnx", "model", "1"),     // a file by its usual name
        ("weights.onnx", "model", "1"),   // the only file that can be a model
        ("7/model.onnx", "model", "7"),   // versions
        ("export/Servo/3/model.onnx", "Servo", "3"),
    ] {
        let repository = Repository::new()
            .copy(&format!("root/{path}"), one)
            .file("root/model.tar.gz", "the archive itself")
            .file("root/code/inference.py", "");
        let server = hosted(&repository, "root").run();
        let mut client = Client::connect(server.sagemaker());
        client.get("/ping").expect(200);
        let metadata = client.get(&format!("/v2/models/{model}")).expect(200).json();
        assert_eq!(metadata["versions"][0], version, "{path}");
        invoke(&server, &[("content-type", "text/csv")], "1\n").expect(200);
    }
}

#[cfg(feature = "pipelines")]
#[test]
fn a_hosted_folder_of_hugging_faces_answers_texts() {
    let folder = crate::support::pipelines::fixtures().join("sst2/folder");
    let body = r#"{"inputs": "I am super happy right now."}"#;
    // Beside what its container wants, and as the only model of a directory of models.
    for place in ["root", "root/sst2"] {
        let repository = crate::support::pipelines::copy(Repository::new(), place, &folder);
        let server = match place {
            "root" => hosted(&repository.file("root/code/inference.py", ""), "root").run(),
            _ => hosted(&repository, "root").run(),
        };
        Client::connect(server.sagemaker()).get("/ping").expect(200);
        let reply =
            invoke(&server, &[("content-type", "application/json")], body).expect(200).json();
        assert_eq!(reply[0]["label"], "POSITIVE", "{place}: {reply}");
    }
}

#[test]
fn the_base_directory_variable_names_the_folder_above() {
    let repository = Repository::new().fixture("opt/ml/model/net", "scalar_one");
    let start = Start::command(&["serve"])
        .variable("SAGEMAKER_BASE_DIR", &repository.at("opt/ml"))
        .variable("SAGEMAKER_BIND_TO_PORT", "0");
    Client::connect(start.run().sagemaker()).get("/v2/models/net/ready").expect(200);
}

#[test]
fn a_bare_configuration_in_a_hosted_folder_is_refused_with_the_layout_that_would_do() {
    let repository = Repository::new()
        .file("root/config.pbtxt", "backend: \"identity\"")
        .copy("root/1", "tests/fixtures/models/scalar_one/1");
    let error = hosted(&repository, "root").try_run().err().expect("nothing to serve").to_string();
    assert!(error.contains("config.pbtxt") && error.contains("<name>/1/model.onnx"), "{error}");
}

#[test]
fn a_model_file_can_be_served_as_it_lies() {
    let repository =
        Repository::new().copy("price.onnx", "tests/fixtures/models/scalar/1/model.onnx");
    let path = repository.at("price.onnx");
    let start = Start::command(&["serve", &path, "--http-port=0", "--sagemaker-port=0"]);
    let server = start.flags(&["--allow-metrics=false"]).run();
    let metadata = server.get("/v2/models/price").expect(200).json();
    assert_eq!(metadata["inputs"][0]["name"], "input");
    let reply = invoke(&server, &[("content-type", "text/csv")], "21\n").expect(200);
    assert_eq!(reply.text().trim(), expected_scalar());
}

#[test]
fn the_platforms_port_is_the_one_that_is_listened_on() {
    let repository = Repository::new().fixture("model/net", "scalar_one");
    let (mut process, address) = Process::on_a_free_port(|port| {
        let environment = [
            ("SAGEMAKER_MODEL_PATH", &*repository.at("model")),
            ("SAGEMAKER_BIND_TO_PORT", &*port.to_string()),
        ];
        Process::command(&["serve"], &environment)
    });
    assert_eq!(process.address("sagemaker").port(), address.port());
    process.wait_ready();
    Client::connect(address).get("/ping").expect(200);
    let listening = process.log().iter().filter(|it| it.contains(" listening ")).count();
    assert_eq!(listening, 1, "{:#?}", process.log());
}
