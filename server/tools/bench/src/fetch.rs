//! One question to a server before a run, blocking: for a model's metadata.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::{
    Error, Method, Request, Target, kserve,
    reply::{Fed, Parser},
};

/// Longest wait for each step: connecting, each write, each read.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer that is read, in bytes.
const LONGEST: usize = 16 * 1024 * 1024;

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
    let failed = |problem: String| {
        let url = format!("{}://{}{path}", target.scheme(), target.authority());
        Error::Fetch { url, problem }
    };
    let io = |error: std::io::Error| failed(error.to_string());
    let address = target.resolve()?;
    let request = Request::new(Method::Get, path)?.header("Connection", "close")?;
    let request = headers.iter().try_fold(request, |it, (name, value)| it.header(name, value))?;
    let dialer = target.dialer("http/1.1")?;
    let stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(io)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(io)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(io)?;
    let mut stream: Box<dyn Duplex> = match dialer {
        None => Box::new(stream),
        Some(dialer) => Box::new(dialer.shake(stream).map_err(io)?),
    };
    stream.write_all(&request.encode(&target.authority())).map_err(io)?;

    let mut parser = Parser::new();
    let mut body = Vec::new();
    let mut buffer = [0; 8192];
    let head = loop {
        let count = stream.read(&mut buffer).map_err(io)?;
        if count == 0 {
            let cut = || failed("the connection was closed within the reply".to_owned());
            break parser.end_of_stream().ok_or_else(cut)?;
        }
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
    if head.status != 200 {
        let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
        return Err(failed(format!("expected status 200, given {}: {text}", head.status)));
    }
    Ok(body)
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
