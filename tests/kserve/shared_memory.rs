//! Inputs and outputs in memory that clients share with the server: registering it, using it, and every way of getting
//! it wrong.

use std::fs::OpenOptions;

use serde_json::{Value, json};

use crate::support::{
    Client, Form, Repository, Server, Tensor, ask, infer, infer_body, row,
    shared_memory::{Object, SYSTEM, part, request},
    wait_queued,
};

const CUDA: &str = "/v2/cudasharedmemory";

fn copy(flags: &[&str]) -> (Repository, Server) {
    let repository = Repository::identity("copy", &[]);
    let server = Server::start(&repository, flags);
    (repository, server)
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn tensors_are_read_from_one_region_and_written_into_another() {
    let (_repository, server) = copy(&["--allow-client-shm=true"]);
    let values = floats((0..8u8).map(f32::from));
    let input = Object::new(&[&[9; 3][..], &values].concat());
    let output = Object::new(&[0xff; 40]);
    input.register(&server, "in%20put");
    output.register(&server, "out");
    let body = request(2, &part("in put", 3, 32), &part("out", 4, 36));
    let reply = server.post("/v2/models/copy/infer", &body).expect(200);
    let expected = json!({
        "id": "7", "model_name": "copy", "model_version": "1",
        "outputs": [{"name": "OUTPUT0", "datatype": "FP32", "shape": [2, 4]}],
    });
    assert_eq!(reply.json(), expected);
    assert_eq!(output.content(), [&[0xff; 4][..], &values, &[0xff; 4]].concat());

    // In the body and in memory, in either direction.
    let body = request(1, &part("in put", 3, 16), &json!({}));
    let reply = server.post("/v2/models/copy/infer", &body).output();
    assert_eq!(reply, Tensor::fp32("OUTPUT0", &[1, 4], &[0.0, 1.0, 2.0, 3.0]));
    let fives = Tensor::fp32("INPUT0", &[1, 4], &[5.0; 4]);
    let outputs = json!([{"name": "OUTPUT0", "parameters": part("out", 0, 16)}]);
    let (head, tail) = infer_body(&[fives], Form::Binary, &format!("\"outputs\":{outputs}"));
    let length = head.len().to_string();
    let headers = [("inference-header-content-length", length.as_str())];
    let body = [head.as_bytes(), &tail].concat();
    server.client().post("/v2/models/copy/infer", &headers, body).expect(200);
    assert_eq!(output.content()[..16], floats([5.0; 4]));
}

#[test]
fn invocations_of_this_protocol_may_name_memory_as_well() {
    let (_repository, server) = copy(&["--allow-client-shm=true"]);
    let values = floats([1.0, 2.0, 3.0, 4.0]);
    let (input, output) = (Object::new(&values), Object::new(&[0; 16]));
    input.register(&server, "in");
    output.register(&server, "out");
    let body = request(1, &part("in", 0, 16), &part("out", 0, 16));
    let mut client = Client::connect(server.sagemaker());
    client.post("/invocations", &[("content-type", "application/json")], &body).expect(200);
    assert_eq!(output.content(), values);
}

#[test]
fn large_tensors_go_the_same_way() {
    let repository = Repository::new().model(
        "wide",
        "backend: \"identity\" max_batch_size: 0
         input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }
         output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }",
    );
    let server = Server::start(&repository, &["--allow-client-shm=true"]);
    let count = 300_000u32;
    let values = floats((0..count).map(|it| it as f32));
    let (input, output) = (Object::new(&values), Object::new(&vec![0; values.len()]));
    input.register(&server, "in");
    output.register(&server, "out");
    let body = json!({
        "inputs": [{"name": "INPUT0", "shape": [count], "datatype": "FP32",
                    "parameters": part("in", 0, values.len())}],
        "outputs": [{"name": "OUTPUT0", "parameters": part("out", 0, values.len())}],
    });
    server.post("/v2/models/wide/infer", body.to_string()).expect(200);
    assert!(output.content() == values);
}

