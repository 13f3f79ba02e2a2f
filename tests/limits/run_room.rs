//! What a run takes beside the body that it is for: strings as an engine has them, networks of sounds, token vectors.
//! Room is taken for it before it is there; where there is none, the request is refused, and others go on.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::json;

use crate::support::{
    Client, Group, IN_PROCESS, Page, Process, Reply, Repository, Server, infer,
    pipelines::repository, row, wait_for,
};

const MIB: usize = 1 << 20;

/// A model of ONNX Runtime that gives what it gets, of any shape.
fn identity(repository: Repository, name: &str, dtype: &str) -> Repository {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let file = root.join("backends/onnxruntime/tests/models/identity").join(dtype);
    let model = fs::read(file.with_extension("onnx")).unwrap();
    repository.file(&format!("{name}/1/model.onnx"), model)
}

/// A request of a binary tensor with so many elements of zeros; the name of its only input, and its head's length.
fn zeros(input: &str, dtype: &str, elements: usize, bytes: usize) -> (Vec<u8>, String) {
    let mut body = json!({"inputs": [{"name": input, "shape": [1, elements], "datatype": dtype,
                                      "parameters": {"binary_data_size": bytes}}],
                          "parameters": {"binary_data_output": true}})
    .to_string()
    .into_bytes();
    let head = body.len();
    body.resize(head + bytes, 0);
    (body, head.to_string())
}

fn send(client: &mut Client, model: &str, (body, head): &(Vec<u8>, String)) -> Reply {
    let headers = [
        ("content-type", "application/octet-stream"),
        ("inference-header-content-length", head.as_str()),
    ];
    client.post(&infer(model), &headers, body)
}

fn in_flight(server: &Server) -> f64 {
    Page::read(server.http()).value("muster_bytes_in_flight")
}

#[test]
fn strings_take_room_as_the_engine_has_them_and_more_than_there_is_are_refused() {
    let repository = identity(Repository::new(), "texts", "BYTES");
    let server = Server::start(&repository, &[IN_PROCESS, "--max-inflight-bytes=64MiB"]);
    let input = server.get("/v2/models/texts").json()["inputs"][0]["name"].clone();
    let request = |strings: usize| zeros(input.as_str().unwrap(), "BYTES", strings, 4 * strings);
    send(&mut server.client(), "texts", &request(100_000)).expect(200);
    // Four bytes of the body each, 32 of the input, and 44 of the output.
    let error = send(&mut server.client(), "texts", &request(2_000_000)).error(400);
    assert!(error.contains("the engine's copy of the texts"), "{error}");
    assert!(error.contains("--max-inflight-bytes"), "{error}");
    let clients = 8;
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let large = request(500_000);
    let one = || match send(&mut server.client(), "texts", &large).status {
        200 => answered.fetch_add(1, Ordering::Relaxed),
        503 => refused.fetch_add(1, Ordering::Relaxed),
        other => panic!("{other}"),
    };
    let all = || thread::scope(|it| (0..clients).for_each(|_| drop(it.spawn(one))));
    assert!((0..20).any(|_| {
        all();
        0 < refused.load(Ordering::Relaxed)
    }));
    assert!(0 < answered.load(Ordering::Relaxed));
    wait_for("all bytes to be given back", || (in_flight(&server) == 0.0).then_some(()));
}

