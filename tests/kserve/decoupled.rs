//! Models that answer a request in any number of parts, over every carrier, and where they are refused.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

use frontend::grpc::proto::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
    infer_parameter::ParameterChoice,
};
use serde_json::json;
use socket2::{Domain, Socket, Type};
use tonic::Code;

use crate::support::{
    IN_PROCESS, Process, Repository, Server,
    grpc::{Client, firsts, identity},
    wait_for,
};

const STREAM: &str = "inference.GRPCInferenceService/ModelStreamInfer";

/// More parts than anybody reads.
const ENDLESS: i64 = 1 << 40;

/// A decoupled model: `INPUT0` → `OUTPUT0`, four floats, in three parts unless a request says otherwise.
fn config(parameters: &[(&str, &str)]) -> String {
    let own = [("parts", "3")];
    let parameter = |(key, value): &(&str, &str)| {
        format!("parameters {{ key: '{key}' value: {{ string_value: '{value}' }} }}\n")
    };
    let parameters: String = own.iter().chain(parameters).map(parameter).collect();
    format!(
        "backend: 'identity' max_batch_size: 8 model_transaction_policy {{ decoupled: true }}
         input {{ name: 'INPUT0' data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: 'OUTPUT0' data_type: TYPE_FP32 dims: [ 4 ] }}\n{parameters}"
    )
}

fn start() -> Server {
    let repository = Repository::new()
        .model("m", &config(&[]))
        .model("free", &config(&[("parts_leave", "true")]))
        .model("faulty", &config(&[("part_fails", "true")]));
    Server::start(&repository, &[IN_PROCESS])
}

fn body(parts: i64) -> String {
    json!({ "INPUT0": [1.0, 2.0, 3.0, 4.0], "parts": parts }).to_string()
}

fn request(model: &str, id: &str, parts: i64) -> ModelInferRequest {
    let wanted = InferParameter { parameter_choice: Some(ParameterChoice::Int64Param(parts)) };
    ModelInferRequest {
        id: id.to_owned(),
        parameters: [("parts".to_owned(), wanted)].into(),
        ..identity(model, &[1.0])
    }
}

fn is_final(response: &ModelInferResponse) -> bool {
    let said = &response.parameters["triton_final_response"].parameter_choice;
    *said == Some(ParameterChoice::BoolParam(true))
}

/// What the statistics say of the only version of a model.
fn counted(server: &Server, model: &str) -> serde_json::Value {
    server.get(&format!("/v2/models/{model}/stats")).json()["model_stats"][0].clone()
}

