//! What open connections that ask nothing take of the server's memory, and what is left of it when they have closed.

use std::{
    fmt::{self, Write},
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    thread,
    time::Duration,
};

use bytes::Bytes;
use h2::client::{self, SendRequest};
use hyper::Request;
use tokio::runtime::{Builder, Runtime};

use crate::{
    phases::ask_for_health,
    support::{
        Outcome,
        server::{Server, Start},
    },
};

/// Connections whose memory is that of one, times their number.
const MANY: usize = 1000;

/// Connections that come before, each with a request, so that what is made once counts for none, and that what the
/// start has freed is given back.
const FIRST: usize = 64;

/// A connection is at rest after a second. What it has freed is given back a few seconds later.
const REST: Duration = Duration::from_secs(10);

/// What was asked on a connection before it became idle.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Silent,
    Answered,
    Grpc,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Silent, Kind::Answered, Kind::Grpc];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Silent => "that say nothing",
            Kind::Answered => "after one request",
            Kind::Grpc => "of gRPC, after one call",
        })
    }
}

/// Bytes for each connection.
struct Bytewise {
    open: f64,
    left: f64,
}

/// A table of bytes for each connection, by what was asked on it: of this program, and of `other`.
pub fn table(repository: &Path, other: Option<&Path>) -> Outcome<String> {
    let mut out = String::from("| Open connections |");
    let mut rule = String::from("\n|---|");
    for title in other.map(|_| "before: ").into_iter().chain([""]) {
        let _ = write!(out, " {title}bytes each | left of them when closed |");
        rule += "--:|--:|";
    }
    out += &rule;
    for kind in Kind::ALL {
        eprintln!("memory of connections {kind} ..");
        let _ = write!(out, "\n| {kind} |");
        for program in other.map(Some).into_iter().chain([None]) {
            let start = Start::new(repository);
            let server = match program {
                Some(program) => Start { program: program.as_os_str(), ..start }.start()?,
                None => start.start()?,
            };
            let Bytewise { open, left } = measure(&server, kind)?;
            let _ = write!(out, " {open:.0} | {left:.0} |");
        }
    }
    out.push('\n');
    Ok(out)
}

/// What connections of this kind take of a server that has just started: memory that is free is used again, and would
/// hide what is asked for.
fn measure(server: &Server, kind: Kind) -> Outcome<Bytewise> {
    drop(Connections::open(server, kind, FIRST)?);
    drop(Connections::open(server, Kind::Answered, FIRST)?);
    thread::sleep(REST);
    let before = memory(server.pid())?;
    let connections = Connections::open(server, kind, MANY)?;
    thread::sleep(REST);
    let open = memory(server.pid())?;
    drop(connections);
    thread::sleep(REST);
    let left = memory(server.pid())?;
    let each = |now: f64| (now - before) / MANY as f64;
    Ok(Bytewise { open: each(open), left: each(left) })
}

/// Bytes of a process's own memory that are there: heap and mapped, without files.
fn memory(pid: u32) -> Outcome<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|it| it.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kibibytes.ok_or("the kernel does not say RssAnon")? * 1024.0)
}

/// Connections, which close when this is dropped.
enum Connections {
    Http { _streams: Vec<TcpStream> },
    Grpc { _calls: Vec<SendRequest<Bytes>>, _runtime: Runtime },
}

impl Connections {
    fn open(server: &Server, kind: Kind, count: usize) -> Outcome<Connections> {
        let address = server.address();
        let streams: Outcome<_> = match kind {
            Kind::Silent => (0..count).map(|_| Ok(TcpStream::connect(address)?)).collect(),
            Kind::Answered => (0..count).map(|_| ask_for_health(address)).collect(),
            Kind::Grpc => return Connections::of_grpc(server.grpc_address(), count),
        };
        Ok(Connections::Http { _streams: streams? })
    }

    fn of_grpc(address: SocketAddr, count: usize) -> Outcome<Connections> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let calls = (0..count).map(|_| runtime.block_on(call(address)));
        let calls = calls.collect::<Outcome<_>>()?;
        Ok(Connections::Grpc { _calls: calls, _runtime: runtime })
    }
}

/// A connection of gRPC on which one call was answered.
async fn call(address: SocketAddr) -> Outcome<SendRequest<Bytes>> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let (mut calls, connection) = client::handshake(stream).await?;
    tokio::spawn(connection);
    let request = Request::post("http://x/inference.GRPCInferenceService/ServerLive")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let (response, mut message) = calls.send_request(request, false)?;
    // A message of no bytes.
    message.send_data(Bytes::from_static(&[0; 5]), true)?;
    let mut body = response.await?.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let trailers = body.trailers().await?.ok_or("the call has no status")?;
    match trailers.get("grpc-status").is_some_and(|it| it == "0") {
        true => Ok(calls),
        false => Err(format!("expected the server to be alive: {trailers:?}").into()),
    }
}
