//! The operations over HTTP: `POST /` with the header `X-Amz-Target`.
//!
//! A page in a browser cannot ask for them: the header needs a permission that is never given. A page that comes from
//! here by a name of its own does not need one, and says that name as `Host`.

use std::{
    convert::Infallible,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use control_plane::misdirected;

use crate::api::{ControlPlane, Reply};

/// Most bytes of a request.
const MOST_BYTES: usize = 128 << 10;
/// Connections at a time; others wait to be accepted.
const CONNECTIONS: usize = 64;
/// How soon `stop` is seen.
const LOOK: Duration = Duration::from_millis(100);
/// Pause where no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(50);

const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.1");

/// How long the parts of a connection may take. Together they bound the time in which a client holds a place.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// A request's head, and the silence before it.
    head: Duration,
    /// A body.
    body: Duration,
    /// All requests of a connection. The last one has as long again to be answered.
    all: Duration,
}

const TIMES: Times = Times {
    head: Duration::from_secs(30),
    body: Duration::from_secs(30),
    all: Duration::from_secs(300),
};

/// Answers operations at this address until `stop` is set; blocks until then.
///
/// # Errors
/// When the address cannot be used.
pub fn serve(
    address: SocketAddr,
    control: &Arc<ControlPlane>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            eprintln!(
                "WARNING {address} can be reached from other machines: whoever reaches it starts servers here"
            );
        }
        eprintln!("LISTENING http://{address}");
        tokio::select! {
            never = accept(&listener, control, TIMES) => match never {},
            () = stopped(stop) => Ok(()),
        }
    })
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        sleep(LOOK).await;
    }
}

async fn accept(listener: &TcpListener, control: &Arc<ControlPlane>, times: Times) -> Infallible {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, _)) => {
                let control = control.clone();
                tokio::spawn(async move {
                    connection(stream, &control, times).await;
                    drop(place);
                });
            }
            // Descriptors are short, or the client has left.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Answers the requests of a connection.