#[test]
fn where_one_answer_is_taken_a_decoupled_model_is_refused_before_it_runs() {
    let server = start();
    let infer = json!({ "inputs": [
        { "name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4] }] });
    let text = server.post("/v2/models/m/infer", infer.to_string()).error(501);
    let words = "doesn't support models with decoupled transaction policy";
    assert_eq!(text, format!("HTTP end point {words}"));
    let text = Client::new(&server).refused(identity("m", &[1.0]), Code::Unimplemented);
    assert_eq!(text, format!("ModelInfer RPC {words}"));
    assert_eq!(counted(&server, "m")["execution_count"], json!(0));
    let config = server.get("/v2/models/m/config").json();
    assert_eq!(config["model_transaction_policy"], json!({ "decoupled": true }));
}

#[test]
fn generate_takes_exactly_one_part() {
    let server = start();
    let path = "/v2/models/m/generate";
    assert_eq!(
        server.post(path, body(1)).expect(200).json()["OUTPUT0"],
        json!([1.0, 2.0, 3.0, 4.0])
    );
    for parts in [0, 2] {
        let text = server.post(path, body(parts)).error(500);
        assert!(text.contains("generate expects model to produce exactly 1 response"), "{text}");
    }
}

#[test]
fn each_part_is_an_event_and_the_request_is_counted_once() {
    let server = start();
    let path = "/v2/models/m/generate_stream";
    let reply = server.post(path, body(3)).expect(200);
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(reply.header("content-length"), None);
    let text = reply.text();
    let events: Vec<&str> = text.split_terminator("\n\n").collect();
    assert_eq!(events.len(), 3, "{events:?}");
    for event in events {
        let event: serde_json::Value =
            serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(event["OUTPUT0"], json!([1.0, 2.0, 3.0, 4.0]));
    }
    let stats = counted(&server, "m");
    assert_eq!(stats["inference_stats"]["success"]["count"], json!(1));
    assert_eq!((&stats["inference_count"], &stats["execution_count"]), (&json!(1), &json!(1)));
    assert_eq!(server.post(path, body(0)).expect(200).text(), "");
    let responses = &counted(&server, "m")["response_stats"];
    let counts = |place: &str, what: &str| responses[place][what]["count"].as_u64().unwrap();
    for place in ["0", "1", "2"] {
        assert_eq!((counts(place, "success"), counts(place, "fail")), (1, 0), "{responses}");
        assert!(0 < responses[place]["compute_infer"]["ns"].as_u64().unwrap(), "{responses}");
    }
    // The second answer had nothing but its end.
    assert_eq!((counts("0", "empty_response"), counts("0", "compute_infer")), (1, 2));
}

#[test]
fn an_error_behind_the_first_part_is_an_event_and_one_before_it_is_the_status() {
    let server = start();
    let path = "/v2/models/faulty/generate_stream";
    let reply = server.post(path, body(1)).expect(200);
    let text = reply.text();
    let (first, last) = text.split_once("\n\n").unwrap();
    assert!(first.contains("OUTPUT0"), "{first}");
    let last: serde_json::Value =
        serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
    assert!(last["error"].as_str().unwrap().contains("told to fail by 'part_fails'"), "{last}");
    let reply = server.post(path, body(0)).expect(500);
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let only = reply.text();
    let only: serde_json::Value =
        serde_json::from_str(only.strip_prefix("data: ").unwrap().trim_end()).unwrap();
    assert_eq!(only, last);
    let stats = counted(&server, "faulty");
    let failed = |place: &str| stats["response_stats"][place]["fail"]["count"].clone();
    assert_eq!((failed("0"), failed("1")), (json!(1), json!(1)), "{stats}");
    assert_eq!(stats["inference_stats"]["fail"]["count"], json!(2));
    assert_eq!(stats["inference_stats"]["success"]["count"], json!(0));
}

#[test]
fn an_event_arrives_before_the_last_is_sent_and_a_client_that_leaves_ends_the_answer() {
    let server = start();
    let mut stream = TcpStream::connect(server.http()).unwrap();
    let body = body(ENDLESS);
    let head = format!(
        "POST /v2/models/m/generate_stream HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut read = Vec::new();
    while String::from_utf8_lossy(&read).matches("data: ").count() < 2 {
        let mut piece = [0; 1024];
        let length = stream.read(&mut piece).unwrap();
        assert!(0 < length, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&piece[..length]);
    }
    // The only instance is in that run. It is free again as the run hears that nobody reads.
    drop(stream);
    assert_eq!(
        server.post("/v2/models/m/generate", self::body(1)).expect(200).json()["OUTPUT0"][0],
        1.0
    );
    wait_for("the request is counted as failed", || {
        let stats = counted(&server, "m");
        (stats["inference_stats"]["fail"]["count"] == json!(1)).then_some(())
    });
}

#[test]
fn a_client_that_has_sent_its_last_byte_gets_all_parts() {
    let slow = config(&[("part_delay_us", "20000"), ("parts_leave", "true")]);
    let server = Server::start(&Repository::new().model("m", &slow), &[IN_PROCESS]);
    let mut stream = TcpStream::connect(server.http()).unwrap();
    let body = body(3);
    let head = crate::support::post_head("/v2/models/m/generate_stream", &[], body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut read = String::new();
    stream.read_to_string(&mut read).unwrap();
    assert_eq!(read.matches("data: ").count(), 3, "{read}");
    assert!(read.ends_with("0\r\n\r\n"), "{read}");
}

#[test]
fn responses_of_a_stream_say_which_is_the_last() {
    let server = start();
    let mut client = Client::new(&server);
    let mut empty = request("m", "none", 0);
    let wanted = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(true)) };
    empty.parameters.insert("triton_enable_empty_final_response".to_owned(), wanted);
    let requests = vec![request("m", "three", 3), request("m", "no", 0), empty];
    let (answers, end) = client.stream::<_, ModelStreamInferResponse>(STREAM, requests, &[]);
    end.unwrap();
    assert!(answers.iter().all(|it| it.error_message.is_empty()), "{answers:?}");
    let responses = answers.iter().map(|it| it.infer_response.as_ref().unwrap());
    let (three, others): (Vec<_>, Vec<_>) = responses.partition(|it| it.id == "three");
    assert!(three.iter().all(|it| firsts(it) == [1.0]));
    let finals: Vec<bool> = three.into_iter().map(is_final).collect();
    assert_eq!(finals, [false, false, true]);
    assert_eq!(others.len(), 1);
    assert_eq!((&*others[0].id, &*others[0].model_name), ("none", "m"));
    assert!(is_final(others[0]) && others[0].outputs.is_empty());
}

#[test]
fn an_error_of_a_stream_has_the_id_or_ends_it() {
    let server = start();
    let mut client = Client::new(&server);
    let requests = vec![request("faulty", "a", 1)];
    let (answers, end) =
        client.stream::<_, ModelStreamInferResponse>(STREAM, requests.clone(), &[]);
    end.unwrap();
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert!(!is_final(answers[0].infer_response.as_ref().unwrap()));
    assert!(answers[1].error_message.contains("told to fail by 'part_fails'"));
    let failed = answers[1].infer_response.as_ref().unwrap();
    assert!(failed.id == "a" && is_final(failed));
    let at_error = [("triton_grpc_error", "true")];
    let (answers, end) = client.stream::<_, ModelStreamInferResponse>(STREAM, requests, &at_error);
    assert_eq!((answers.len(), end.unwrap_err().code()), (1, Code::Internal));
}

#[test]
fn answers_of_one_stream_do_not_wait_for_each_other() {
    let server = start();
    let Client { runtime, mut grpc } = Client::new(&server);
    // The first never ends, and the model gives it up only as its client leaves.
    let requests = vec![request("free", "endless", ENDLESS), request("free", "short", 1)];
    runtime.block_on(async {
        grpc.ready().await.unwrap();
        let codec =
            tonic_prost::ProstCodec::<ModelInferRequest, ModelStreamInferResponse>::default();
        let path = format!("/{STREAM}").parse().unwrap();
        let requests = tonic::codegen::tokio_stream::iter(requests);
        let request = tonic::Request::new(requests);
        let mut answers = grpc.streaming(request, path, codec).await.unwrap().into_inner();
        let mut seen = [false; 2];
        while seen != [true; 2] {
            let answer: ModelStreamInferResponse = answers.message().await.unwrap().unwrap();
            let id = answer.infer_response.unwrap().id;
            seen[usize::from(id == "short")] = true;
        }
    });
    wait_for("the endless request is counted as failed", || {
        // The client's connection says that it has left.
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(5)).await });
        let stats = counted(&server, "free");
        (stats["inference_stats"]["fail"]["count"] == json!(1)).then_some(())
    });
}

/// A model that gives one answer.
fn one() -> String {
    config(&[]).replace("'parts'", "'other'").replace("decoupled: true", "decoupled: false")
}

/// `INPUT0` → `OUTPUT0` through these models.
fn chain(models: &[&str]) -> String {
    let last = models.len() - 1;
    let tensor = |at: usize| format!("between{at}");
    let steps: String = models.iter().enumerate().map(|(at, model)| {
        let from = if at == 0 { "INPUT0".to_owned() } else { tensor(at - 1) };
        let to = if at == last { "OUTPUT0".to_owned() } else { tensor(at) };
        format!(
            "step {{ model_name: '{model}' model_version: -1 input_map {{ key: 'INPUT0' value: '{from}' }}
             output_map {{ key: 'OUTPUT0' value: '{to}' }} }}\n"
        )
    }).collect();
    format!(
        "platform: 'ensemble' max_batch_size: 8
         input {{ name: 'INPUT0' data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: 'OUTPUT0' data_type: TYPE_FP32 dims: [ 4 ] }}
         ensemble_scheduling {{ {steps} }}"
    )
}

