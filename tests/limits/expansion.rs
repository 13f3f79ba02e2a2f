//! What small bodies become: on every wire and in every format it is counted before it is there. So 64 such requests at
//! once take no more memory than the budget and a little.
//!
//! The model takes eight elements. What is larger is decoded in full, and then refused for its shape: outputs, which
//! are not known before the run, have no part in what is measured.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
};

use flate2::{Compression, Crc, write::DeflateEncoder, write::GzEncoder};
use frontend::grpc::proto::{
    InferTensorContents, ModelInferRequest, ModelInferResponse,
    model_infer_request::InferInputTensor,
    tensorflow::{
        TensorProto, TensorShapeProto,
        serving::{ModelSpec, PredictRequest, PredictResponse},
        tensor_shape_proto::Dim,
    },
};
use prost::Message;
use serde_json::Value;
use tonic::{Request, codegen::CompressionEncoding, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;

use crate::support::{
    Client, Page, Process, Repository, grpc as client, infer, wait_for, websocket::Socket,
};

const BUDGET: u64 = 32 << 20;

/// What the server may take beside its budget: buffers of connections, copies of a batch, threads.
const BESIDE: u64 = 80 << 20;

const AT_ONCE: usize = 64;

/// Elements of a tensor that takes 4 MiB: a quarter of a gigabyte for all requests.
const ELEMENTS: usize = 512 << 10;

fn start() -> (Repository, Process) {
    start_with(&[])
}

fn start_with(more: &[&str]) -> (Repository, Process) {
    let port = |put: &str, name: &str| {
        format!("{put} {{ name: \"{name}\" data_type: TYPE_INT64 dims: [ 8 ] }}\n")
    };
    let config = format!("backend: \"identity\"\n{}{}", port("input", "x"), port("output", "y"));
    let flags = [
        format!("--max-inflight-bytes={BUDGET}"),
        format!("--http-max-input-size={BUDGET}"),
        "--http-thread-count=4".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let repository = Repository::new().model("m", &config);
    // One heap: with more, each keeps some of what was freed, and how many there are depends on the machine's
    // processors and on how busy these are.
    let mut server = Process::start(&repository, &flags, &[("MALLOC_ARENA_MAX", "1")]);
    server.wait_ready();
    (repository, server)
}

/// Bytes of memory that the process has now, and the most that it has had.
fn resident(server: &Process) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let value = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    (value("VmRSS:"), value("VmHWM:"))
}

/// Has 64 requests sent at once, each by a thread, and looks at the memory that the server has had meanwhile. Each is
/// decoded, or refused for want of room; one by itself is decoded.
#[track_caller]
fn check(server: &mut Process, send: impl Fn() -> bool + Sync) {
    let http = server.address("http");
    let (before, _) = resident(server);
    assert!(send(), "one by itself is decoded");
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(&send);
        }
    });
    let (_, most) = resident(server);
    let more = most.saturating_sub(before);
    println!("{} MiB more", more >> 20);
    assert!(more < BUDGET + BESIDE, "{} MiB more", more >> 20);
    wait_for("the budget to be whole", || {
        (Page::read(http).value("muster_bytes_in_flight") == 0.0).then_some(())
    });
}

/// Sends a body; was it decoded?
fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &[u8]) -> bool {
    let reply = Client::connect(address).post(path, headers, body);
    match reply.status {
        503 => assert!(reply.text().contains("--max-inflight-bytes"), "{}", reply.text()),
        // CSV knows the shape before there is a tensor.
        _ => assert!(reply.error(400).contains("shape"), "{}", reply.text()),
    }
    reply.status == 400
}

/// A part of the error of a tensor that is larger than the model takes.
const SHAPE: &str = "unexpected shape for input 'x'";

/// `0,0,…`
fn zeros(count: usize) -> String {
    let mut text = "0,".repeat(count);
    text.pop();
    text
}

