//! Compressed bodies and replies, on every route that runs a model.

use std::{
    fs,
    io::{Read, Write},
};

use flate2::{
    Compression,
    read::{GzDecoder, ZlibDecoder},
    write::{GzEncoder, ZlibEncoder},
};

use frontend::grpc::proto::{
    InferTensorContents, ModelInferRequest,
    tensorflow::{
        TensorProto, TensorShapeProto,
        serving::{ModelSpec, PredictRequest, PredictResponse},
        tensor_shape_proto::Dim,
    },
};
use tonic::{Request, codegen::CompressionEncoding};

use crate::support::{
    Page, Process, Reply, Repository, Server, first_of, grpc as client, infer, row, wait_for,
};

fn gzip(plain: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn zlib(plain: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// The reply with its body made plain.
#[track_caller]
fn inflated(mut reply: Reply, encoding: &str) -> Reply {
    assert_eq!(reply.header("content-encoding"), Some(encoding), "{}", reply.text());
    assert_eq!(reply.header("vary"), Some("accept-encoding"));
    let (compressed, mut plain) = (std::mem::take(&mut reply.body), Vec::new());
    match encoding {
        "gzip" => GzDecoder::new(&compressed[..]).read_to_end(&mut plain).unwrap(),
        _ => ZlibDecoder::new(&compressed[..]).read_to_end(&mut plain).unwrap(),
    };
    assert!(compressed.len() < plain.len());
    reply.body = plain;
    reply
}

/// A model that takes rows of any number of floats, and answers with them.
fn wide() -> Repository {
    let config = "backend: \"identity\"\nmax_batch_size: 8\n\
                  input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }\n\
                  output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] }\n";
    Repository::new().model("m", config)
}

fn wide_row(numbers: usize) -> String {
    let data = vec!["1.5"; numbers].join(",");
    format!(
        "{{\"inputs\":[{{\"name\":\"INPUT0\",\"shape\":[1,{numbers}],\"datatype\":\"FP32\",\"data\":[{data}]}}]}}"
    )
}

#[test]
fn bodies_in_both_encodings_are_read_on_every_route_that_runs_a_model() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[]);
    let predict = "{\"instances\":[[7,0,0,0]]}";
    let rows = row(7);
    for (path, body) in
        [(&*infer("m"), &*rows), ("/v1/models/m:predict", predict), ("/invocations", &rows)]
    {
        let plain = server.post(path, body).expect(200);
        for (name, compressed) in [
            ("gzip", gzip(body)),
            ("deflate", zlib(body)),
            // Some clients mix up the names, and the data say what they are.
            ("gzip", zlib(body)),
            ("GZIP", gzip(body)),
            ("identity", body.as_bytes().to_vec()),
            ("", body.as_bytes().to_vec()),
        ] {
            let headers = [("content-encoding", name), ("content-type", "application/json")];
            let reply = server.client().post(path, &headers, &compressed).expect(200);
            assert_eq!(reply.text(), plain.text(), "{path} {name}");
        }
    }
}

#[test]
fn a_large_body_with_binary_tensors_is_inflated_and_answered() {
    let server = Server::start(&wide(), &[]);
    let numbers = 1_000_000;
    let json = format!(
        "{{\"inputs\":[{{\"name\":\"INPUT0\",\"shape\":[1,{numbers}],\"datatype\":\"FP32\",\
         \"parameters\":{{\"binary_data_size\":{}}}}}],\"outputs\":[{{\"name\":\"OUTPUT0\",\
         \"parameters\":{{\"binary_data\":true}}}}]}}",
        numbers * 4
    );
    let tensor: Vec<u8> =
        (0..numbers).flat_map(|it| ((it / 8) as f32 / 7.0).to_le_bytes()).collect();
    let body = [json.as_bytes(), &tensor].concat();
    let length = json.len().to_string();
    for accept in ["", "gzip", "deflate"] {
        let headers = [
            ("content-encoding", "gzip"),
            ("inference-header-content-length", &*length),
            ("accept-encoding", accept),
        ];
        let mut reply = server.client().post(&infer("m"), &headers, gzip(&body)).expect(200);
        if !accept.is_empty() {
            reply = inflated(reply, accept);
        }
        let at = reply.header("inference-header-content-length").unwrap().parse::<usize>().unwrap();
        assert!(reply.body[at..] == tensor, "{accept}");
    }
    wait_for("all bytes to be given back", || {
        (Page::read(server.http()).value("muster_bytes_in_flight") == 0.0).then_some(())
    });
}

