//! A connection remembers what is around the tensors of its last request. No answer shows that: each is the one that a
//! new connection gets.

use serde_json::json;
use tonic::Status;

use crate::support::{
    Client, Form, Repository, Server, Tensor,
    control::{EXPLICIT, load},
    grpc::{self, identity, input},
    infer_body,
};
use frontend::grpc::proto::{ModelInferRequest, ModelInferResponse};

const LENGTH: &str = "inference-header-content-length";

/// A server with the models `copy` and `other`.
fn copy_and_other() -> (Repository, Server) {
    let repository = Repository::identity("copy", &[]).with_identity("other", &[]);
    let server = Server::start(&repository, &[EXPLICIT, "--load-model=*"]);
    (repository, server)
}

/// Loads `copy` anew, with ports of that type.
fn load_as(server: &Server, dtype: &str) {
    let port = |name: &str| json!([{"name": name, "data_type": dtype, "dims": [4]}]);
    let (input, output) = (port("INPUT0"), port("OUTPUT0"));
    let config =
        json!({"backend": "identity", "max_batch_size": 8, "input": input, "output": output});
    let body = json!({"parameters": {"config": config.to_string()}}).to_string();
    load(server, "copy", &body).expect(200);
}

/// What comes between requests.
enum Step<R> {
    Ask(R),
    /// The model is loaded anew, with ports of that type.
    Load(&'static str),
}

/// Asks each request twice in a row, in an order in which each comes behind itself and behind others, and the model is
/// loaded anew in between.
fn steps<R: Clone>(requests: &[R]) -> Vec<Step<R>> {
    let twice = |it: &R| [Step::Ask(it.clone()), Step::Ask(it.clone())];
    let there: Vec<Step<R>> = requests.iter().flat_map(twice).collect();
    let and_back: Vec<Step<R>> = requests.iter().rev().flat_map(twice).collect();
    let last = requests.iter().flat_map(twice).collect();
    let loads = |dtype| vec![Step::Load(dtype)];
    [there, loads("TYPE_INT32"), and_back, loads("TYPE_FP32"), last].into_iter().flatten().collect()
}

/// The status, the body, and the fields that are not of one reply alone.
fn post(client: &mut Client, (model, length, body): &(&str, Option<usize>, Vec<u8>)) -> Answer {
    let length = length.map(|it| it.to_string());
    let headers: Vec<(&str, &str)> = length.iter().map(|it| (LENGTH, &**it)).collect();
    let reply = client.post(&format!("/v2/models/{model}/infer"), &headers, body);
    let fields = ["content-type", "content-length", LENGTH];
    let fields = fields.map(|it| reply.header(it).map(str::to_owned));
    // An error names its request.
    let body = if reply.status == 200 { reply.body } else { reply.error(reply.status).into() };
    (reply.status, fields, body)
}

type Answer = (u16, [Option<String>; 3], Vec<u8>);

/// The model of a request, the length of its JSON in front of tensors, and its body.
type Asked<'a> = (&'a str, Option<usize>, Vec<u8>);

#[test]
fn requests_over_http_that_are_alike_get_the_answers_of_new_connections() {
    let (_repository, server) = copy_and_other();
    let row = |value: f32| Tensor::fp32("INPUT0", &[1, 4], &[value; 4]);
    let body = |tensor: Tensor, form: Form, more: &str| {
        let (json, raw) = infer_body(&[tensor], form, more);
        let length = (form == Form::Binary).then_some(json.len());
        ("copy", length, [json.as_bytes(), &raw].concat())
    };
    let binary = |value: f32| body(row(value), Form::Binary, "");
    let with = |change: &dyn Fn(&mut Asked<'_>)| {
        let mut request = binary(5.0);
        change(&mut request);
        request
    };
    let requests = [
        binary(1.0),
        binary(2.0),
        // Another model, by the same bytes.
        with(&|it| it.0 = "other"),
        with(&|it| it.0 = "none"),
        // One byte is another one: of the name, in front of the JSON, of its length.
        with(&|it| {
            let at = it.2.windows(6).position(|it| it == b"INPUT0").unwrap();
            it.2[at + 5] = b'1';
        }),
        with(&|it| it.2[0] = b' '),
        with(&|it| it.1 = it.1.map(|it| it - 1)),
        with(&|it| it.1 = None),
        // Fewer and more bytes than the size of the tensor.
        with(&|it| it.2.truncate(it.2.len() - 1)),
        with(&|it| it.2.push(0)),
        // As many bytes in another shape and type, and in more rows.
        body(Tensor { datatype: "INT32".into(), ..row(3.0) }, Form::Binary, ""),
        body(Tensor { shape: vec![4, 1], ..row(3.0) }, Form::Binary, ""),
        body(Tensor::fp32("INPUT0", &[2, 4], &[6.0; 8]), Form::Binary, ""),
        body(row(7.0), Form::Binary, r#""id":"seven""#),
        body(row(1.5), Form::Json, ""),
        body(
            row(2.5),
            Form::Json,
            r#""outputs":[{"name":"OUTPUT0","parameters":{"binary_data":true}}]"#,
        ),
        body(row(2.5), Form::Json, r#""outputs":[{"name":"OUTPUT1"}]"#),
    ];
    let mut client = server.client();
    for (at, step) in steps(&requests).into_iter().enumerate() {
        match step {
            Step::Load(dtype) => load_as(&server, dtype),
            Step::Ask(request) => {
                let expected = post(&mut server.client(), &request);
                assert_eq!(post(&mut client, &request), expected, "{at}");
            }
        }
    }
}

/// The answer, or the code and the text of the refusal.
fn call(
    client: &mut grpc::Client,
    request: &ModelInferRequest,
) -> Result<ModelInferResponse, String> {
    let said = |it: Status| format!("{:?}: {}", it.code(), it.message());
    client.infer(request.clone()).map_err(said)
}

#[test]
fn requests_over_grpc_that_are_alike_get_the_answers_of_new_connections() {
    let (_repository, server) = copy_and_other();
    let with = |change: &dyn Fn(&mut ModelInferRequest)| {
        let mut request = identity("copy", &[5.0]);
        change(&mut request);
        request
    };
    let requests = [
        identity("copy", &[1.0]),
        identity("copy", &[2.0]),
        identity("copy", &[1.0, 2.0]),
        identity("other", &[1.0]),
        identity("none", &[1.0]),
        with(&|it| it.model_version = "1".to_owned()),
        with(&|it| it.model_version = "2".to_owned()),
        with(&|it| it.id = "seven".to_owned()),
        with(&|it| it.inputs[0].name = "INPUT1".to_owned()),
        with(&|it| it.inputs = vec![input("INPUT0", "INT32", &[1, 4])]),
        with(&|it| it.inputs = vec![input("INPUT0", "FP32", &[4, 1])]),
        with(&|it| it.raw_input_contents = vec![vec![0; 15].into()]),
        with(&|it| it.raw_input_contents = vec![vec![0; 17].into()]),
        with(&|it| it.outputs = vec![grpc::output("OUTPUT0", &[])]),
        with(&|it| it.outputs = vec![grpc::output("OUTPUT1", &[])]),
    ];
    let mut client = grpc::Client::new(&server);
    for (at, step) in steps(&requests).into_iter().enumerate() {
        match step {
            Step::Load(dtype) => load_as(&server, dtype),
            Step::Ask(request) => {
                let expected = call(&mut grpc::Client::new(&server), &request);
                assert_eq!(call(&mut client, &request), expected, "{at}");
            }
        }
    }
}