fn kserve(count: usize) -> String {
    format!(
        r#"{{"inputs":[{{"name":"x","datatype":"INT64","shape":[{count}],"data":[{}]}}],"outputs":[{{"name":"y","parameters":{{"binary_data":true}}}}]}}"#,
        zeros(count)
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn json_of_short_numbers() {
    let (_repository, mut server) = start();
    let (address, body) = (server.address("http"), kserve(ELEMENTS));
    check(&mut server, || post(address, &infer("m"), &[], body.as_bytes()));
}

#[test]
fn rows_of_tensorflow_serving() {
    let (_repository, mut server) = start();
    let address = server.address("http");
    let body = format!(r#"{{"instances":[{}]}}"#, zeros(ELEMENTS));
    check(&mut server, || post(address, "/v1/models/m:predict", &[], body.as_bytes()));
}

#[test]
fn rows_of_csv() {
    let (_repository, mut server) = start();
    let address = server.address("sagemaker");
    let body = "0\n".repeat(ELEMENTS);
    let headers = [("content-type", "text/csv")];
    check(&mut server, || post(address, "/invocations", &headers, body.as_bytes()));
}

#[test]
fn compressed_json() {
    let (_repository, mut server) = start();
    let (address, body) = (server.address("http"), gzip(kserve(ELEMENTS).as_bytes()));
    let headers = [("content-encoding", "gzip")];
    check(&mut server, || post(address, &infer("m"), &headers, &body));
}

#[test]
fn an_archive_that_cannot_fit_is_refused_before_it_is_inflated() {
    let (_repository, mut server) = start();
    // 28 MiB become 56: those of the archive are of half the size.
    let narrow: Vec<u8> =
        npy_of("<i4", 7 * ELEMENTS, |it| (it as u32 / 8 * 7919 % 65_521).to_le_bytes());
    let (address, body) = (server.address("sagemaker"), npz("x.npy", &narrow));
    let headers = [("content-type", "application/x-npz")];
    let refused = Client::connect(address).post("/invocations", &headers, &body).error(400);
    // And not for its shape, which is known only once it is inflated.
    assert!(refused.contains("--max-inflight-bytes"), "{refused}");
    let smaller = npz("x.npy", &npy(ELEMENTS / 4));
    assert!(post(address, "/invocations", &headers, &smaller), "one that fits is decoded");
}

/// A tensor of so many integers, as NumPy writes it.
fn npy(count: usize) -> Vec<u8> {
    npy_of("<i8", count, |it| (it / 8 * 7919 % 65_521).to_le_bytes())
}

/// The same of another type. Its elements are not all the same: deflate would make a thousandth of them, which is
/// refused.
fn npy_of<const SIZE: usize>(
    descr: &str,
    count: usize,
    element: impl Fn(u64) -> [u8; SIZE],
) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}");
    let padded = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(padded.len()).unwrap().to_le_bytes());
    bytes.extend(padded.as_bytes());
    bytes.extend((0..count as u64).flat_map(element));
    bytes
}

/// A ZIP archive of one deflated file.
fn npz(name: &str, content: &[u8]) -> Vec<u8> {
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
    deflate.write_all(content).unwrap();
    let packed = deflate.finish().unwrap();
    let mut crc = Crc::new();
    crc.update(content);
    let small = |number: u16| number.to_le_bytes().to_vec();
    let large = |number: usize| u32::try_from(number).unwrap().to_le_bytes().to_vec();
    let sizes = [crc.sum().to_le_bytes().to_vec(), large(packed.len()), large(content.len())];
    let common = [
        [small(20), small(0), small(8), small(0), small(0)].concat(),
        sizes.concat(),
        small(u16::try_from(name.len()).unwrap()),
        small(0),
    ]
    .concat();
    let mut archive = [b"PK\x03\x04".to_vec(), common.clone(), name.into(), packed].concat();
    let start = archive.len();
    let rest = [small(0), small(0), small(0), large(0), large(0)].concat();
    archive.extend([b"PK\x01\x02".to_vec(), small(20), common, rest, name.into()].concat());
    let length = archive.len() - start;
    let end = [small(0), small(0), small(1), small(1), large(length), large(start), small(0)];
    archive.extend([b"PK\x05\x06".to_vec(), end.concat()].concat());
    archive
}