#[test]
fn an_ensemble_gives_as_many_answers_as_its_decoupled_members_do() {
    let faulty = config(&[("part_fails", "true")]);
    let repository = Repository::new()
        .model("m", &config(&[]))
        .model("faulty", &faulty)
        .model("one", &one())
        .model("last", &chain(&["one", "m"]))
        .model("inner", &chain(&["one", "m", "one"]))
        .model("twice", &chain(&["m", "one", "m"]))
        .model("nested", &chain(&["twice", "one"]))
        .model("fails", &chain(&["faulty", "one"]));
    let server = Server::start(&repository, &[IN_PROCESS]);
    let events = |model: &str, parts: i64| {
        let path = format!("/v2/models/{model}/generate_stream");
        let text = server.post(&path, body(parts)).expect(200).text().to_owned();
        text.matches("\"OUTPUT0\":[1.0,2.0,3.0,4.0]").count()
    };
    for (model, parts, expected) in
        [("last", 3, 3), ("inner", 2, 2), ("twice", 3, 9), ("nested", 2, 4), ("twice", 0, 0)]
    {
        assert_eq!(events(model, parts), expected, "{model}");
    }
    let stats = counted(&server, "twice");
    assert_eq!(stats["inference_stats"]["success"]["count"], json!(3), "{stats}");
    let config = server.get("/v2/models/inner/config").json();
    assert_eq!(config["model_transaction_policy"], json!({ "decoupled": true }));
    let refused = Client::new(&server).refused(identity("inner", &[1.0]), Code::Unimplemented);
    assert!(refused.contains("decoupled transaction policy"), "{refused}");

    let (answers, end) = Client::new(&server).stream::<_, ModelStreamInferResponse>(
        STREAM,
        vec![request("inner", "a", 3)],
        &[],
    );
    end.unwrap();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|it| firsts(it.infer_response.as_ref().unwrap()) == [1.0]));

    let path = "/v2/models/fails/generate_stream";
    let text = server.post(path, body(2)).expect(200).text().to_owned();
    assert_eq!(text.matches("OUTPUT0").count(), 2, "{text}");
    assert!(text.contains("step[0]") && text.contains("told to fail by 'part_fails'"), "{text}");
    assert_eq!(counted(&server, "fails")["inference_stats"]["fail"]["count"], json!(1));
}

