//! Asks a running server whether it is healthy: one request over a socket, with a short time limit.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use crate::config::HealthCheck;

/// Longest time for the whole check. Platforms give a health check 2 seconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of a reply that are read. The rest is only text.
const LONGEST: u64 = 4096;

/// Why a server is not healthy, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Unhealthy {
    /// There was no reply.
    #[error("not healthy: {check}: {error}")]
    Silent {
        /// The address that was asked.
        check: HealthCheck,
        /// What happened instead.
        error: io::Error,
    },
    /// The reply was not 200.
    #[error("not healthy: {check}: expected status 200, given {reply}")]
    Refused {
        /// The address that was asked.
        check: HealthCheck,
        /// What came.
        reply: NotOk,
    },
}

/// A reply that is not 200.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOk {
    /// Its status and reason.
    #[error("{0}")]
    Status(String),
    /// It is no reply of HTTP.
    #[error("what is not HTTP/1")]
    NotHttp,
}

/// Succeeds when the server answers 200. Blocks for at most 2 seconds, and for as long as a name takes to be looked
/// up.
///
/// # Errors
/// When there is no answer in time, or another answer than 200.
pub fn ask(check: &HealthCheck) -> Result<(), Unhealthy> {
    let until = Instant::now() + PATIENCE;
    match fetch(check, until).map(|it| judge(&it)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(reply)) => Err(Unhealthy::Refused { check: check.clone(), reply }),
        Err(error) => Err(Unhealthy::Silent { check: check.clone(), error }),
    }
}

/// The reply, head and body, cut at [`LONGEST`].
fn fetch(check: &HealthCheck, until: Instant) -> io::Result<Vec<u8>> {
    let stream = Deadline { stream: connect(check, until)?, until };
    match check.tls {
        // No certificate is made for the address that is used, and the address itself says which server it is.
        true => exchange(check, unverified_tls::over(stream, &check.host)?),
        false => exchange(check, stream),
    }
}

fn exchange(check: &HealthCheck, mut stream: impl Read + Write) -> io::Result<Vec<u8>> {
    let (path, host) = (&check.path, check.authority());
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    // One write: `write!` to a socket would send it word by word.
    stream.write_all(request.as_bytes())?;
    let mut reply = Vec::new();
    stream.take(LONGEST).read_to_end(&mut reply)?;
    Ok(reply)
}

/// Connects to the first address of the host that accepts: a name may have several.
fn connect(check: &HealthCheck, until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (&*check.host, check.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(until)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A stream whose reads and writes end at a deadline.
struct Deadline {
    stream: TcpStream,
    until: Instant,
}

impl Read for Deadline {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.until)?))?;
        self.stream.read(buffer).map_err(in_words)
    }
}

impl Write for Deadline {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.until)?))?;
        self.stream.write(data).map_err(in_words)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        // The system's error for a time-out of a socket.
        io::ErrorKind::WouldBlock => too_late(),
        _ => error,
    }
}

/// The remaining time, never zero: sockets take zero for no limit.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(too_late()) } else { Ok(left) }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", PATIENCE.as_secs()))
}

/// Is the status 200? Otherwise the status, and the first line of the body.
fn judge(reply: &[u8]) -> Result<(), NotOk> {
    let text = String::from_utf8_lossy(reply);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let status = words.next().filter(|it| it.starts_with("HTTP/1.")).and_then(|_| words.next());
    match (status, body.trim().lines().next()) {
        (Some("200"), _) => Ok(()),
        (Some(status), None) => Err(NotOk::Status(status.to_owned())),
        (Some(status), Some(reason)) => Err(NotOk::Status(format!("{status}: {reason}"))),
        (None, _) => Err(NotOk::NotHttp),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    #[track_caller]
    fn check(reply: &str, expect: Result<(), &str>) {
        let judged = judge(reply.as_bytes()).map_err(|it| it.to_string());
        assert_eq!(judged, expect.map_err(str::to_owned), "{reply}");
    }

    #[test]
    fn only_200_is_healthy() {
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Ok(()));
        check("HTTP/1.0 200\r\n\r\n", Ok(()));
        check("HTTP/1.1 503 x\r\n\r\n{\"error\":\"y\"}\nz", Err("503: {\"error\":\"y\"}"));
        check("HTTP/1.1 404 Not Found\r\n\r\n", Err("404"));
        check("SSH-2.0-server 200\r\n", Err("what is not HTTP/1"));
        check("", Err("what is not HTTP/1"));
    }

    fn at(listener: &TcpListener) -> HealthCheck {
        let port = listener.local_addr().unwrap().port();
        HealthCheck { tls: false, host: "127.0.0.1".to_owned(), port, path: "/ping".to_owned() }
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = ask(&at(&listener)).unwrap_err().to_string();
        assert!(error.contains("/ping: no answer within 2 s"), "{error}");
    }

    #[test]
    fn without_a_listener_the_error_names_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let check = at(&listener);
        drop(listener);
        let error = ask(&check).unwrap_err().to_string();
        assert!(error.contains(&check.to_string()) && error.contains("refused"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn the_request_names_path_and_host() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let check = at(&listener);
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        ask(&check).unwrap();
        let request = server.join().unwrap();
        assert!(request.starts_with("GET /ping HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("Host: 127.0.0.1:{}\r\n", check.port)), "{request}");
    }
}