#[test]
fn strings_in_memory_have_their_lengths_in_front_and_are_checked() {
    let repository = Repository::of(&["type_string"]);
    let server = Server::start(&repository, &["--allow-client-shm=true"]);
    let strings = backend::encode_strings(["ab", "", "ünïcode"]);
    let (input, output) = (Object::new(&strings), Object::new(&[0; 64]));
    input.register(&server, "in");
    output.register(&server, "out");
    let ask = |size: usize| {
        let body = json!({
            "inputs": [{"name": "input", "shape": [1, 3], "datatype": "BYTES", "parameters": part("in", 0, size)}],
            "outputs": [{"name": "output", "parameters": part("out", 0, 64)}],
        });
        server.post("/v2/models/type_string/infer", body.to_string())
    };
    ask(strings.len()).expect(200);
    assert_eq!(output.content()[..strings.len()], strings[..]);
    let text = ask(strings.len() - 1).error(400);
    assert!(text.starts_with("input 'input': element 2 of the BYTES data"), "{text}");
}

#[test]
fn regions_are_listed_by_name_and_forgotten_when_unregistered() {
    let (_repository, server) = copy(&["--allow-client-shm=true"]);
    let object = Object::new(&[0; 100]);
    let register = |name: &str, body: Value| {
        server.post(&format!("{SYSTEM}/region/{name}/register"), body.to_string())
    };
    register("b", json!({"key": object.key(), "offset": 10, "byte_size": 90})).expect(200);
    register("a", json!({"key": object.key(), "byte_size": 5})).expect(200);
    let a = json!({"name": "a", "key": object.key(), "offset": 0, "byte_size": 5});
    let b = json!({"name": "b", "key": object.key(), "offset": 10, "byte_size": 90});
    assert_eq!(server.get(&format!("{SYSTEM}/status")).expect(200).json(), json!([a, b]));
    assert_eq!(server.get(&format!("{SYSTEM}/region/b/status")).expect(200).json(), json!([b]));
    let text = register("b", json!({"key": object.key(), "byte_size": 5})).error(400);
    assert!(text.contains("shared memory region 'b' already in manager"), "{text}");
    for path in ["region/b/unregister", "region/b/unregister", "region/never/unregister"] {
        server.post(&format!("{SYSTEM}/{path}"), "").expect(200);
    }
    assert_eq!(server.get(&format!("{SYSTEM}/status")).expect(200).json(), json!([a]));
    let text = server.get(&format!("{SYSTEM}/region/b/status")).error(404);
    assert!(text.contains("'b'"), "{text}");
    server.post(&format!("{SYSTEM}/unregister"), "").expect(200);
    assert_eq!(server.get(&format!("{SYSTEM}/status")).expect(200).json(), json!([]));
}

#[test]
fn a_registration_that_cannot_be_is_refused_with_what_was_expected() {
    let (_repository, server) = copy(&["--allow-client-shm=true"]);
    let object = Object::new(&[0; 100]);
    let refused = |body: Value, part: &str| {
        let reply = server.post(&format!("{SYSTEM}/region/r/register"), body.to_string());
        let text = reply.error(400);
        assert!(text.contains(part), "{text}");
    };
    let key = object.key();
    refused(json!({"key": key, "byte_size": 101}), "has 100 bytes");
    refused(json!({"key": key, "offset": 100, "byte_size": 1}), "has 100 bytes");
    refused(json!({"key": key, "offset": u64::MAX, "byte_size": 2}), "do not add up");
    refused(json!({"key": key, "byte_size": 0}), "byte_size above 0");
    refused(json!({"key": "", "byte_size": 1}), "a key such as '/name'");
    refused(json!({"key": "/../etc/passwd", "byte_size": 1}), "without further slashes");
    refused(json!({"key": "//triton_python_backend_shm_region_1", "byte_size": 1}), "reserved");
    refused(
        json!({"key": "/muster-tests-none", "byte_size": 1}),
        "Unable to open shared memory region: '/muster-tests-none'",
    );
    refused(json!({"key": 5, "byte_size": 1}), "key: expected a string");
    refused(json!({"byte_size": 1}), "the key 'key'");
    refused(json!({"kye": "/x"}), "did you mean 'key'?");
    assert_eq!(server.get(&format!("{SYSTEM}/status")).expect(200).json(), json!([]));
}