#[test]
fn a_client_that_leaves_an_ensemble_leaves_its_decoupled_member() {
    let repository = Repository::new()
        .model("m", &config(&[]))
        .model("one", &one())
        .model("e", &chain(&["m", "one"]));
    let server = Server::start(&repository, &[IN_PROCESS]);
    let mut stream = TcpStream::connect(server.http()).unwrap();
    let body = body(ENDLESS);
    let head = crate::support::post_head("/v2/models/e/generate_stream", &[], body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut seen = [0; 256];
    assert!(0 < stream.read(&mut seen).unwrap());
    drop(stream);
    for model in ["e", "m"] {
        wait_for("the request is counted as failed", || {
            let stats = counted(&server, model);
            (stats["inference_stats"]["fail"]["count"] == json!(1)).then_some(())
        });
    }
    // The only instance of the member is free again.
    server.post("/v2/models/m/generate", self::body(1)).expect(200);
}

#[test]
fn what_gives_one_answer_is_not_decoupled_and_answers_side_by_side_are_not_put_together() {
    let wrong = config(&[]).replace("'parts'", "'other'");
    let side_by_side = "platform: 'ensemble' max_batch_size: 8
        input { name: 'x' data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: 'y' data_type: TYPE_FP32 dims: [ 4 ] }
        output { name: 'z' data_type: TYPE_FP32 dims: [ 4 ] }
        ensemble_scheduling {
          step { model_name: 'm' model_version: -1
            input_map { key: 'INPUT0' value: 'x' } output_map { key: 'OUTPUT0' value: 'y' } }
          step { model_name: 'm' model_version: -1
            input_map { key: 'INPUT0' value: 'x' } output_map { key: 'OUTPUT0' value: 'z' } } }";
    let repository =
        Repository::new().model("m", &config(&[])).model("one", &wrong).model("both", side_by_side);
    let server = Server::start(&repository, &[IN_PROCESS, "--exit-on-error=false"]);
    let index = server.post("/v2/repository/index", "").json();
    let reason = |name: &str| {
        let models = index.as_array().unwrap();
        models.iter().find(|it| it["name"] == name).unwrap()["reason"].to_string()
    };
    assert!(reason("one").contains("the model gives each request one answer"), "{index}");
    assert!(reason("both").contains("expected one behind the other"), "{index}");
}

#[test]
fn each_request_of_a_sequence_is_answered_in_parts() {
    let repository = Repository::new().model("m", &(config(&[]) + "sequence_batching { }"));
    let server = Server::start(&repository, &[IN_PROCESS]);
    let asked = |at: usize| {
        let mut request = request("m", &at.to_string(), 3);
        let bools = [("sequence_start", at == 0), ("sequence_end", at == 2)];
        let own = bools.map(|(name, it)| (name.to_owned(), ParameterChoice::BoolParam(it)));
        let id = [("sequence_id".to_owned(), ParameterChoice::Int64Param(7))];
        let parameters = own.into_iter().chain(id);
        let parameters = parameters
            .map(|(name, it)| (name, InferParameter { parameter_choice: Some(it) }))
            .collect::<Vec<_>>();
        request.parameters.extend(parameters);
        request
    };
    let mut client = Client::new(&server);
    let requests = (0..3).map(asked).collect();
    let (answers, end) = client.stream::<_, ModelStreamInferResponse>(STREAM, requests, &[]);
    end.unwrap();
    for at in 0..3 {
        let of_it = answers.iter().map(|it| it.infer_response.as_ref().unwrap());
        let of_it: Vec<_> = of_it.filter(|it| it.id == at.to_string()).collect();
        let finals: Vec<bool> = of_it.into_iter().map(is_final).collect();
        assert_eq!(finals, [false, false, true]);
    }
}

#[test]
#[ignore = "takes a quarter of a minute, and measures memory: cargo test --test kserve -- --ignored a_thousand_readers"]
fn a_thousand_readers_of_a_byte_a_second_cost_little_and_harm_nobody() {
    const READERS: usize = 1000;
    let repository =
        Repository::new().model("free", &config(&[("parts_leave", "true")])).model("one", &one());
    let mut server = Process::start(&repository, &[IN_PROCESS], &[]);
    server.wait_ready();
    let address = server.address("http");
    let memory = || -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
    };
    let mut other = crate::support::Client::connect(address);
    let mut slowest = || {
        let path = crate::support::infer("one");
        let mut times: Vec<Duration> = (0..200)
            .map(|_| {
                let began = Instant::now();
                other.post(&path, &[], crate::support::row(1)).expect(200);
                began.elapsed()
            })
            .collect();
        times.sort();
        (times[100], times[198])
    };
    let (before, alone) = (memory(), slowest());
    let body = body(ENDLESS);
    let head = crate::support::post_head("/v2/models/free/generate_stream", &[], body.len());
    let mut readers: Vec<TcpStream> = (0..READERS)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            // What lies in the kernel is not the server's.
            socket.set_recv_buffer_size(4096).unwrap();
            socket.connect(&address.into()).unwrap();
            let mut stream = TcpStream::from(socket);
            stream.write_all((head.clone() + &body).as_bytes()).unwrap();
            stream
        })
        .collect();
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(1));
        readers.iter_mut().for_each(|it| it.read_exact(&mut [0]).unwrap());
    }
    let (each, beside) = (memory().saturating_sub(before) / READERS, slowest());
    println!(
        "{each} bytes for each reader; another model's p50 and p99: {alone:?}, beside them {beside:?}"
    );
    assert!(each <= 1 << 20, "{each} bytes for each reader");
    drop(readers);
    wait_for("all requests are counted as failed", || {
        let stats = other.get("/v2/models/free/stats").json();
        let failed = &stats["model_stats"][0]["inference_stats"]["fail"]["count"];
        (*failed == json!(READERS)).then_some(())
    });
}
