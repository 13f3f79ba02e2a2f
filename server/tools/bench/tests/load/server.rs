//! An HTTP/1.1 server of one thread per connection that answers as a function says.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use muster_bench::Target;

/// A request, as the server has read it.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Counts requests over all connections, from 0.
    pub(crate) number: u64,
    /// Counts connections, from 0.
    pub(crate) connection: u64,
    /// Method and path.
    pub(crate) line: String,
    pub(crate) body: Vec<u8>,
}

/// What it does with one.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Status and body.
    Plain(u16, Vec<u8>),
    /// 200, each piece a chunk.
    Chunked(Vec<&'static str>),
    /// 200 with `Connection: close`.
    Last(&'static str),
    /// These bytes, and the connection is closed.
    Raw(&'static str),
}

impl Answer {
    pub(crate) fn ok(body: &str) -> Answer {
        Answer::Plain(200, body.into())
    }
}

pub(crate) struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
}

impl Server {
    /// Listens on a free port.
    pub(crate) fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
            stopped: Arc::default(),
        };
        let (requests, connections) = (server.requests.clone(), server.connections.clone());
        let stopped = server.stopped.clone();
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let connection = connections.fetch_add(1, Ordering::SeqCst);
                let (answer, requests) = (answer.clone(), requests.clone());
                thread::spawn(move || {
                    // The client goes away when it likes.
                    let _ = serve(stream.unwrap(), connection, &requests, &*answer);
                });
            }
        });
        server
    }

    pub(crate) fn target(&self) -> Target {
        self.address.into()
    }

    /// Requests that have been read in full.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Connections that have been accepted.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    stream: TcpStream,
    connection: u64,
    requests: &AtomicU64,
    answer: &dyn Fn(&Seen) -> Answer,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut length = 0;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 {
                return Ok(());
            }
            if let Some(value) = header.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
            if header == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let number = requests.fetch_add(1, Ordering::SeqCst);
        let line = line.trim_end_matches(" HTTP/1.1\r\n").to_owned();
        let (text, closes) = match answer(&Seen { number, connection, line, body }) {
            Answer::Plain(status, body) => (plain(status, "", &body), false),
            Answer::Last(body) => (plain(200, "Connection: close\r\n", body.as_bytes()), true),
            Answer::Raw(text) => (text.into(), true),
            Answer::Chunked(pieces) => {
                let mut text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
                for piece in pieces.iter().chain(&[""]) {
                    text.push_str(&format!("{:x}\r\n{piece}\r\n", piece.len()));
                }
                (text.into(), false)
            }
        };
        writer.write_all(&text)?;
        if closes {
            return Ok(());
        }
    }
}

fn plain(status: u16, header: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{header}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}