#[test]
fn replies_are_compressed_as_the_client_prefers_and_only_where_it_pays() {
    let server = Server::start(&wide(), &[]);
    let ask = |accept: Option<&str>, numbers| {
        let headers: Vec<_> = accept.iter().map(|it| ("accept-encoding", *it)).collect();
        server.client().post(&infer("m"), &headers, wide_row(numbers)).expect(200)
    };
    let large = 40_000;
    let plain = ask(None, large);
    for (accept, expect) in [
        ("gzip", Some("gzip")),
        ("deflate", Some("deflate")),
        ("gzip;q=0.1, deflate", Some("deflate")),
        ("br, gzip", Some("gzip")),
        ("gzip;q=0", None),
        ("identity", None),
        ("br", None),
        ("*", None),
        ("gzip;q=x", None),
    ] {
        // On the I/O thread and aside.
        for numbers in [1000, large] {
            let reply = ask(Some(accept), numbers);
            match expect {
                Some(encoding) => {
                    let reply = inflated(reply, encoding);
                    assert_eq!(reply.json()["outputs"][0]["data"][numbers - 1], 1.5);
                    assert!(numbers != large || reply.body == plain.body);
                }
                None => assert_eq!(reply.header("content-encoding"), None, "{accept}"),
            }
        }
        // A small one, and an error, are plain in any case.
        assert_eq!(ask(Some(accept), 3).header("content-encoding"), None);
        let headers = [("accept-encoding", accept)];
        let refused = server.client().post(&infer("none"), &headers, row(1));
        refused.error(404);
        assert_eq!(refused.header("content-encoding"), None);
    }
}

#[test]
fn other_encodings_are_refused_with_those_that_are_taken() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[]);
    for given in ["br", "zstd", "compress", "gzip, gzip", "gzip, deflate", "*", "gzip;q=1"] {
        for path in [&*infer("m"), "/v1/models/m:predict", "/invocations"] {
            let reply = server.client().post(path, &[("content-encoding", given)], gzip(row(1)));
            let text = reply.error(501);
            assert!(text.contains("gzip, deflate or identity") && text.contains(given), "{text}");
            assert_eq!(reply.header("accept-encoding"), Some("gzip, deflate"));
        }
    }
    let twice = [("content-encoding", "gzip"), ("content-encoding", "gzip")];
    server.client().post(&infer("m"), &twice, gzip(gzip(row(1)))).error(501);
    // One that is inside another is no JSON.
    let once = [("content-encoding", "gzip")];
    server.client().post(&infer("m"), &once, gzip(gzip(row(1)))).error(400);
}

#[test]
fn a_bomb_costs_its_sender_a_refusal_and_nobody_else_anything() {
    let repository = Repository::identity("m", &[]);
    let flags = ["--http-max-input-size=128MiB", "--max-inflight-bytes=256MiB"];
    let server = Server::start(&repository, &flags);
    let mut client = server.client();
    let mut ask = |body: Vec<u8>| client.post(&infer("m"), &[("content-encoding", "gzip")], body);
    // A thousand to one, below the limit, and more than a quarter of what all may take.
    let text = ask(gzip(vec![b' '; 80 << 20])).error(413);
    assert!(text.contains("100 times"), "{text}");
    // Of an honest ratio, and above it.
    let noise: Vec<u8> =
        (0..129u32 << 20).map(|it| (it.wrapping_mul(2_654_435_761) >> 27) as u8).collect();
    let text = ask(gzip(noise)).error(413);
    assert!(text.contains("maximum allowed value of 134217728 bytes"), "{text}");
    // Blanks before a request are honest, and compress well.
    let padded = " ".repeat(500_000) + &row(3);
    assert_eq!(first_of(&ask(gzip(padded))), 3.0);
    wait_for("all bytes to be given back", || {
        (Page::read(server.http()).value("muster_bytes_in_flight") == 0.0).then_some(())
    });
}

#[test]
fn damaged_bodies_are_refused_and_the_connection_is_kept() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &[]);
    let good = gzip(row(1));
    let mut client = server.client();
    let headers = [("content-encoding", "gzip")];
    for end in [0, 1, 2, 9, 10, 11, good.len() / 2, good.len() - 8, good.len() - 1] {
        client.post(&infer("m"), &headers, &good[..end]).error(400);
    }
    for place in [0, 3, 12, good.len() - 6] {
        let mut damaged = good.clone();
        damaged[place] ^= 0x55;
        client.post(&infer("m"), &headers, damaged).error(400);
    }
    client.post(&infer("m"), &headers, row(1)).error(400);
    client.post(&infer("m"), &headers, [&good[..], b"more"].concat()).error(400);
    assert_eq!(first_of(&client.post(&infer("m"), &headers, good)), 1.0);
}