fn grpc_request(data: impl FnOnce(&mut ModelInferRequest)) -> ModelInferRequest {
    let shape = vec![ELEMENTS as i64];
    let mut request = ModelInferRequest {
        model_name: "m".to_owned(),
        inputs: vec![InferInputTensor {
            name: "x".to_owned(),
            datatype: "INT64".to_owned(),
            shape,
            ..InferInputTensor::default()
        }],
        ..ModelInferRequest::default()
    };
    data(&mut request);
    request
}

/// Sends a request over a connection of its own; was it decoded?
fn call(address: SocketAddr, request: ModelInferRequest, compressed: bool) -> bool {
    let path = PathAndQuery::from_static("/inference.GRPCInferenceService/ModelInfer");
    call_at::<_, ModelInferResponse>(address, path, request, compressed)
}

fn call_at<Q, R>(address: SocketAddr, path: PathAndQuery, request: Q, compressed: bool) -> bool
where
    Q: Message + Send + Sync + 'static,
    R: Message + Default + Send + Sync + 'static,
{
    let client::Client { runtime, mut grpc } = client::Client::connect(address);
    if compressed {
        grpc = grpc.send_compressed(CompressionEncoding::Gzip);
    }
    let codec = ProstCodec::<Q, R>::default();
    let answer = runtime.block_on(async {
        grpc.ready().await.unwrap();
        grpc.unary(Request::new(request), path, codec).await
    });
    match answer {
        Ok(_) => panic!("a tensor of that size was run"),
        Err(status) if status.message().contains(SHAPE) => true,
        Err(status) => {
            assert!(status.message().contains("--max-inflight-bytes"), "{status}");
            false
        }
    }
}

#[test]
fn compressed_messages_of_grpc() {
    let (_repository, mut server) = start();
    let address = server.address("grpc");
    let raw = npy(ELEMENTS).split_off(128);
    let request = grpc_request(|it| it.raw_input_contents = vec![raw.into()]);
    check(&mut server, || call(address, request.clone(), true));
}

#[test]
fn typed_contents_of_grpc() {
    let (_repository, mut server) = start();
    let address = server.address("grpc");
    let contents = InferTensorContents { int64_contents: vec![0; ELEMENTS], ..Default::default() };
    let request = grpc_request(|it| it.inputs[0].contents = Some(contents));
    check(&mut server, || call(address, request.clone(), false));
}

#[test]
fn tensors_of_tensorflow_serving() {
    let (_repository, mut server) = start_with(&["--tfs-grpc-port=0"]);
    let address = server.address("tfs-grpc");
    let tensor = TensorProto {
        dtype: 9,
        tensor_shape: Some(TensorShapeProto {
            dim: vec![Dim { size: ELEMENTS as i64, name: String::new() }],
            unknown_rank: false,
        }),
        int64_val: vec![0; ELEMENTS],
        ..TensorProto::default()
    };
    let request = PredictRequest {
        model_spec: Some(ModelSpec { name: "m".to_owned(), ..ModelSpec::default() }),
        inputs: [("x".to_owned(), tensor)].into(),
        ..PredictRequest::default()
    };
    let path = PathAndQuery::from_static("/tensorflow.serving.PredictionService/Predict");
    for compressed in [false, true] {
        check(&mut server, || {
            call_at::<_, PredictResponse>(address, path.clone(), request.clone(), compressed)
        });
    }
}

#[test]
fn messages_of_a_websocket() {
    let (_repository, mut server) = start();
    let address = server.address("sagemaker");
    let body = kserve(ELEMENTS);
    check(&mut server, || {
        let stream = TcpStream::connect(address).unwrap();
        let mut socket = Socket::open(stream, "/invocations-bidirectional-stream", &[]);
        let answer = socket.ask(&body);
        assert!(answer.contains(SHAPE) || answer.contains("--max-inflight-bytes"), "{answer}");
        answer.contains(SHAPE)
    });
}

