//! Streaming inference: order, errors in both forms, the end.

use frontend::grpc::proto::{
    ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
    infer_parameter::ParameterChoice,
};
use tonic::Code;

use crate::support::{
    Repository, Server,
    grpc::{Client, firsts, identity},
    wait_queued,
};

const STREAM: &str = "inference.GRPCInferenceService/ModelStreamInfer";

fn start() -> (Server, Client) {
    let repository =
        Repository::identity("m", &[]).with_identity("slow", &[("execute_delay_ms", "30")]);
    let server = Server::start(&repository, &[]);
    let client = Client::new(&server);
    (server, client)
}

#[test]
fn answers_come_in_the_order_of_their_requests_and_each_is_final() {
    let (_server, mut client) = start();
    let request = |at: usize| {
        let model = if at.is_multiple_of(7) { "slow" } else { "m" };
        ModelInferRequest { id: at.to_string(), ..identity(model, &[at as f32]) }
    };
    let requests: Vec<_> = (0..100).map(request).collect();
    let (answers, end) = client.stream::<_, ModelStreamInferResponse>(STREAM, requests, &[]);
    end.unwrap();
    assert_eq!(answers.len(), 100);
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(answer.error_message, "");
        let response = answer.infer_response.as_ref().unwrap();
        assert_eq!((response.id.clone(), firsts(response)), (at.to_string(), vec![at as f32]));
        let last = &response.parameters["triton_final_response"].parameter_choice;
        assert_eq!(*last, Some(ParameterChoice::BoolParam(true)));
    }
}

#[test]
fn an_error_is_an_answer_with_the_id_of_its_request_and_the_stream_goes_on() {
    let (_server, mut client) = start();
    let requests: Vec<_> = ["m", "none", "m"]
        .iter()
        .map(|it| ModelInferRequest { id: format!("id-{it}"), ..identity(it, &[1.0]) })
        .collect();
    let (answers, end) =
        client.stream::<_, ModelStreamInferResponse>(STREAM, requests.clone(), &[]);
    end.unwrap();
    assert_eq!(answers.len(), 3);
    assert!(
        answers[1].error_message.contains("Request for unknown model: 'none' is not found"),
        "{answers:?}"
    );
    let failed = answers[1].infer_response.as_ref().unwrap();
    assert_eq!((&*failed.id, failed.outputs.len()), ("id-none", 0));
    assert!(failed.parameters.contains_key("triton_final_response"));
    assert_eq!(answers[2].error_message, "");

    let (answers, end) = client.stream::<_, ModelStreamInferResponse>(
        STREAM,
        requests,
        &[("triton_grpc_error", "true")],
    );
    assert_eq!(answers.len(), 1);
    let status = end.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "{status:?}");
}

#[test]
fn a_stream_whose_time_is_over_ends_with_one_error() {
    let repository =
        Repository::identity("m", &[]).with_identity("slow", &[("execute_delay_ms", "500")]);
    // Nothing is refused because it would come too late.
    let server = Server::start(&repository, &["--max-queue-wait-ms=0"]);
    let mut client = Client::new(&server);
    for ends_at_error in ["false", "true"] {
        let requests = vec![identity("m", &[1.0]), identity("slow", &[2.0]), identity("m", &[3.0])];
        let metadata = [("x-request-timeout-ms", "100"), ("triton_grpc_error", ends_at_error)];
        let (answers, end) =
            client.stream::<_, ModelStreamInferResponse>(STREAM, requests, &metadata);
        assert!(answers.iter().all(|it| it.error_message.is_empty()), "{answers:?}");
        let status = end.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
        assert!(status.message().starts_with("Deadline Exceeded"), "{status:?}");
    }
    let page = server.get("/metrics").text().to_owned();
    assert!(page.contains("muster_grpc_requests_total{code=\"DEADLINE_EXCEEDED\"} 2"), "{page}");
}

#[test]
fn an_open_stream_ends_when_the_server_stops_and_does_not_keep_it() {
    let (mut server, client) = start();
    let Client { runtime, mut grpc } = client;
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    send.send(identity("m", &[4.0])).unwrap();
    let mut answers = runtime.block_on(async {
        grpc.ready().await.unwrap();
        let requests = Requests(receive);
        let codec =
            tonic_prost::ProstCodec::<ModelInferRequest, ModelStreamInferResponse>::default();
        let path = format!("/{STREAM}").parse().unwrap();
        grpc.streaming(tonic::Request::new(requests), path, codec).await.unwrap().into_inner()
    });
    let first = runtime.block_on(answers.message()).unwrap().unwrap();
    assert_eq!(firsts(first.infer_response.as_ref().unwrap()), [4.0]);
    server.begin_stop();
    let end = runtime.block_on(answers.message()).unwrap_err();
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    server.wait().unwrap();
    drop(send);
}

#[test]
fn calls_in_flight_are_answered_when_the_server_stops_and_new_ones_are_not() {
    let repository = Repository::identity("m", &[("execute_delay_ms", "100")]);
    let mut server = Server::start(&repository, &["--default-instance-count=1"]);
    let Client { runtime, grpc } = Client::new(&server);
    let ask = |first: f32| {
        let mut grpc = grpc.clone();
        runtime.spawn(async move {
            grpc.ready().await.unwrap();
            let path = "/inference.GRPCInferenceService/ModelInfer".parse().unwrap();
            let codec = tonic_prost::ProstCodec::<_, ModelInferResponse>::default();
            grpc.unary(tonic::Request::new(identity("m", &[first])), path, codec).await
        })
    };
    let calls = [ask(1.0), ask(2.0), ask(3.0)];
    let address = server.http();
    let waited = runtime.spawn_blocking(move || wait_queued(address, "m", 2));
    runtime.block_on(waited).unwrap();
    server.begin_stop();
    for (call, first) in calls.into_iter().zip([1.0, 2.0, 3.0]) {
        let answer = runtime.block_on(call).unwrap().unwrap().into_inner();
        assert_eq!(firsts(&answer), [first]);
    }
    let late = runtime.block_on(ask(4.0)).unwrap().unwrap_err();
    assert_eq!(late.code(), Code::Unavailable, "{late:?}");
    server.wait().unwrap();
}

/// Requests as they are sent.
struct Requests(tokio::sync::mpsc::UnboundedReceiver<ModelInferRequest>);

impl tonic::codegen::tokio_stream::Stream for Requests {
    type Item = ModelInferRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<ModelInferRequest>> {
        self.0.poll_recv(context)
    }
}
