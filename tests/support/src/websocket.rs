//! A client of a conversation over WebSocket.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use super::{PATIENCE, Server};

/// The address of conversations.
pub const PATH: &str = "/invocations-bidirectional-stream";

/// What RFC 6455 has for an example, and the answer to it.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const PROOF: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
/// The first byte of a text.
pub const TEXT: u8 = 0x81;
/// The first byte of bytes.
pub const BINARY: u8 = 0x82;
/// The first byte of a goodbye.
pub const CLOSE: u8 = 0x88;
/// The first byte of a question.
pub const PING: u8 = 0x89;
/// The first byte of its answer.
pub const PONG: u8 = 0x8a;

/// The head of a request for an upgrade.
pub fn upgrade(path: &str, headers: &[(&str, &str)]) -> String {
    let headers: String = headers.iter().map(|(it, value)| format!("{it}: {value}\r\n")).collect();
    format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: {KEY}\r\n{headers}\r\n"
    )
}

/// A client's frame: its first byte, and its payload under a mask.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut bytes = vec![first];
    match payload.len() {
        short @ ..126 => bytes.push(0x80 | short as u8),
        medium @ ..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend((medium as u16).to_be_bytes());
        }
        long => {
            bytes.push(0x80 | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
    bytes
}

/// A client that has a conversation.
pub struct Socket<S>(pub S);

impl Socket<TcpStream> {
    /// Opens a connection and asks for a conversation at this address.
    #[track_caller]
    pub fn connect(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Socket<TcpStream> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Socket::open(stream, path, headers)
    }

    /// A conversation with this server.
    #[track_caller]
    pub fn to(server: &Server) -> Socket<TcpStream> {
        Socket::connect(server.sagemaker(), PATH, &[])
    }
}

impl<S: Read + Write> Socket<S> {
    /// Asks for a conversation and expects to get it.
    #[track_caller]
    pub fn open(mut stream: S, path: &str, headers: &[(&str, &str)]) -> Socket<S> {
        stream.write_all(upgrade(path, headers).as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        let proof = format!("sec-websocket-accept: {}\r\n", PROOF.to_ascii_lowercase());
        for line in [&proof, "upgrade: websocket\r\n", "connection: upgrade\r\n"] {
            assert!(head.contains(line), "{head}");
        }
        Socket(stream)
    }

    /// Sends a frame.
    pub fn send(&mut self, first: u8, payload: impl AsRef<[u8]>) {
        self.0.write_all(&frame(first, payload.as_ref())).unwrap();
    }

    /// The next frame: its first byte, and its payload, which is not masked.
    #[track_caller]
    pub fn read(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("another frame");
        let mut length = u64::from(head[1]);
        assert!(length < 128, "a server does not mask");
        let more = match length {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if 0 < more {
            let mut bytes = [0; 8];
            self.0.read_exact(&mut bytes[8 - more..]).unwrap();
            length = u64::from_be_bytes(bytes);
        }
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).unwrap();
        (head[0], payload)
    }

    /// The next frame, which must be text.
    #[track_caller]
    pub fn text(&mut self) -> String {
        let (first, payload) = self.read();
        let text = String::from_utf8_lossy(&payload).into_owned();
        assert_eq!(first, TEXT, "{text}");
        text
    }

    /// A text message, and the text that answers it.
    #[track_caller]
    pub fn ask(&mut self, text: &str) -> String {
        self.send(TEXT, text);
        self.text()
    }

    /// The text of the next frame, which must be an error.
    #[track_caller]
    pub fn error(&mut self) -> String {
        let json: Value = serde_json::from_str(&self.text()).unwrap();
        assert!(json["request_id"].as_str().is_some_and(|it| !it.is_empty()), "{json}");
        json["error"].as_str().unwrap_or_else(|| panic!("{json}")).to_owned()
    }

    /// The code and reason of the next frame, which must be the last one.
    #[track_caller]
    pub fn closed(&mut self) -> (u16, String) {
        let (first, payload) = self.read();
        assert_eq!(first, CLOSE, "{}", String::from_utf8_lossy(&payload));
        assert_eq!(self.0.read(&mut [0; 64]).unwrap_or(0), 0, "nothing behind it");
        let code = u16::from_be_bytes([payload[0], payload[1]]);
        (code, String::from_utf8(payload[2..].to_vec()).unwrap())
    }
}
