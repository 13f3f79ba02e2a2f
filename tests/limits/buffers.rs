//! Buffers that serve one request after another: no answer holds a byte of another request.

use std::{net::SocketAddr, thread};

use crate::support::{Client, Form, Repository, Server, Tensor, infer_body, post_head};

/// Clients at one time.
const CLIENTS: usize = 12;

/// Requests of each of them.
const REQUESTS: usize = 60;

/// A byte that only this client sends.
fn poison(client: usize) -> u8 {
    0x80 + client as u8
}

/// A length that jumps between small and large, so that buffers are reused for less than they held before.
fn length(client: usize, round: usize) -> usize {
    let step = client * 7919 + round * 104_729;
    1 + match step % 4 {
        0 => step % 16,
        1 | 2 => step % 3000,
        _ => step % 80_000,
    }
}

/// Sends half a request that is full of this byte, and leaves.
fn leave_halfway(http: SocketAddr, path: &str, byte: u8) {
    let body = vec![byte; 5000];
    let mut client = Client::connect(http);
    client.send(post_head(path, &[], 2 * body.len())).unwrap();
    client.send(&body).unwrap();
}

/// Has every client ask so often for what `input` makes of its byte, in JSON and in binary by turns. The model gives
/// back its input.
#[track_caller]
pub fn check(
    http: SocketAddr,
    model: &str,
    requests: usize,
    input: impl Fn(u8, usize) -> Tensor + Sync,
) {
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (input, mut client) = (&input, Client::connect(http));
            scope.spawn(move || {
                for round in 0..requests {
                    let form = if round % 2 == 0 { Form::Binary } else { Form::Json };
                    let given = input(poison(number), length(number, round));
                    let given = std::slice::from_ref(&given);
                    let answer = client.infer(model, given, form, "");
                    let wrong =
                        answer.output().raw.iter().zip(&given[0].raw).position(|(a, b)| a != b);
                    assert_eq!(wrong, None, "{model}, client {number}, round {round}");
                    assert_eq!(answer.output().raw.len(), given[0].raw.len());
                    if round % 10 == 0 {
                        leave_halfway(http, &format!("/v2/models/{model}/infer"), poison(number));
                    }
                }
            });
        }
    });
}

#[test]
fn no_answer_holds_bytes_of_another_request() {
    let config = "backend: \"identity\" max_batch_size: 8 dynamic_batching { }
        instance_group { count: 2 kind: KIND_CPU }
        input { name: \"INPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }";
    let server = Server::start(&Repository::new().model("m", config), &[]);
    check(server.http(), "m", REQUESTS, |byte, length| {
        Tensor::new("INPUT0", "UINT8", &[1, length], vec![byte; length])
    });
}

#[test]
fn no_answer_of_an_engine_with_memory_of_its_own_holds_bytes_of_another_request() {
    let server = Server::start(&Repository::of(&["type_string"]), &[]);
    check(server.http(), "type_string", REQUESTS, |byte, length| {
        // Text, so that JSON can carry it.
        let letter = [b'A' + byte % 26];
        let long = letter.repeat(length);
        Tensor::strings("input", &[1, 3], &[&long, &letter, &long[length / 2..]])
    });
}

#[test]
fn no_error_holds_bytes_of_another_request() {
    let server = Server::start(&Repository::identity("m", &[]), &[]);
    let secret = vec![b'S'; 40_000];
    for round in 0..50 {
        // A good request full of one letter, and then one that is refused, on another connection of the same thread.
        let (json, _) = infer_body(
            &[Tensor::new("INPUT0", "BYTES", &[1, 1], secret.clone())],
            Form::Binary,
            "",
        );
        server.client().post("/v2/models/m/infer", &[], [json.as_bytes(), &secret].concat());
        let reply = server.client().post("/v2/models/m/infer", &[], vec![b'x'; 1 + round * 700]);
        assert!(!reply.text().contains("SS"), "{}", reply.text());
        assert_eq!(reply.status, 400);
    }
}