#[test]
fn a_request_that_names_memory_wrongly_is_refused_by_tensor_and_region() {
    let (_repository, server) = copy(&["--allow-client-shm=true"]);
    let object = Object::new(&[0; 32]);
    object.register(&server, "r");
    let good = part("r", 0, 16);
    let refused = |status, input: &Value, output: &Value, text: &[&str]| {
        let reply = server.post("/v2/models/copy/infer", request(1, input, output));
        let error = reply.error(status);
        assert!(text.iter().all(|it| error.contains(it)), "{error}");
        assert_eq!(reply.json()["request_id"], "7");
    };
    refused(
        404,
        &part("q", 0, 16),
        &json!({}),
        &["input 'INPUT0'", "Unable to find shared memory region: 'q'"],
    );
    refused(
        404,
        &good,
        &part("q", 0, 16),
        &["output 'OUTPUT0'", "Unable to find shared memory region: 'q'"],
    );
    refused(
        400,
        &part("r", 17, 16),
        &json!({}),
        &["input 'INPUT0'", "Invalid offset + byte size for shared memory region: 'r'", "32 bytes"],
    );
    refused(
        400,
        &good,
        &part("r", 30, 16),
        &[
            "output 'OUTPUT0'",
            "Invalid offset + byte size for shared memory region: 'r'",
            "32 bytes",
        ],
    );
    refused(400, &part("r", 0, 20), &json!({}), &["input 'INPUT0'", "Expected 16, got 20"]);
    refused(400, &good, &part("r", 16, 12), &["output 'OUTPUT0' takes 16 bytes", "12"]);
    let with = |key: &str, value: Value| {
        let mut it = good.clone();
        it[key] = value;
        it
    };
    refused(400, &good, &with("binary_data", json!(true)), &["'OUTPUT0'", "binary_data"]);
    refused(400, &good, &with("classification", json!(1)), &["'OUTPUT0'", "classification"]);
    refused(
        400,
        &with("binary_data_size", json!(16)),
        &good,
        &["binary_data_size, shared_memory_region"],
    );
    refused(400, &json!({"shared_memory_region": "r"}), &good, &["shared_memory_byte_size"]);
    server.post("/v2/models/copy/infer", request(1, &good, &good)).expect(200);
}

#[test]
fn a_client_that_cuts_its_object_gets_an_error_and_harms_nobody() {
    let (_repository, server) = copy(&["--allow-client-shm=true"]);
    let (input, output) = (Object::new(&[0; 8192]), Object::new(&[0; 8192]));
    input.register(&server, "in");
    output.register(&server, "out");
    let cut =
        |it: &Object| OpenOptions::new().write(true).open(it.path()).unwrap().set_len(100).unwrap();
    let at_the_end = |region| part(region, 8176, 16);
    cut(&output);
    let body = request(1, &at_the_end("in"), &at_the_end("out"));
    let text = server.post("/v2/models/copy/infer", body).error(400);
    assert!(text.contains("output 'OUTPUT0'") && text.contains("100 bytes"), "{text}");
    assert_eq!(output.content().len(), 100);
    cut(&input);
    let body = request(1, &at_the_end("in"), &json!({}));
    let text = server.post("/v2/models/copy/infer", body).error(400);
    assert!(text.contains("input 'INPUT0'") && text.contains("region 'in'"), "{text}");
    server.get("/v2/health/live").expect(200);
    let body = request(1, &part("in", 0, 16), &part("out", 0, 16));
    server.post("/v2/models/copy/infer", body).expect(200);
}

