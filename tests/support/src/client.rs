//! A plain HTTP/1.1 client: it sends the bytes that it is given, also when they are wrong or too few.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
};

use serde_json::Value;

use super::PATIENCE;

/// A connection, which is kept between requests.
pub struct Client {
    stream: TcpStream,
    /// What has come of replies that have not been read.
    buffer: Vec<u8>,
}

/// The start of a POST, up to and with the empty line. `length` is what it declares.
pub fn post_head(path: &str, headers: &[(&str, &str)], length: usize) -> String {
    head("POST", path, headers, Some(length))
}

fn head(method: &str, path: &str, headers: &[(&str, &str)], length: Option<usize>) -> String {
    let headers: String = headers.iter().map(|(it, value)| format!("{it}: {value}\r\n")).collect();
    let length = length.map(|it| format!("content-length: {it}\r\n")).unwrap_or_default();
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}{length}\r\n")
}

impl Client {
    /// A new connection.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).unwrap()
    }

    /// A new connection, if there is somebody who listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, buffer: Vec::new() })
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the server has closed the connection.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Says that nothing more will be sent; replies can still be read.
    pub fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// A GET and its reply.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Reply {
        self.request("GET", path, &[], None)
    }

    /// A POST and its reply.
    #[track_caller]
    pub fn post(&mut self, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Reply {
        self.request("POST", path, headers, Some(body.as_ref()))
    }

    /// Any request and its reply. `content-length` is added where there is a body.
    #[track_caller]
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Reply {
        match self.try_request(method, path, headers, body) {
            Ok(Some(reply)) => reply,
            Ok(None) => panic!("{method} {path}: closed without a reply"),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    /// Any request and its reply; `None` when the connection was closed instead.
    ///
    /// # Errors
    /// When nothing comes, or a part of a reply only.
    pub fn try_request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> io::Result<Option<Reply>> {
        let mut bytes = head(method, path, headers, body.map(<[u8]>::len)).into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        // A server that refuses early may close before it has read everything: its reply counts.
        let _ = self.send(&bytes);
        self.read(method != "HEAD")
    }

    /// The next reply.
    #[track_caller]
    pub fn reply(&mut self) -> Reply {
        self.try_reply().unwrap().expect("a reply before the connection is closed")
    }

    /// The next reply; `None` when the connection was closed instead.
    ///
    /// # Errors
    /// When nothing comes, or a part of a reply only.
    pub fn try_reply(&mut self) -> io::Result<Option<Reply>> {
        self.read(true)
    }

    /// Does the server close this connection without sending anything more? Waits for it.
    pub fn is_closed(&mut self) -> bool {
        match self.fill() {
            Ok(more) => !more && self.buffer.is_empty(),
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    fn read(&mut self, has_body: bool) -> io::Result<Option<Reply>> {
        loop {
            let Some(end) = self.find(b"\r\n\r\n")? else { return Ok(None) };
            let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
            let mut reply = Reply::parse(&String::from_utf8_lossy(&head));
            // An interim reply, as `100 Continue`.
            if reply.status < 200 {
                continue;
            }
            if has_body {
                reply.body = self.read_body(&reply)?;
            }
            return Ok(Some(reply));
        }
    }

    fn read_body(&mut self, reply: &Reply) -> io::Result<Vec<u8>> {
        if reply.header("transfer-encoding") == Some("chunked") {
            let mut body = Vec::new();
            loop {
                let line = self.find(b"\r\n")?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let size: Vec<u8> = self.buffer.drain(..line + 2).collect();
                let size = String::from_utf8_lossy(&size);
                let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
                let chunk = self.take(size + 2)?;
                if size == 0 {
                    return Ok(body);
                }
                body.extend_from_slice(&chunk[..size]);
            }
        }
        let length = reply.header("content-length").map(|it| it.parse().unwrap()).unwrap_or(0);
        self.take(length)
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Where `pattern` begins; `None` when the connection is closed with nothing on it.
    fn find(&mut self, pattern: &[u8]) -> io::Result<Option<usize>> {
        loop {
            let at = self.buffer.windows(pattern.len()).position(|it| it == pattern);
            if at.is_some() {
                return Ok(at);
            }
            if !self.fill()? {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 16384];
        let length = loop {
            match self.stream.read(&mut chunk) {
                // Tests that were stopped and go on: a read with a limit of time ends with that.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.buffer.extend_from_slice(&chunk[..length]);
        Ok(0 < length)
    }
}

/// A reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

impl Reply {
    fn parse(head: &str) -> Reply {
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().and_then(|it| it.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|it| it.split_once(':'));
        Reply {
            status: status.unwrap_or_else(|| panic!("no status line: {head:?}")),
            headers: headers
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect(),
            body: Vec::new(),
        }
    }

    /// The value of a header; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|it| it.0 == name).map(|it| &*it.1)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {} {}", self.status, self.text()))
    }

    /// The same reply, which must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Reply {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// The text of an error of this status, whose body must be what every error's is: short JSON with a
    /// sentence and the request's name, which TensorFlow Serving's bodies have no room for: theirs is in a header.
    #[track_caller]
    pub fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"), "{}", self.text());
        assert!(self.body.len() < 5000, "{} bytes of error", self.body.len());
        let body = self.json();
        let id = body["request_id"].as_str().or(self.header("x-request-id")).unwrap_or_default();
        assert!(!id.is_empty(), "no request_id: {body}");
        let text = body["error"].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "no error: {body}");
        text.to_owned()
    }
}
