//! Requests to the models that `Repository::with_identity` makes: `INPUT0` of shape `[rows, 4]`.

use std::net::SocketAddr;

use super::{Client, Reply, post_head};

/// The body of a request of one row that begins with `first`.
pub fn row(first: i32) -> String {
    rows(first, 1)
}

/// The body of a request of several such rows.
pub fn rows(first: i32, count: usize) -> String {
    let data = vec![format!("{first},0,0,0"); count].join(",");
    format!(
        "{{\"inputs\":[{{\"name\":\"INPUT0\",\"shape\":[{count},4],\"datatype\":\"FP32\",\
         \"data\":[{data}]}}]}}"
    )
}

/// The first number of the first output.
#[track_caller]
pub fn first_of(reply: &Reply) -> f64 {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["outputs"][0]["data"][0].as_f64().expect("a number")
}

/// Where a model is asked.
pub fn infer(model: &str) -> String {
    format!("/v2/models/{model}/infer")
}

/// Sends a request on a connection of its own and waits for nothing; the reply comes from the client.
#[track_caller]
pub fn ask(address: SocketAddr, model: &str, body: impl AsRef<[u8]>) -> Client {
    ask_with(address, model, &[], body)
}

/// The same with further headers.
#[track_caller]
pub fn ask_with(
    address: SocketAddr,
    model: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> Client {
    let body = body.as_ref();
    let mut client = Client::connect(address);
    let mut request = post_head(&infer(model), headers, body.len()).into_bytes();
    request.extend_from_slice(body);
    client.send(request).unwrap();
    client
}

/// Is that the refusal of one who comes a second or more before the next process of a model serves?
pub fn is_to_come_again(reply: &Reply) -> bool {
    const REASONS: [&str; 2] = ["another loads it", "made anew and warmed in another"];
    let text = reply.text();
    reply.status == 503 && REASONS.iter().any(|it| text.contains(it))
}