#[test]
fn a_region_that_is_unregistered_in_a_request_is_there_to_its_end() {
    let repository = Repository::identity("slow", &[("execute_delay_ms", "300")]);
    let server =
        Server::start(&repository, &["--allow-client-shm=true", "--default-instance-count=1"]);
    let (input, output) = (Object::new(&floats([1.0, 2.0, 3.0, 4.0])), Object::new(&[0; 16]));
    input.register(&server, "in");
    output.register(&server, "out");
    let body = request(1, &part("in", 0, 16), &part("out", 0, 16));
    // The first keeps the only instance, so that the second waits with its memory in hand.
    let mut first = ask(server.http(), "slow", row(1));
    let mut client = ask(server.http(), "slow", &body);
    wait_queued(server.address("metrics").unwrap(), "slow", 1);
    server.post(&format!("{SYSTEM}/unregister"), "").expect(200);
    first.reply().expect(200);
    client.reply().expect(200);
    assert_eq!(output.content(), input.content());
    server.post(&infer("slow"), body).error(404);
}

#[test]
fn memory_is_off_unless_it_is_allowed() {
    let (_repository, server) = copy(&[]);
    let object = Object::new(&[0; 16]);
    let body = json!({"key": object.key(), "byte_size": 16}).to_string();
    let text = server.post(&format!("{SYSTEM}/region/r/register"), body).error(501);
    assert!(text.starts_with("Client shared memory is disabled. Start the server with"), "{text}");
    assert!(text.contains("--allow-client-shm"), "{text}");
    for kind in [SYSTEM, CUDA] {
        let refused = server.post(&format!("{kind}/unregister"), "").error(501);
        assert_eq!(refused, text, "{kind}");
    }
    assert_eq!(server.get(&format!("{SYSTEM}/status")).expect(200).json(), json!([]));
    let body = request(1, &part("r", 0, 16), &json!({}));
    server.post("/v2/models/copy/infer", body).error(404);
}

#[test]
fn memory_of_gpus_is_refused_in_words_and_its_status_is_empty() {
    let (_repository, server) = copy(&["--allow-client-shm=true"]);
    assert_eq!(server.get(&format!("{CUDA}/status")).expect(200).json(), json!([]));
    server.get(&format!("{CUDA}/region/r/status")).error(404);
    server.post(&format!("{CUDA}/unregister"), "").expect(200);
    let register = |handle: &str| {
        let body = json!({"raw_handle": {"b64": handle}, "device_id": 0, "byte_size": 16});
        server.post(&format!("{CUDA}/region/r/register"), body.to_string())
    };
    let text = register("AAEC").error(400);
    assert!(text.contains("64 bytes, given 3"), "{text}");
    let text = register(&format!("{}==", "A".repeat(86))).error(501);
    assert!(text.contains("memory of GPUs"), "{text}");
}

#[test]
fn a_part_larger_than_a_request_may_be_is_refused_before_it_takes_memory() {
    let repository = Repository::new().model(
        "wide",
        "backend: \"identity\" max_batch_size: 0
         input { name: \"INPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }
         output { name: \"OUTPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }",
    );
    let flags =
        ["--allow-client-shm=true", "--http-max-input-size=1MiB", "--max-inflight-bytes=1MiB"];
    let server = Server::start(&repository, &flags);
    let object = Object::new(&[]);
    // Takes no memory: nothing has been written to it.
    let size = 1u64 << 40;
    OpenOptions::new().write(true).open(object.path()).unwrap().set_len(size).unwrap();
    let body = json!({"key": object.key(), "byte_size": size}).to_string();
    server.post(&format!("{SYSTEM}/region/r/register"), body).expect(200);
    let body = json!({"inputs": [{"name": "INPUT0", "shape": [size], "datatype": "UINT8",
        "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": size}}]});
    let text = server.post("/v2/models/wide/infer", body.to_string()).error(400);
    assert!(text.contains("--http-max-input-size"), "{text}");
}
