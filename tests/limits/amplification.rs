//! One client against all others: bodies that become much larger than they are, at default settings, in a control
//! group of 1 GiB. The server lives, an honest client is answered meanwhile, and a request costs no more than some
//! times an honest one of its size.
//!
//! Where no control group can be made, the budget is the one that such a group would have, and the peak of the
//! process's memory is what is compared.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes};
use flate2::{Compression, write::GzEncoder};
use frontend::grpc::proto::{InferTensorContents, ModelInferRequest};
use prost::Message;

use crate::support::{
    Client, Group, IN_PROCESS, PATIENCE, Process, Repository, grpc::input, infer, measures::busy,
    row,
};

const MEMORY: u64 = 1 << 30;

const MIB: usize = 1 << 20;

/// A server in a memory of 1 GiB.
struct Target {
    process: Process,
    http: SocketAddr,
    sagemaker: SocketAddr,
    grpc: SocketAddr,
    _repository: Repository,
    _group: Option<Group>,
}

/// What an honest client has got.
#[derive(Debug)]
struct Served {
    answers: usize,
    refusals: usize,
    /// The longest time without an answer.
    longest_gap: Duration,
}

impl Target {
    fn start() -> Target {
        let port = |put: &str, name: &str, dtype: &str, dims: &str| {
            format!("{put} {{ name: \"{name}\" data_type: TYPE_{dtype} dims: [ {dims} ] }}\n")
        };
        let config = |rows: usize, dtype: &str, dims: &str| {
            let ports = [port("input", "x", dtype, dims), port("output", "y", dtype, dims)];
            format!("backend: \"identity\"\nmax_batch_size: {rows}\n{}", ports.concat())
        };
        let repository = Repository::identity("m", &[])
            .model("double", &config(0, "FP64", "-1"))
            .model("float", &config(0, "FP32", "-1"))
            .model("eight", &config(0, "INT64", "8"))
            .model("rows", &config(1 << 24, "FP32", "1"))
            .model("open", &config(1 << 24, "FP32", "-1"))
            .model("wide", &config(1 << 24, "FP32", "10000"));
        let group = Group::make(MEMORY);
        let path = repository.at("");
        let mut args = vec!["--model-repository", &path, "--http-address=127.0.0.1"];
        args.extend(["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"]);
        args.push(IN_PROCESS);
        let muster = env!("CARGO_BIN_EXE_muster");
        let mut process = match &group {
            Some(group) => {
                let script = group.script();
                let args = [&["-c", &script, muster], &*args].concat();
                Process::program("/bin/sh", &args, &[])
            }
            None => {
                let budget = format!("--max-inflight-bytes={}", MEMORY / 4);
                args.push(&budget);
                Process::command(&args, &[])
            }
        };
        process.wait_ready();
        let [http, sagemaker, grpc] =
            ["http", "sagemaker", "grpc"].map(|service| process.address(service));
        Target { process, http, sagemaker, grpc, _repository: repository, _group: group }
    }

    /// Bytes of memory now, and at most since the last [`Target::forget`].
    fn memory(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let value = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
        };
        (value("VmRSS:"), value("VmHWM:"))
    }

    /// Makes the memory of now the peak.
    fn forget(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5").unwrap();
    }

    /// Asks a small model again and again.
    fn serve_until(&self, ended: &AtomicBool) -> Served {
        let mut served = Served { answers: 0, refusals: 0, longest_gap: Duration::ZERO };
        let mut last = Instant::now();
        // An attack may be over before the first answer, which is to come all the same.
        let waits = |answers: usize, last: Instant| answers == 0 && last.elapsed() < PATIENCE / 6;
        while !ended.load(Ordering::Relaxed) || waits(served.answers, last) {
            match self.post("m", row(1).as_bytes()) {
                200 => {
                    served.answers += 1;
                    served.longest_gap = served.longest_gap.max(last.elapsed());
                    last = Instant::now();
                }
                503 => served.refusals += 1,
                other => panic!("{other}"),
            }
        }
        served
    }

    fn post(&self, model: &str, body: &[u8]) -> u16 {
        let mut client = Client::connect(self.http);
        client.post(&infer(model), &[], body).status
    }

    fn invoke(&self, model: &str, kind: &str, accept: &str, body: &[u8]) -> u16 {
        let headers =
            [("content-type", kind), ("accept", accept), ("x-amzn-sagemaker-target-model", model)];
        Client::connect(self.sagemaker).post("/invocations", &headers, body).status
    }

    /// Sends a message as it is, over a connection of its own. The status of gRPC.
    fn call(&self, message: &Bytes) -> u16 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(self.grpc).await.unwrap();
            let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
            let connection = tokio::spawn(connection);
            let head = hyper::Request::post("http://x/inference.GRPCInferenceService/ModelInfer")
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .header("grpc-encoding", "gzip");
            let (reply, mut body) = client.send_request(head.body(()).unwrap(), false).unwrap();
            body.send_data(message.clone(), true).unwrap();
            let reply = reply.await.unwrap();
            // A head without a status is that of an answer, which takes long to read.
            let status = reply.headers().get("grpc-status");
            let code = status.map_or(0, |it| it.to_str().unwrap().parse().unwrap());
            connection.abort();
            code
        })
    }
}

