//! Models that answer a request in any number of parts, over every carrier, and where they are refused.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use frontend::grpc::proto::{
    InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
    infer_parameter::ParameterChoice,
};
use serde_json::json;
use tonic::Code;

use crate::support::{
    IN_PROCESS, Repository, Server,
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
    let text = server.post(path, body(0)).error(500);
    assert!(text.contains("told to fail by 'part_fails'"), "{text}");
    let stats = counted(&server, "faulty");
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

#[test]
fn what_gives_one_answer_is_not_decoupled_and_no_ensemble_has_such_a_member() {
    let one = config(&[]).replace("'parts'", "'other'");
    let ensemble = "platform: 'ensemble'
        input { name: 'x' data_type: TYPE_FP32 dims: [ -1, 4 ] }
        output { name: 'y' data_type: TYPE_FP32 dims: [ -1, 4 ] }
        ensemble_scheduling { step { model_name: 'm' model_version: -1
          input_map { key: 'INPUT0' value: 'x' } output_map { key: 'OUTPUT0' value: 'y' } } }";
    let repository =
        Repository::new().model("m", &config(&[])).model("one", &one).model("both", ensemble);
    let server = Server::start(&repository, &[IN_PROCESS, "--exit-on-error=false"]);
    let index = server.post("/v2/repository/index", "").json();
    let reason = |name: &str| {
        let models = index.as_array().unwrap();
        models.iter().find(|it| it["name"] == name).unwrap()["reason"].to_string()
    };
    assert!(reason("one").contains("the model gives each request one answer"), "{index}");
    assert!(reason("both").contains("gives a request any number of answers"), "{index}");
}
