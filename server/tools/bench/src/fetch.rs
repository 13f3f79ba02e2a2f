//! One question to a server and its answer, blocking: for a model's metadata before a run, or a prediction.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::{
    Error, Method, Request, Target, kserve,
    reply::{Fed, Parser},
};

/// Longest wait for each step of a question for metadata: connecting, each write, each read.
const TIMEOUT: Duration = Duration::from_secs(10);
/// So long a read waits at a time, until it looks whether it is to go on.
const TURN: Duration = Duration::from_millis(100);
/// Longest answer that is read, in bytes.
const LONGEST: usize = 1 << 30;

/// What `target` says of a model over the KServe v2 protocol: the body of `GET /v2/models/<model>`, asked with these
/// headers.
///
/// # Errors
/// When the server cannot be reached, or answers something else than 200.
pub fn metadata(
    target: &Target,
    model: &str,
    headers: &[(String, String)],
) -> Result<Vec<u8>, Error> {
    get(target, &kserve::model_path(model), headers)
}

/// What is written and read.
trait Duplex: Read + Write {}

impl<T: Read + Write> Duplex for T {}

/// The body of a 200 reply to `GET path` with these headers.
pub(crate) fn get(
    target: &Target,
    path: &str,
    headers: &[(String, String)],
) -> Result<Vec<u8>, Error> {
    let request = Request::new(Method::Get, path)?;
    let request = headers.iter().try_fold(request, |it, (name, value)| it.header(name, value))?;
    let Reply { status, body } = send(target, request, TIMEOUT, &AtomicBool::new(false))?;
    if status != 200 {
        let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
        let problem = format!("expected status 200, given {status}: {text}");
        return Err(failed(target, "GET", path, problem));
    }
    Ok(body)
}

/// What a server has answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Can a connection to the server be made?
///
/// # Errors
/// Why not.
pub(crate) fn reaches(target: &Target) -> Result<(), Error> {
    let failed = |it: io::Error| failed(target, "", "", it.to_string());
    TcpStream::connect_timeout(&target.resolve()?, TIMEOUT).map(drop).map_err(failed)
}

/// Sends a request over a connection of its own and reads the answer. It may wait for `longest` for each step: until
/// the connection is there, for each write and each read. While it reads, `stop` ends it.
///
/// # Errors
/// When the server cannot be reached or breaks off, or its answer is more than a gigabyte or not HTTP.
pub(crate) fn send(
    target: &Target,
    request: Request,
    longest: Duration,
    stop: &AtomicBool,
) -> Result<Reply, Error> {
    let (method, path) = (request.method().name(), request.path().to_owned());
    let failed = |problem: String| failed(target, method, &path, problem);
    let io = |error: io::Error| {
        failed(match is_over(&error) {
            true => format!("no answer within {} s", longest.as_secs_f64()),
            false => error.to_string(),
        })
    };
    let address = target.resolve()?;
    let request = request.header("Connection", "close")?;
    let dialer = target.dialer("http/1.1")?;
    let stream = TcpStream::connect_timeout(&address, longest).map_err(io)?;
    stream.set_read_timeout(Some(longest)).map_err(io)?;
    let socket = stream.try_clone().map_err(io)?;
    stream.set_write_timeout(Some(longest)).map_err(io)?;
    let mut stream: Box<dyn Duplex> = match dialer {
        None => Box::new(stream),
        Some(dialer) => Box::new(dialer.shake(stream).map_err(io)?),
    };
    // A server that refuses a long body answers before it has read it, and may hang up then.
    let written = stream.write_all(&request.encode(&target.authority()));
    socket.set_read_timeout(Some(longest.min(TURN))).map_err(io)?;

    let mut parser = Parser::new();
    let mut body = Vec::new();
    let mut buffer = [0; 8192];
    let mut since = Instant::now();
    let head = loop {
        let count = match (stream.read(&mut buffer), &written) {
            (Ok(count), _) => count,
            (Err(error), Ok(())) if is_over(&error) && since.elapsed() < longest => {
                if stop.load(Ordering::Relaxed) {
                    return Err(failed("stopped before the answer came".to_owned()));
                }
                continue;
            }
            (Err(_), Err(first)) => {
                return Err(io(io::Error::new(first.kind(), first.to_string())));
            }
            (Err(error), Ok(())) => return Err(io(error)),
        };
        if count == 0 {
            let cut = || failed("the connection was closed within the reply".to_owned());
            break parser.end_of_stream().ok_or_else(cut)?;
        }
        since = Instant::now();
        let piece = buffer.get(..count).unwrap_or_default();
        let fed = parser.feed(piece, &mut |it| body.extend_from_slice(it));
        match fed.map_err(|_| failed("the reply is not HTTP/1".to_owned()))? {
            Fed::Done { head, .. } => break head,
            Fed::More if body.len() > LONGEST => {
                return Err(failed(format!("the reply is longer than {LONGEST} bytes")));
            }
            Fed::More => {}
        }
    };
    Ok(Reply { status: head.status, body })
}

/// Is this a wait that is over, as the system calls it?
fn is_over(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A question that was not answered as it should be.
fn failed(target: &Target, method: &str, path: &str, problem: String) -> Error {
    let blank = if method.is_empty() { "" } else { " " };
    let url = format!("{method}{blank}{}://{}{path}", target.scheme(), target.authority());
    Error::Fetch { url, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let target: Target = format!("http://{address}").parse().unwrap();
        let error = get(&target, "/v2/models/m", &[]).unwrap_err().to_string();
        let begin = format!("GET http://{address}/v2/models/m: Connection refused");
        assert!(error.starts_with(&begin), "{error}");
    }
}