async fn connection(stream: TcpStream, control: &ControlPlane, times: Times) {
    let answer = service_fn(|request| async {
        let mut response = match operation(request, control, times.body).await {
            Ok(reply) => response(reply),
            Err(status) => {
                let mut response = Response::new(Full::default());
                *response.status_mut() = status;
                response
            }
        };
        if let Ok(id) = HeaderValue::try_from(request_id()) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        Ok::<_, Infallible>(response)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(times.head).max_buf_size(64 << 10);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    // Clients come and go as they like: how a connection ends says nothing.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep(times.all) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(times.all, connection).await;
}

async fn operation(
    request: Request<Incoming>,
    control: &ControlPlane,
    longest: Duration,
) -> Result<Reply, StatusCode> {
    let (parts, body) = request.into_parts();
    if let Some(reply) = misdirected(&parts.uri, &parts.headers) {
        return Ok(reply);
    }
    match (&parts.method, parts.uri.path()) {
        (&Method::POST, "/") => {}
        (_, "/") => return Err(StatusCode::METHOD_NOT_ALLOWED),
        _ => return Err(StatusCode::NOT_FOUND),
    }
    let target = parts.headers.get(TARGET).and_then(|it| it.to_str().ok());
    let target = target.ok_or(StatusCode::BAD_REQUEST)?.to_owned();
    let body = timeout(longest, Limited::new(body, MOST_BYTES).collect()).await;
    let body = body.map_err(|_| StatusCode::REQUEST_TIMEOUT)?;
    let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?.to_bytes();
    Ok(control.answer(&target, &body))
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A name for a request, in the form of a UUID.
fn request_id() -> String {
    let random = || RandomState::new().build_hasher().finish();
    let (a, b) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Places;
    use crate::{api::ControlSettings, prices::Prices, ranking::Objective};
    use std::{
        io::{Read, Write},
        net::TcpStream,
        path::PathBuf,
        thread,
        time::Instant,
    };

    const SHORT: Duration = Duration::from_millis(500);
    const LONG: Duration = Duration::from_secs(600);

    /// A server with these times, and the directory that it uses.
    fn start(name: &str, times: Times) -> (SocketAddr, PathBuf) {
        let jobs =
            std::env::temp_dir().join(format!("muster-control-{name}-{}", std::process::id()));
        let settings = ControlSettings {
            program: "none".into(),
            jobs: Some(jobs.clone()),
            prices: Prices::default(),
            objective: Objective::Cost,
            time_scale: 1.0,
            places: Places::default(),
            machines: Vec::new(),
        };
        let control = Arc::new(ControlPlane::open(settings).unwrap());
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                accept(&listener, &control, times).await
            })
        });
        (address, jobs)
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// What comes until the server closes the connection.
    fn rest(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        if let Err(error) = stream.read_to_end(&mut bytes) {
            // A reset is an end, too.
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "it is never closed");
        }
        String::from_utf8(bytes).unwrap()
    }

    const LIST: &str = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\
                        X-Amz-Target: SageMaker.ListInferenceRecommendationsJobs\r\n\r\n{}";

    #[test]
    fn clients_that_say_nothing_make_room_for_others() {
        let (address, jobs) = start("silent", Times { head: SHORT, body: SHORT, all: LONG });
        // Between two requests, within a head and within a body; the others say nothing.
        let body = LIST.replace("Length: 2", "Length: 9");
        let words = [LIST, "POST / HTTP/1.1\r\nHos", &body];
        let words = words.into_iter().chain(std::iter::repeat("")).take(CONNECTIONS);
        // Each speaks before the next one comes, as its time runs from when it came.
        let silent = words.map(|it| {
            let mut stream = connect(address);
            stream.write_all(it.as_bytes()).unwrap();
            stream
        });
        let silent: Vec<TcpStream> = silent.collect();
        let mut late = connect(address);
        late.write_all(LIST.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes()).unwrap();
        let reply = rest(late);
        assert!(reply.ends_with("{\"InferenceRecommendationsJobs\":[]}"), "{reply}");
        let mut ends = silent.into_iter().map(rest);
        assert!(ends.next().unwrap().starts_with("HTTP/1.1 200"));
        assert_eq!(ends.next().unwrap(), "");
        assert!(ends.next().unwrap().starts_with("HTTP/1.1 408"));
        assert!(ends.all(|it| it.is_empty()));
        std::fs::remove_dir_all(jobs).unwrap();
    }

    #[test]
    fn a_name_other_than_localhost_is_not_answered() {
        let (address, jobs) = start("name", Times { head: LONG, body: LONG, all: LONG });
        let status = |host: &str| {
            let mut stream = connect(address);
            let host = format!("Host: {host}\r\nConnection: close");
            stream.write_all(LIST.replace("Host: localhost", &host).as_bytes()).unwrap();
            rest(stream)["HTTP/1.1 ".len()..][..3].to_owned()
        };
        let port = address.port();
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]", "[::1]:7"] {
            assert_eq!(status(host), "200", "{host}");
        }
        assert_eq!(status(&address.to_string()), "200");
        for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.example", "a b"] {
            assert_eq!(status(host), "421", "{host}");
        }
        std::fs::remove_dir_all(jobs).unwrap();
    }

    #[test]
    fn a_client_that_goes_on_asking_loses_its_connection_after_a_while() {
        let (address, jobs) = start("busy", Times { head: LONG, body: LONG, all: SHORT });
        let begin = Instant::now();
        let mut stream = connect(address);
        let mut buffer = [0; 4096];
        loop {
            let is_open = stream.write_all(LIST.as_bytes()).is_ok();
            if !is_open || stream.read(&mut buffer).unwrap_or(0) == 0 {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "it is never closed");
            thread::sleep(SHORT / 10);
        }
        assert!(begin.elapsed() >= SHORT, "{:?}", begin.elapsed());
        std::fs::remove_dir_all(jobs).unwrap();
    }
}
