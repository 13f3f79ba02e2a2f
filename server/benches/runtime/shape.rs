//! The shapes that the threads of an HTTP server can have, around one handler: a body is read, a model may
//! be run on the thread, 200 bytes are the answer. No model server: what is under one.

use std::{
    convert::Infallible,
    fmt, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    str::FromStr,
    sync::mpsc as std_mpsc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use socket2::{Domain, Socket, Type};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
};

use crate::Outcome;

/// Which threads there are, and how a connection finds its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Runtimes of one thread each; one of them accepts, and gives to all in turn.
    HandOver(usize),
    /// Runtimes of one thread each, with listeners of their own on one port: the kernel spreads connections.
    ReusePort(usize),
    /// One runtime of several threads that take tasks from each other.
    Stealing(usize),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::HandOver(threads) => write!(f, "hand-over:{threads}"),
            Shape::ReusePort(threads) => write!(f, "reuse-port:{threads}"),
            Shape::Stealing(threads) => write!(f, "stealing:{threads}"),
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let (name, threads) = text.split_once(':').ok_or("expected <shape>:<threads>")?;
        let threads = threads.parse().map_err(|it| format!("{threads}: {it}"))?;
        match name {
            "hand-over" => Ok(Shape::HandOver(threads)),
            "reuse-port" => Ok(Shape::ReusePort(threads)),
            "stealing" => Ok(Shape::Stealing(threads)),
            _ => Err(format!("{name}: expected hand-over, reuse-port or stealing")),
        }
    }
}

/// Serves for ever; says where on standard output.
pub fn serve(shape: Shape, work: Duration) -> Outcome<()> {
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    println!("{address}");
    match shape {
        Shape::HandOver(threads) => hand_over(listener, threads, work),
        Shape::ReusePort(threads) => {
            let others = (1..threads).map(|_| listen(address));
            let mut listeners: Vec<TcpListener> = others.collect::<io::Result<_>>()?;
            listeners.push(listener);
            let accept = |listener| move || accept_alone(listener, work);
            let threads: Vec<_> =
                listeners.into_iter().map(|it| thread::spawn(accept(it))).collect();
            threads.into_iter().for_each(|it| drop(it.join()));
            Ok(())
        }
        Shape::Stealing(threads) => {
            let runtime =
                Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
            // The accepting task, too, is on one of the threads.
            let accepting =
                async move { accept_on(listener, work).await.map_err(|it| it.to_string()) };
            Ok(runtime.block_on(async { tokio::spawn(accepting).await })??)
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

fn single() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn hand_over(listener: TcpListener, threads: usize, work: Duration) -> Outcome<()> {
    let mut inboxes = Vec::new();
    for _ in 1..threads {
        let (inbox, mut arrivals) = mpsc::unbounded_channel::<TcpStream>();
        let (started, wait) = std_mpsc::channel();
        thread::spawn(move || -> io::Result<()> {
            let runtime = single()?;
            let _ = started.send(());
            runtime.block_on(async {
                while let Some(stream) = arrivals.recv().await {
                    tokio::spawn(connection(tokio::net::TcpStream::from_std(stream)?, work));
                }
                Ok(())
            })
        });
        wait.recv()?;
        inboxes.push(inbox);
    }
    single()?.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        for turn in (0..threads).cycle() {
            let (stream, _) = listener.accept().await?;
            match inboxes.get(turn) {
                Some(inbox) => inbox.send(stream.into_std()?)?,
                None => drop(tokio::spawn(connection(stream, work))),
            }
        }
        Ok(())
    })
}

fn accept_alone(listener: TcpListener, work: Duration) -> io::Result<()> {
    single()?.block_on(accept_on(listener, work))
}

async fn accept_on(listener: TcpListener, work: Duration) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, work));
    }
}

async fn connection(stream: tokio::net::TcpStream, work: Duration) {
    // Without it replies would wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request: Request<Incoming>| answer(request, work));
    // The generator closes its connections when it is done: no news.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer(
    request: Request<Incoming>,
    work: Duration,
) -> Result<Response<Full<Bytes>>, Infallible> {
    static REPLY: [u8; 200] = [b'x'; 200];
    // A body that cannot be read has no reader for its reply either.
    let _ = request.into_body().collect().await;
    let until = Instant::now() + work;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    Ok(Response::new(Full::new(Bytes::from_static(&REPLY))))
}