/// Silence of so many seconds at 16 kHz.
fn silence(seconds: usize) -> Vec<u8> {
    let data = seconds * 32_000;
    let mut wav = b"RIFF".to_vec();
    wav.extend((data as u32 + 36).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data");
    wav.extend((data as u32).to_le_bytes());
    wav.resize(wav.len() + data, 0);
    wav
}

#[test]
fn runs_of_sounds_take_room_for_what_their_network_compares() {
    let server = Server::start(&repository(&["speech"]), &["--max-inflight-bytes=48MiB"]);
    let invoke = |sound: &[u8]| {
        let headers = [("content-type", "audio/wav"), ("x-amzn-sagemaker-target-model", "speech")];
        Client::connect(server.sagemaker()).post("/invocations", &headers, sound)
    };
    // A thousand frames, each compared with each other by two heads in eight bytes: 16 MB.
    let sound = silence(20);
    invoke(&sound).expect(200);
    // Two thousand: 64 MB.
    let error = invoke(&silence(40)).error(400);
    assert!(error.contains("a run of this input would take"), "{error}");
    let refused = AtomicUsize::new(0);
    let one = || {
        let reply = invoke(&sound);
        if reply.status == 200 {
            return;
        }
        let problem = reply.error(503);
        assert!(problem.contains("--max-inflight-bytes"), "{problem}");
        refused.fetch_add(1, Ordering::Relaxed);
    };
    let is_refused = || {
        thread::scope(|it| (0..8).for_each(|_| drop(it.spawn(one))));
        0 < refused.load(Ordering::Relaxed)
    };
    assert!((0..20).any(|_| is_refused()), "none was refused");
    wait_for("all bytes to be given back", || (in_flight(&server) == 0.0).then_some(()));
    invoke(&sound).expect(200);
}

#[test]
fn a_request_of_many_rows_whose_runs_take_much_makes_them_one_after_the_other() {
    let server = Server::start(&repository(&["speech"]), &["--max-inflight-bytes=48MiB"]);
    let sound = silence(20);
    let size = 6 * (sound.len() + 4);
    let head = json!({"inputs": [{"name": "audio", "shape": [6, 1], "datatype": "BYTES",
                                  "parameters": {"binary_data_size": size}}]})
    .to_string();
    let mut body = head.clone().into_bytes();
    for _ in 0..6 {
        body.extend((sound.len() as u32).to_le_bytes());
        body.extend(&sound);
    }
    let reply = send(&mut server.client(), "speech", &(body, head.len().to_string())).expect(200);
    assert_eq!(reply.json()["outputs"][0]["shape"][0], 6);
}

#[test]
fn vectors_of_tokens_that_have_no_room_are_refused_before_their_rows_are_run() {
    let server = Server::start(&repository(&["st-6"]), &["--max-inflight-bytes=512KiB"]);
    let ask = |texts: usize| {
        let texts: Vec<String> = vec!["a b c d e f g h ".repeat(16); texts];
        let body = json!({"inputs": texts}).to_string();
        server.client().post("/v2/models/st-6/embed_all", &[], body)
    };
    let rows = || Page::read(server.http()).of("st-6", "muster_pipeline_rows_per_run_sum");
    ask(1).expect(200);
    let before = rows();
    let error = ask(64).text();
    assert!(error.contains("the reply to the request"), "{error}");
    assert_eq!(rows(), before);
    wait_for("all bytes to be given back", || (in_flight(&server) == 0.0).then_some(()));
}

#[test]
fn a_reply_that_can_never_fit_is_refused_before_its_rows_are_run() {
    let config = "backend: \"identity\"\nmax_batch_size: 4096\n\
                  input { name: \"x\" data_type: TYPE_FP32 dims: [ 1000 ] }\n\
                  output { name: \"y\" data_type: TYPE_FP32 dims: [ 1000 ] }\n";
    let repository = Repository::new().model("wide", config);
    let server = Server::start(&repository, &["--max-inflight-bytes=16MiB"]);
    let ask = |rows: usize, binary: bool| {
        let size = rows * 4000;
        let head = json!({"inputs": [{"name": "x", "shape": [rows, 1000], "datatype": "FP32",
                                      "parameters": {"binary_data_size": size}}],
                          "parameters": {"binary_data_output": binary}})
        .to_string();
        let mut body = head.clone().into_bytes();
        body.resize(head.len() + size, 0);
        send(&mut server.client(), "wide", &(body, head.len().to_string()))
    };
    let executions = || Page::read(server.http()).of("wide", "nv_inference_exec_count");
    ask(1000, true).expect(200);
    ask(1000, false).expect(200);
    let before = executions();
    // Four bytes of an element and four of its text, or more.
    let error = ask(3000, false).error(400);
    assert!(error.contains("the reply to 3000 rows takes"), "{error}");
    assert_eq!(executions(), before);
}

#[test]
fn a_large_run_of_each_of_several_models_leaves_little_behind() {
    // Only within a group is the memory of which models may keep a part known to be small.
    let Some(group) = Group::make(1 << 30) else { return };
    let types = ["FP64", "FP32", "INT64", "INT32"];
    let repository = types.iter().fold(Repository::identity("m", &[]), |it, dtype| {
        identity(it, &dtype.to_lowercase(), dtype)
    });
    let path = repository.at("");
    let mut args = vec!["--model-repository", &path, "--http-address=127.0.0.1"];
    args.extend(["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"]);
    args.push(IN_PROCESS);
    let script = group.script();
    let args = [&["-c", &script, env!("CARGO_BIN_EXE_muster")], &*args].concat();
    let mut process = Process::program("/bin/sh", &args, &[]);
    process.wait_ready();
    let http = process.address("http");
    for dtype in types {
        let model = dtype.to_lowercase();
        let about = Client::connect(http).get(&format!("/v2/models/{model}")).json();
        let size = if dtype.ends_with("64") { 8 } else { 4 };
        let input = about["inputs"][0]["name"].as_str().unwrap();
        let request = zeros(input, dtype, 200 * MIB / size, 200 * MIB);
        send(&mut Client::connect(http), &model, &request).expect(200);
    }
    Client::connect(http).post(&infer("m"), &[], row(1)).expect(200);
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    };
    wait_for("memory to be given back", || (resident() < 200 * MIB).then_some(()));
    drop(process);
}