#[test]
fn asynchronous_invocations() {
    let spool = Repository::new();
    let flag = format!("--async-spool={}", spool.at(""));
    let (_repository, mut server) = start_with(&["--aws-facade", &flag, "--async-queue=64"]);
    let address = server.address("sagemaker");
    fs::create_dir_all(spool.at("data")).unwrap();
    fs::write(spool.at("data/body.json"), kserve(ELEMENTS)).unwrap();
    let headers = [
        ("x-amzn-sagemaker-content-type", "application/json"),
        ("x-amzn-sagemaker-inputlocation", "s3://data/body.json"),
    ];
    check(&mut server, || {
        let path = "/endpoints/m/async-invocations";
        let accepted = Client::connect(address).post(path, &headers, "").expect(202);
        let output = accepted.header("x-amzn-sagemaker-outputlocation").unwrap();
        let note = format!("{}.json", output.strip_prefix("s3://").unwrap());
        let note = wait_for("a note", || fs::read(spool.at(&note)).ok());
        // One without room is tried again until it has some.
        let note: Value = serde_json::from_slice(&note).unwrap();
        assert_eq!(note["invocationStatus"], "Failed", "{note}");
        assert!(note.to_string().contains(SHAPE), "{note}");
        true
    });
}

/// A model of rows, of which a reply repeats each.
fn start_rows() -> (Repository, Process) {
    let port = |put: &str, name: &str, dims: &str| {
        format!("{put} {{ name: \"{name}\" data_type: TYPE_FP32 dims: [ {dims} ] }}\n")
    };
    let config = |dims: &str| {
        let ports = [port("input", "x", dims), port("output", "y", dims)].concat();
        format!("backend: \"identity\"\nmax_batch_size: {}\n{ports}", 1 << 24)
    };
    let flags = [format!("--max-inflight-bytes={BUDGET}"), "--http-thread-count=4".to_owned()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let repository = Repository::new().model("rows", &config("1")).model("open", &config("-1"));
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    (repository, server)
}

/// Asks for rows; were they answered?
fn rows(address: SocketAddr, model: &str, kind: &str, accept: &str, body: &[u8]) -> bool {
    let headers =
        [("content-type", kind), ("accept", accept), ("x-amzn-sagemaker-target-model", model)];
    let reply = Client::connect(address).post("/invocations", &headers, body);
    match reply.status {
        200 => assert!(body.len() <= reply.body.len()),
        400 | 503 => assert!(reply.text().contains("--max-inflight-bytes"), "{}", reply.text()),
        _ => panic!("{}", reply.text()),
    }
    reply.status == 200
}

#[test]
fn replies_of_many_rows() {
    let (_repository, mut server) = start_rows();
    let address = server.address("sagemaker");
    let body = "1\n".repeat(20_000);
    for accept in ["text/csv", "application/jsonlines", "application/json"] {
        check(&mut server, || rows(address, "rows", "text/csv", accept, body.as_bytes()));
    }
    // A reply for which there is no room at all is not tried.
    let body = "1\n".repeat(2 << 20);
    let headers = [("content-type", "text/csv"), ("x-amzn-sagemaker-target-model", "rows")];
    let refused = Client::connect(address).post("/invocations", &headers, body).error(400);
    assert!(refused.contains("the reply to 2097152 rows takes"), "{refused}");
}

#[test]
fn lines_of_json_take_time_by_their_number() {
    let (_repository, mut server) = start_rows();
    let (address, kind) = (server.address("sagemaker"), "application/jsonlines");
    // Within a client's patience: not if each line looks at all lines behind it.
    let body = "[1]\n".repeat(20_000);
    assert!(rows(address, "rows", kind, kind, body.as_bytes()));
}

#[test]
fn sparse_rows() {
    let (_repository, mut server) = start_rows();
    let (address, kind) = (server.address("sagemaker"), "text/libsvm");
    // As long as the body makes them: a row of a few bytes does not become megabytes.
    let wide = Client::connect(address).post(
        "/invocations",
        &[("content-type", kind), ("x-amzn-sagemaker-target-model", "open")],
        b"1:1 4000000:1",
    );
    assert!(wide.error(415).contains("more than the 262248 that a body"), "{}", wide.text());
    let body = format!("1:1{}\n1:1", "\n".repeat(20_000));
    check(&mut server, || rows(address, "rows", kind, "text/csv", body.as_bytes()));
}