#[test]
fn the_budget_of_bytes_holds_for_what_a_body_becomes() {
    let repository = Repository::identity("m", &[]);
    let server = Server::start(&repository, &["--max-inflight-bytes=100000"]);
    let padded = " ".repeat(90_000) + &row(3);
    let headers = [("content-encoding", "gzip")];
    assert_eq!(first_of(&server.client().post(&infer("m"), &headers, gzip(&padded))), 3.0);
    let larger = " ".repeat(110_000) + &row(3);
    server.client().post(&infer("m"), &headers, gzip(larger)).error(413);
}

#[test]
fn where_compression_is_off_nothing_is_inflated_and_nothing_deflated() {
    let server = Server::start(&wide(), &["--http-compression=off"]);
    let headers = [("content-encoding", "gzip")];
    let refused = server.client().post(&infer("m"), &headers, gzip(wide_row(1)));
    assert!(refused.error(501).contains("--http-compression"), "{}", refused.text());
    assert_eq!(refused.header("accept-encoding"), Some("identity"));
    let headers = [("accept-encoding", "gzip"), ("content-encoding", "identity")];
    let reply = server.client().post(&infer("m"), &headers, wide_row(4000)).expect(200);
    assert_eq!(reply.header("content-encoding"), None);
}

/// How often the pool of the only I/O thread went to sleep: once behind each piece of work.
fn pieces_of_work(server: &Process) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let file = |task: &fs::DirEntry, name: &str| fs::read_to_string(task.path().join(name));
    let pool = tasks
        .map_while(Result::ok)
        .filter(|task| file(task, "comm").is_ok_and(|it| it.starts_with("http-0-offload")));
    let sleeps = pool.filter_map(|task| {
        let status = file(&task, "status").ok()?;
        let line = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
        line?.trim().parse::<u64>().ok()
    });
    sleeps.sum()
}

const LONG: usize = 200_000;

/// A request of many numbers that are no raw tensor.
fn typed() -> ModelInferRequest {
    let mut input = client::input("INPUT0", "FP32", &[1, LONG as i64]);
    let contents = InferTensorContents { fp32_contents: vec![1.5; LONG], ..Default::default() };
    input.contents = Some(contents);
    let (model_name, inputs) = ("m".to_owned(), vec![input]);
    ModelInferRequest { model_name, inputs, ..ModelInferRequest::default() }
}

#[test]
fn a_long_compressed_request_goes_to_the_pool_once_before_it_is_run() {
    let flags = ["--http-thread-count=1", "--tfs-grpc-port=0", "--caller-runs=off"];
    let repository = wide();
    let mut server = Process::start(&repository, &flags, &[]);
    server.wait_ready();
    let [grpc, tfs] = ["grpc", "tfs-grpc"].map(|port| {
        let client::Client { runtime, grpc } = client::Client::connect(server.address(port));
        client::Client { runtime, grpc: grpc.send_compressed(CompressionEncoding::Gzip) }
    });
    let (mut grpc, mut tfs, mut http) = (grpc, tfs, server.client());
    let raw = r#"]}],"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]}"#;
    let json = gzip(wide_row(LONG).replace("]}]}", raw));
    let dim = |size: usize| Dim { size: size as i64, name: String::new() };
    let tensor = TensorProto {
        dtype: 1,
        tensor_shape: Some(TensorShapeProto { dim: vec![dim(1), dim(LONG)], unknown_rank: false }),
        float_val: vec![1.5; LONG],
        ..TensorProto::default()
    };
    let predict = PredictRequest {
        model_spec: Some(ModelSpec { name: "m".to_owned(), ..ModelSpec::default() }),
        inputs: [("INPUT0".to_owned(), tensor)].into(),
        ..PredictRequest::default()
    };
    let check = |wire: &str, pieces: u64, send: &mut dyn FnMut()| {
        send();
        // Threads that get in each other's way sleep more often: half again as often as there is work.
        let rounds = (0..5).map(|_| {
            let before = pieces_of_work(&server);
            (0..10).for_each(|_| send());
            pieces_of_work(&server) - before
        });
        let rounds: Vec<u64> = rounds.collect();
        let fewest = *rounds.iter().min().unwrap();
        assert!(fewest < 21 * pieces, "{wire}: {rounds:?} for 10 requests each");
    };
    // The other one is for the reply.
    check("HTTP", 2, &mut || {
        let headers = [("content-encoding", "gzip")];
        http.post(&infer("m"), &headers, &json).expect(200);
    });
    check("gRPC", 1, &mut || drop(grpc.infer(typed()).unwrap()));
    check("gRPC of TensorFlow Serving", 1, &mut || {
        let path = "tensorflow.serving.PredictionService/Predict";
        let answer = tfs.call_with::<_, PredictResponse>(path, Request::new(predict.clone()));
        assert_eq!(answer.unwrap().outputs.len(), 1);
    });
}
