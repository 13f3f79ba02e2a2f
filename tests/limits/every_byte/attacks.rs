//! What a client does: it asks and reads, or holds what it has begun and leaves after a while.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};

use super::{frames, random::Random, streams::Streams, texts};
use crate::support::{infer, websocket};

/// How many connections a client holds: the tests have few descriptors.
const MOST_HELD: usize = 100;

/// Longest wait for an answer that nobody needs.
const WAIT: Duration = Duration::from_millis(100);

/// The server's addresses.
#[derive(Clone, Copy)]
pub struct Ports {
    pub http: SocketAddr,
    pub grpc: SocketAddr,
    pub sagemaker: SocketAddr,
}

impl Answered {
    pub fn and(self, other: Answered) -> Answered {
        let (texts, streamed) = (self.texts + other.texts, self.streamed + other.streamed);
        Answered { texts, streamed }
    }
}

/// A client.
pub struct Attacker {
    ports: Ports,
    random: Random,
    held: Vec<TcpStream>,
    streams: Streams,
    /// Bodies with texts that were answered.
    texts: u32,
}

/// What was answered to attackers as to anybody.
#[derive(Debug, Default, Clone, Copy)]
pub struct Answered {
    /// Bodies with texts.
    pub texts: u32,
    /// Requests on streams of gRPC.
    pub streamed: u32,
}

impl Attacker {
    pub fn new(ports: Ports, random: Random) -> Attacker {
        let streams = Streams::new(ports.grpc);
        Attacker { ports, random, held: Vec::new(), streams, texts: 0 }
    }

    /// What was answered so far.
    pub fn answered(&self) -> Answered {
        Answered { texts: self.texts, streamed: self.streams.answered }
    }

    /// Does one thing, whatever comes of it.
    pub fn act(&mut self) {
        let done = match self.random.below(16) {
            0 => self.json(),
            1 => self.binary("floats", "FP32"),
            2 => self.binary("texts", "BYTES"),
            3 => self.compressed(),
            4 => self.table(),
            5 => self.call(),
            6 | 7 => self.silent_calls(),
            8 => self.socket(),
            9 => self.half_heads(),
            10 => self.half_bodies(),
            11 | 12 => self.texts(),
            13 | 14 => self.stream(),
            _ => self.leave(),
        };
        // A refusal and a closed connection are answers, too.
        let _ = done;
        while MOST_HELD < self.held.len() {
            let at = self.random.below(self.held.len());
            self.held.swap_remove(at);
        }
    }

    fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&address, WAIT)?;
        stream.set_write_timeout(Some(WAIT))?;
        stream.set_read_timeout(Some(WAIT))?;
        Ok(stream)
    }

    /// Sends a request of HTTP and reads as much of its answer as comes at once.
    fn ask(&mut self, address: SocketAddr, head: &str, body: &[u8]) -> std::io::Result<()> {
        self.ask_within(WAIT, address, head, body).map(drop)
    }

    /// The same, as much as comes after a wait for so long at most. Is it a success?
    fn ask_within(
        &mut self,
        wait: Duration,
        address: SocketAddr,
        head: &str,
        body: &[u8],
    ) -> std::io::Result<bool> {
        let mut stream = Attacker::connect(address)?;
        stream.set_read_timeout(Some(wait))?;
        stream.write_all(head.as_bytes())?;
        let _ = stream.write_all(body);
        let mut answer = vec![0; 1 << self.random.below(20)];
        let length = stream.read(&mut answer)?;
        if self.random.below(4) == 0 {
            // Somebody who does not read the rest.
            self.held.push(stream);
        }
        Ok(answer[..length].starts_with(b"HTTP/1.1 2"))
    }

    fn post(path: &str, headers: &str, length: usize) -> String {
        format!("POST {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n")
    }

    fn json(&mut self) -> std::io::Result<()> {
        let count = self.random.size(20);
        let numbers = vec!["1"; count].join(",");
        let body = format!(
            r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{count}],"data":[{numbers}]}}]}}"#
        );
        let head = Attacker::post(&infer("floats"), "", body.len());
        self.ask(self.ports.http, &head, body.as_bytes())
    }

    fn binary(&mut self, model: &str, datatype: &str) -> std::io::Result<()> {
        let count = self.random.size(21);
        let bytes = count * 4;
        let json = format!(
            r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":[{count}],"parameters":{{"binary_data_size":{bytes}}}}}]}}"#
        );
        let length = format!("inference-header-content-length: {}\r\n", json.len());
        let head = Attacker::post(&infer(model), &length, json.len() + bytes);
        let mut body = json.into_bytes();
        body.resize(body.len() + bytes, 0);
        self.ask(self.ports.http, &head, &body)
    }

    fn compressed(&mut self) -> std::io::Result<()> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&vec![b' '; self.random.size(26)])?;
        let body = encoder.finish()?;
        let head = Attacker::post(&infer("m"), "content-encoding: gzip\r\n", body.len());
        self.ask(self.ports.http, &head, &body)
    }

    fn table(&mut self) -> std::io::Result<()> {
        let rows = self.random.size(18);
        let body = "1,2,3,4\n".repeat(rows);
        let headers = "content-type: text/csv\r\nx-amzn-sagemaker-target-model: m\r\n";
        let head = Attacker::post("/invocations", headers, body.len());
        self.ask(self.ports.sagemaker, &head, body.as_bytes())
    }

    fn texts(&mut self) -> std::io::Result<()> {
        let (path, body) = texts::question(&mut self.random);
        let head = Attacker::post(&path, "content-type: application/json\r\n", body.len());
        let wait = Duration::from_millis(self.random.size(11) as u64);
        let is_answered = self.ask_within(wait, self.ports.http, &head, body.as_bytes())?;
        self.texts += u32::from(is_answered);
        Ok(())
    }

    fn stream(&mut self) -> std::io::Result<()> {
        self.streams.act(&mut self.random).map_err(std::io::Error::other)
    }

    /// A call of gRPC with a part of its message, or all of it.
    fn call(&mut self) -> std::io::Result<()> {
        let mut stream = Attacker::connect(self.ports.grpc)?;
        let (length, metadata) = (self.random.size(26), self.random.size(14));
        stream.write_all(&frames::preface())?;
        stream.write_all(&frames::call(1, "ModelInfer", metadata))?;
        let sent = length.min(self.random.size(16));
        let message = [&frames::prefix(length)[..], &vec![0; sent]].concat();
        for part in message.chunks(16 << 10) {
            stream.write_all(&frames::frame(0, 0, 1, part))?;
        }
        self.held.push(stream);
        Ok(())
    }

    /// Calls that are opened and say nothing, and a part of a large frame behind them.
    fn silent_calls(&mut self) -> std::io::Result<()> {
        let connections = 1 + self.random.below(20);
        for _ in 0..connections {
            let mut stream = Attacker::connect(self.ports.grpc)?;
            let metadata = self.random.size(10);
            let mut bytes = frames::preface();
            for number in 0..self.random.size(8) as u32 {
                bytes.extend(frames::call(2 * number + 1, "ModelStreamInfer", metadata));
            }
            if self.random.below(4) == 0 {
                let part = self.random.size(19);
                bytes.extend(&frames::frame(0, 0, 1, &vec![0; 1 << 19])[..part]);
            }
            let sent = stream.write_all(&bytes);
            self.held.push(stream);
            sent?;
        }
        Ok(())
    }

    /// A part of a message over WebSocket.
    fn socket(&mut self) -> std::io::Result<()> {
        let mut stream = Attacker::connect(self.ports.sagemaker)?;
        let opening = websocket::upgrade("/invocations-bidirectional-stream", &[]);
        stream.write_all(opening.as_bytes())?;
        let _ = stream.read(&mut [0; 1024])?;
        let length = self.random.size(24);
        stream.write_all(&frames::socket_frame(length))?;
        let sent = length.min(self.random.size(20));
        let sent = stream.write_all(&vec![b' '; sent]);
        self.held.push(stream);
        sent
    }

    /// Parts of heads, on many connections.
    fn half_heads(&mut self) -> std::io::Result<()> {
        let length = self.random.size(17);
        let head = format!("GET /v2 HTTP/1.1\r\nx: {}", "a".repeat(length));
        self.hold_many(head.as_bytes())
    }

    /// Bodies that are not sent to their end, on many connections.
    fn half_bodies(&mut self) -> std::io::Result<()> {
        let length = self.random.size(22);
        let head = Attacker::post(&infer("floats"), "", length + 1);
        let mut bytes = head.into_bytes();
        bytes.resize(bytes.len() + length, b' ');
        self.hold_many(&bytes)
    }

    fn hold_many(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let connections = self.random.size(6);
        for _ in 0..connections {
            let mut stream = Attacker::connect(self.ports.http)?;
            let sent = stream.write_all(bytes);
            self.held.push(stream);
            sent?;
        }
        Ok(())
    }

    /// Leaves all that was begun, or a pause.
    fn leave(&mut self) -> std::io::Result<()> {
        match self.random.below(4) {
            0 => {
                self.held.clear();
                self.streams.leave();
            }
            _ => std::thread::sleep(Duration::from_millis(self.random.below(100) as u64)),
        }
        Ok(())
    }
}