/// A request of KServe whose data are such units, and whose reply is short of text.
fn numbers(dtype: &str, unit: &str, length: usize) -> Vec<u8> {
    let count = (length.saturating_sub(120) / unit.len()).max(1);
    let open = format!(
        r#"{{"outputs":[{{"name":"y","parameters":{{"binary_data":true}}}}],"inputs":[{{"name":"x","datatype":"{dtype}","shape":[{count}],"data":["#
    );
    let data = unit.repeat(count);
    format!("{open}{}]}}]}}", data.trim_end_matches(',')).into_bytes()
}

/// A request with parameters that nobody needs.
fn parameters(length: usize) -> Vec<u8> {
    let mut body = r#"{"parameters":{"#.to_owned();
    for at in 0.. {
        if length < body.len() {
            break;
        }
        body.push_str(&format!("\"{at:x}\":0,"));
    }
    body.pop();
    let input = r#"},"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}"#;
    (body + input).into_bytes()
}

/// How many times as long [`deflated`] messages are when they are inflated.
const DEFLATED: usize = 82;

/// A compressed message of about `length` bytes, of which there is nearly nothing in its tensor but zeros.
fn deflated(length: usize) -> Bytes {
    const BLOCK: usize = 32 << 10;
    let blocks = length * DEFLATED / BLOCK;
    let elements = blocks * BLOCK / 4;
    let mut start = request("float", "FP32", elements).encode_to_vec();
    prost::encoding::encode_key(7, prost::encoding::WireType::LengthDelimited, &mut start);
    prost::encoding::encode_varint((blocks * BLOCK) as u64, &mut start);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&start).unwrap();
    let (mut block, mut noise) = (vec![0; BLOCK], 1u64);
    for _ in 0..blocks {
        for byte in block.iter_mut().step_by(BLOCK / 200) {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (noise >> 33) as u8 & 0x3f;
        }
        encoder.write_all(&block).unwrap();
    }
    framed(&encoder.finish().unwrap(), true)
}

/// A message of a raw tensor.
fn raw(length: usize) -> Bytes {
    let mut request = request("float", "FP32", length / 4);
    request.raw_input_contents = vec![vec![0; length / 4 * 4].into()];
    framed(&request.encode_to_vec(), false)
}

/// A message of numbers, one byte each.
fn typed(length: usize) -> Bytes {
    // It is decoded in full, and then refused for its shape.
    let mut request = request("eight", "INT64", length);
    let contents = InferTensorContents { int64_contents: vec![1; length], ..Default::default() };
    request.inputs[0].contents = Some(contents);
    framed(&request.encode_to_vec(), false)
}

fn request(model: &str, datatype: &str, elements: usize) -> ModelInferRequest {
    ModelInferRequest {
        model_name: model.to_owned(),
        inputs: vec![input("x", datatype, &[elements as i64])],
        ..ModelInferRequest::default()
    }
}

/// A message behind its prefix.
fn framed(message: &[u8], compressed: bool) -> Bytes {
    let mut framed = Vec::with_capacity(5 + message.len());
    framed.put_u8(u8::from(compressed));
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.extend_from_slice(message);
    framed.into()
}

/// A way to send one body; the status of its answer.
type Send<'a> = Box<dyn Fn() -> u16 + Sync + 'a>;

/// What attackers have sent.
struct Attack {
    name: &'static str,
    /// Bytes of a body, and how many of them at the same time.
    length: usize,
    /// How many times as long an honest body of this format may become.
    grows: usize,
    /// Makes such a body of a length.
    make: for<'a> fn(&'a Target, usize) -> Send<'a>,
    /// Makes an honest one of the same format and length.
    honest: for<'a> fn(&'a Target, usize) -> Send<'a>,
}

/// The same of sparse rows, which are as long as the model says: of ten thousand columns few are given.
const SPARSE: usize = 64;

const JSON: &str = "application/json";
const LINES: &str = "application/jsonlines";

/// Text that becomes as long as its numbers.
fn honest_json(target: &Target, length: usize) -> Send<'_> {
    let body = numbers("FP32", "0.12345678,", length);
    Box::new(move || target.post("float", &body))
}

fn rows<'a>(
    target: &'a Target,
    model: &'static str,
    kind: &'static str,
    row: &str,
    length: usize,
) -> Send<'a> {
    let body = row.repeat((length / row.len()).max(1));
    let accept = if kind == LINES { LINES } else { JSON };
    Box::new(move || target.invoke(model, kind, accept, body.as_bytes()))
}

