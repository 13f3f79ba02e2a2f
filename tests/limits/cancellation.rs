//! Clients that leave: what they asked for is not done, or not finished, and nobody else notices.

use std::{io::Read, net::Shutdown};

use crate::support::{
    Client, Page, Repository, Server, ask, first_of, infer, post_head, row, wait_for, wait_queued,
};

/// A row that begins with 66 hangs until it is stopped.
const HANGS: &[(&str, &str)] = &[("fault", "hang"), ("fault_marker", "66")];

fn server(batching: &str, hold: usize) -> Server {
    let parameters = HANGS.iter().map(|(key, value)| {
        format!("parameters {{ key: \"{key}\" value: {{ string_value: \"{value}\" }} }}\n")
    });
    let config = format!(
        "backend: \"identity\" max_batch_size: 8 {batching}
         instance_group {{ count: 1 kind: KIND_CPU }}
         input {{ name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}
         output {{ name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }}\n{}",
        parameters.collect::<String>()
    );
    let repository = Repository::new().model("m", &config);
    Server::start(&repository, &[&format!("--scheduler-hold={hold}")])
}

/// Asks for one row each, so that they arrive in this order.
fn ask_in_order(server: &Server, firsts: &[i32]) -> Vec<Client> {
    let mut clients = Vec::new();
    for (waiting, first) in firsts.iter().enumerate() {
        wait_queued(server.http(), "m", waiting);
        clients.push(ask(server.http(), "m", row(*first)));
    }
    clients
}

fn wait_cancelled(server: &Server, requests: usize) {
    wait_for(&format!("{requests} cancelled requests"), || {
        let cancelled = Page::read(server.http()).failures("m", "CANCELED");
        (cancelled == requests as f64).then_some(())
    });
}

#[test]
fn a_request_whose_client_left_the_queue_never_reaches_the_model() {
    let server = server("dynamic_batching { }", 3);
    let mut clients = ask_in_order(&server, &[1, 2]);
    drop(clients.remove(0));
    wait_queued(server.http(), "m", 1);
    wait_cancelled(&server, 1);
    clients.push(ask(server.http(), "m", row(3)));
    wait_queued(server.http(), "m", 2);
    clients.push(ask(server.http(), "m", row(4)));
    let firsts: Vec<f64> = clients.iter_mut().map(|it| first_of(&it.reply())).collect();
    assert_eq!(firsts, [2.0, 3.0, 4.0]);
    // One batch of three rows; the fourth was not in it.
    let page = Page::read(server.http());
    assert_eq!(page.of("m", "muster_batch_rows_sum"), 3.0);
    assert_eq!(page.of("m", "nv_inference_request_success"), 3.0);
}

#[test]
fn a_run_that_nobody_waits_for_is_stopped() {
    let server = server("", 2);
    let mut clients = ask_in_order(&server, &[66, 2]);
    // Both have come, so that one that waits is the second: the only instance hangs.
    wait_for("both requests to be read", || {
        let bytes = Page::read(server.http()).value("muster_bytes_in_flight");
        (bytes == (row(66).len() + row(2).len()) as f64).then_some(())
    });
    wait_queued(server.http(), "m", 1);
    drop(clients.remove(0));
    assert_eq!(first_of(&clients[0].reply()), 2.0);
    wait_cancelled(&server, 1);
}

#[test]
fn a_batch_runs_on_while_one_of_its_clients_is_left() {
    let server = server("dynamic_batching { }", 2);
    let mut clients = ask_in_order(&server, &[66, 1]);
    wait_queued(server.http(), "m", 0);
    let behind = ask(server.http(), "m", row(3));
    wait_queued(server.http(), "m", 1);
    clients.pop();
    wait_cancelled(&server, 1);
    // One of the two still wants its answer, so the run goes on.
    wait_queued(server.http(), "m", 1);
    clients.pop();
    wait_cancelled(&server, 2);
    let mut behind = behind;
    assert_eq!(first_of(&behind.reply()), 3.0);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_reply_costs_nobody_anything() {
    const ELEMENTS: usize = 8 << 20;
    let config = "backend: \"identity\"
        input { name: \"INPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }
        output { name: \"OUTPUT0\" data_type: TYPE_UINT8 dims: [ -1 ] }";
    let server = Server::start(&Repository::new().model("m", config), &[]);
    let json = format!(
        r#"{{"inputs":[{{"name":"INPUT0","shape":[{ELEMENTS}],"datatype":"UINT8","parameters":{{"binary_data_size":{ELEMENTS}}}}}],"parameters":{{"binary_data_output":true}}}}"#
    );
    let mut body = json.clone().into_bytes();
    body.resize(json.len() + ELEMENTS, 7);
    let length = json.len().to_string();
    let headers = [("inference-header-content-length", length.as_str())];
    for _ in 0..3 {
        let mut client = Client::connect(server.http());
        client.send(post_head(&infer("m"), &headers, body.len())).unwrap();
        client.send(&body).unwrap();
        // The reply has begun; it is larger than what sockets hold.
        assert_eq!(client.stream().peek(&mut [0; 12]).unwrap(), 12);
        let page = Page::read(server.http());
        assert!(page.value("muster_bytes_in_flight") >= ELEMENTS as f64, "it is in memory still");
        client.stream().shutdown(Shutdown::Both).unwrap();
    }
    wait_for("the memory of the replies to be free", || {
        let page = Page::read(server.http());
        (page.value("muster_bytes_in_flight") == 0.0).then_some(())
    });
    let reply = Client::connect(server.http()).post(&infer("m"), &headers, &body);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body[reply.body.len() - ELEMENTS..], body[json.len()..]);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_its_body_frees_what_it_sent() {
    let server = server("", 0);
    let mut client = Client::connect(server.http());
    client.send(post_head(&infer("m"), &[], 1 << 20)).unwrap();
    client.send([b' '; 1000]).unwrap();
    wait_for("the body to be waited for", || {
        let page = Page::read(server.http());
        (page.value("muster_bytes_in_flight") == f64::from(64 << 10)).then_some(())
    });
    drop(client);
    wait_for("its memory to be free", || {
        let page = Page::read(server.http());
        (page.value("muster_bytes_in_flight") == 0.0).then_some(())
    });
    assert_eq!(first_of(&server.post(&infer("m"), row(1))), 1.0);
}

/// A request with its last byte, after which nothing more will be sent.
fn ask_and_finish(server: &Server, first: i32) -> Client {
    let client = ask(server.http(), "m", row(first));
    client.finish_sending();
    client
}

#[test]
fn a_client_that_finishes_sending_gets_its_answer() {
    let server = server("dynamic_batching { }", 4);
    let mut clients = vec![ask_and_finish(&server, 1)];
    wait_queued(server.http(), "m", 1);
    clients.push(ask_and_finish(&server, 2));
    wait_queued(server.http(), "m", 2);
    // Longer than it takes to notice one that has left.
    std::thread::sleep(std::time::Duration::from_millis(300));
    wait_queued(server.http(), "m", 2);
    let left = ask_and_finish(&server, 3);
    drop(left);
    wait_cancelled(&server, 1);
    clients.push(ask_and_finish(&server, 4));
    wait_queued(server.http(), "m", 3);
    clients.push(ask_and_finish(&server, 5));
    let firsts: Vec<f64> = clients.iter_mut().map(|it| first_of(&it.reply())).collect();
    assert_eq!(firsts, [1.0, 2.0, 4.0, 5.0]);
    // And then the connection is closed.
    assert!(clients.iter_mut().all(Client::is_closed));
    assert_eq!(Page::read(server.http()).failures("m", "CANCELED"), 1.0);
}

/// HTTP/1.0 has no interim replies, by which one that has left could be told from one that waits.
#[test]
fn a_client_of_http_1_0_that_finishes_sending_gets_its_answer() {
    let server = server("dynamic_batching { }", 2);
    let mut client = Client::connect(server.http());
    client.send(post_head(&infer("m"), &[], row(1).len()).replace("HTTP/1.1", "HTTP/1.0")).unwrap();
    client.send(row(1)).unwrap();
    client.finish_sending();
    wait_queued(server.http(), "m", 1);
    // Longer than it takes to notice one that has left.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut other = ask(server.http(), "m", row(2));
    assert_eq!(first_of(&other.reply()), 2.0);
    let mut reply = String::new();
    client.stream().read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.0 200") && reply.contains("[1.0,"), "{reply}");
    assert_eq!(Page::read(server.http()).failures("m", "CANCELED"), 0.0);
}
