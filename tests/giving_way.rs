//! Where there is no room for more, the slowest gives way: small requests are answered all the while, and large ones
//! soon.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use socket2::SockRef;

use crate::support::{
    Client, PATIENCE, Repository, Server, first_of, infer, post_head, row, wait_for,
};

const MIB: usize = 1 << 20;

/// One-dimensional floats of any number.
const FLOATS: &str = "backend: \"identity\" max_batch_size: 0
    input { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }";

fn repository() -> Repository {
    Repository::identity("m", &[]).model("floats", FLOATS)
}

/// A small request on a connection of its own.
#[track_caller]
fn small(server: &Server) {
    assert_eq!(first_of(&server.post(&infer("m"), row(7)).expect(200)), 7.0);
}

/// Asks with a body of so many bytes and more until it is answered.
#[track_caller]
fn wait_for_large(server: &Server, bytes: usize) {
    let body = format!("{}{}", " ".repeat(bytes), row(8));
    wait_for("a large request to be answered", || {
        let mut client = Client::try_connect(server.http()).ok()?;
        let head = [("content-type", "application/json")];
        let reply = client.try_request("POST", &infer("m"), &head, Some(body.as_bytes()));
        small(server);
        (reply.ok()??.status == 200).then_some(())
    });
}

#[test]
fn bodies_that_stop_give_way_to_others_and_small_requests_do_not_wait_for_that() {
    let server = Server::start(&repository(), &["--max-inflight-bytes=8MiB"]);
    let mut slow: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for client in &mut slow {
        client.send(post_head(&infer("m"), &[], MIB)).unwrap();
        client.send(" ".repeat(MIB - 1)).unwrap();
    }
    for _ in 0..20 {
        small(&server);
    }
    wait_for_large(&server, 2 * MIB);
    let refused = wait_for("a slow body to be refused", || {
        slow.iter_mut().find_map(|it| {
            it.stream().set_nonblocking(true).unwrap();
            let has_answer = it.stream().peek(&mut [0]).is_ok();
            it.stream().set_nonblocking(false).unwrap();
            has_answer.then(|| it.reply())
        })
    });
    assert!(refused.error(503).contains("it gave way to others"), "{}", refused.text());
}

#[test]
fn replies_that_nobody_reads_give_way_to_others() {
    let server = Server::start(&repository(), &["--max-inflight-bytes=96MiB"]);
    let floats = 6 * MIB;
    let json = format!(
        r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{floats}],"parameters":{{"binary_data_size":{}}}}}],"parameters":{{"binary_data_output":true}}}}"#,
        4 * floats
    );
    let length = json.len().to_string();
    let path = infer("floats");
    let head =
        post_head(&path, &[("inference-header-content-length", &length)], json.len() + 4 * floats);
    let body = [head.as_bytes(), json.as_bytes(), &vec![0; 4 * floats]].concat();
    let unread: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(server.http()).unwrap();
            SockRef::from(&stream).set_recv_buffer_size(4096).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&body).unwrap();
            // The reply has begun.
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        })
        .collect();
    wait_for_large(&server, 60 * MIB);
    drop(unread);
}