const ATTACKS: [Attack; 9] = [
    Attack {
        name: "compressed gRPC",
        length: 28 * MIB / 10,
        grows: DEFLATED,
        make: |target, length| {
            let message = deflated(length);
            Box::new(move || target.call(&message))
        },
        honest: |target, length| {
            let message = raw(length * DEFLATED);
            Box::new(move || target.call(&message))
        },
    },
    Attack {
        name: "typed gRPC",
        length: 4 * MIB,
        grows: 1,
        make: |target, length| {
            let message = typed(length);
            Box::new(move || target.call(&message))
        },
        honest: honest_json,
    },
    Attack {
        name: "parameters",
        length: 8 * MIB,
        grows: 1,
        make: |target, length| {
            let body = parameters(length);
            Box::new(move || target.post("float", &body))
        },
        honest: honest_json,
    },
    Attack {
        name: "numbers",
        length: 12 * MIB,
        grows: 1,
        make: |target, length| {
            let body = numbers("FP64", "1,", length);
            Box::new(move || target.post("double", &body))
        },
        honest: honest_json,
    },
    Attack {
        name: "lists",
        length: MIB,
        grows: 1,
        make: |target, length| {
            let body = numbers("FP32", "[],", length);
            Box::new(move || target.post("float", &body))
        },
        honest: honest_json,
    },
    Attack {
        name: "CSV",
        length: MIB / 2,
        grows: 1,
        make: |target, length| rows(target, "rows", "text/csv", "1\n", length),
        honest: |target, length| rows(target, "rows", "text/csv", "0.12345678\n", length),
    },
    Attack {
        name: "lines of JSON",
        length: MIB / 2,
        grows: 1,
        make: |target, length| rows(target, "rows", LINES, "[1]\n", length),
        honest: |target, length| rows(target, "rows", LINES, "[0.12345678]\n", length),
    },
    Attack {
        name: "one sparse row",
        length: 13,
        grows: 1,
        make: |target, length| rows(target, "open", "text/libsvm", "1:1 4000000:1", length),
        honest: |target, length| rows(target, "open", "text/libsvm", "1 1:1 2:1 3:1", length),
    },
    Attack {
        name: "sparse rows",
        length: MIB,
        grows: SPARSE,
        make: |target, length| rows(target, "wide", "text/libsvm", "1 1:1\n", length),
        honest: |target, length| rows(target, "rows", "text/libsvm", "1 1:0.12345678\n", length),
    },
];

#[test]
fn attackers_end_no_server_and_keep_no_client_out() {
    let target = Target::start();
    for Attack { name, length, make, .. } in ATTACKS {
        let send = make(&target, length);
        let (ended, started) = (AtomicBool::new(false), Instant::now());
        target.forget();
        let (statuses, served) = thread::scope(|scope| {
            let honest = scope.spawn(|| target.serve_until(&ended));
            let attackers: Vec<_> = (0..8).map(|_| scope.spawn(&send)).collect();
            let statuses: Vec<_> =
                attackers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            ended.store(true, Ordering::Relaxed);
            (statuses, honest.join().unwrap())
        });
        let statuses: Vec<u16> = statuses.into_iter().map(Result::unwrap).collect();
        let (_, peak) = target.memory();
        println!("{name}: {statuses:?}, {} MiB, {served:?}, {:?}", peak >> 20, started.elapsed());
        assert!(peak < MEMORY, "{name}: {} MiB", peak >> 20);
        assert!(0 < served.answers, "{name}: {served:?}");
        assert!(served.longest_gap < PATIENCE / 6, "{name}: {served:?}");
    }
}

/// The memory of a request is at most so many times its length, and its time at most so many times that of an honest
/// one.
const MEMORY_FACTOR: usize = 8;
const TIME_FACTOR: f64 = 10.0;

/// Bytes beside that: buffers of connections, memory that the allocator keeps, small tables.
const BESIDE: usize = 8 * MIB;

#[test]
fn a_request_costs_at_most_some_times_what_an_honest_one_of_its_size_does() {
    // Ticks of the clock are 10 ms long: so many tell a tenth from another.
    const ENOUGH: Duration = Duration::from_millis(200);
    for Attack { name, length, grows, make, honest } in ATTACKS {
        let target = Target::start();
        let length = length.min(MIB);
        let (send, honest) = (make(&target, length), honest(&target, length));
        let (before, _) = target.memory();
        let status = send();
        let more = target.memory().1.saturating_sub(before) as usize;
        let time = |send: &Send<'_>| {
            send();
            let since = busy(&target.process);
            for times in 1..=64 {
                send();
                let taken = busy(&target.process) - since;
                if ENOUGH <= taken {
                    return taken / times;
                }
            }
            (busy(&target.process) - since) / 64
        };
        let (own, theirs) = (time(&send), time(&honest));
        let factor = own.as_secs_f64() / theirs.as_secs_f64();
        println!("{name}: {status}, {} KiB more, {own:?} of {theirs:?}, {factor:.1}", more >> 10);
        let most = MEMORY_FACTOR * length * grows + BESIDE;
        assert!(more < most, "{name}: {} KiB more, {} at most", more >> 10, most >> 10);
        // What takes no time is not told by the clock.
        let short = own < Duration::from_millis(50);
        assert!(short || factor < TIME_FACTOR, "{name}: {own:?}, an honest one {theirs:?}");
    }
}
