//! What the generator itself costs. Meaningful in a release build only:
//! `cargo test --release -p muster-bench -- --ignored --nocapture`.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpListener,
    time::Duration,
};

use mio::{Events, Interest, Poll, Token};
use muster_bench::{Arrivals, Load, Method, Plan, Request, Target};

/// The least a server can do: one thread, the same bytes for whatever arrives in one read.
fn trivial() -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let mut listener = mio::net::TcpListener::from_std(listener);
        let mut poll = Poll::new().unwrap();
        let accepting = Token(usize::MAX);
        poll.registry().register(&mut listener, accepting, Interest::READABLE).unwrap();
        let mut streams = Vec::new();
        let mut events = Events::with_capacity(256);
        let mut buffer = [0; 16384];
        let reply =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 64\r\n\r\n\
              ****************************************************************";
        loop {
            poll.poll(&mut events, None).unwrap();
            for event in &events {
                if event.token() == accepting {
                    while let Ok((mut stream, _)) = listener.accept() {
                        stream.set_nodelay(true).unwrap();
                        let token = Token(streams.len());
                        poll.registry().register(&mut stream, token, Interest::READABLE).unwrap();
                        streams.push(stream);
                    }
                    continue;
                }
                let stream = &mut streams[event.token().0];
                match stream.read(&mut buffer) {
                    Ok(0) => {}
                    Ok(_) => stream.write_all(reply).unwrap(),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    address.into()
}

fn plan(target: Target) -> Plan {
    let body = vec![b'x'; 256];
    let request = Request::new(Method::Post, "/v2/models/m/infer").unwrap().body(body);
    let mut plan = Plan::new(target, vec![request]);
    plan.connections = 64;
    plan.warm_up = Duration::from_millis(500);
    plan.duration = Some(Duration::from_secs(3));
    plan
}

#[test]
#[ignore = "measures: needs a release build and a quiet machine"]
fn a_request_costs_few_microseconds_at_64_connections() {
    for connections in [1, 8, 64] {
        let mut plan = plan(trivial());
        plan.connections = connections;
        println!("{}", plan.run().unwrap());
    }
    let mut plan = plan(trivial());
    plan.load = Load::Open { rate: 20_000.0, arrivals: Arrivals::Poisson };
    println!("{}", plan.run().unwrap());
}
