//! A connection for which there is no place: a question for health is answered, and so is administration by those who
//! may do it. Everything else is refused.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap, Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, HeaderValue, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::SemaphorePermit, time::timeout};

use super::{
    answer,
    body::Segments,
    framing,
    front::HttpFront,
    marks::Marks,
    parts::Parts,
    protocol::Protocol,
    respond,
    service::{Listener, Service},
};
use crate::exchange::retry::spread;
use inference::{
    access::{Category, Need},
    error::Error,
};

/// The least time after which a client is asked to come back.
const SOONEST: Duration = Duration::from_secs(1);

/// Longest time until the first byte of a request.
const FIRST_BYTE: Duration = Duration::from_millis(500);

/// The reply to a connection that is closed before it is heard, so long after it has come.
pub fn words(error: &Error, marks: &Marks, after: Duration) -> Vec<u8> {
    let body = respond::error_body(error);
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: {}\r\n\
         connection: close\r\ncontent-length: {}\r\n{}\r\n",
        spread(SOONEST).as_secs(),
        body.len(),
        marks.lines(after)
    );
    [head.as_bytes(), &body].concat()
}

/// Answers a question for health or of an administrator, or that too many connections are open, and closes this one. A
/// TLS port closes it without an answer, because a handshake would cost too much.
pub async fn refuse<P: Protocol>(
    stream: std::net::TcpStream,
    front: Arc<HttpFront<P>>,
    open: usize,
) {
    let service = &front.service;
    if matches!(service.listener, Listener::Tls(_)) {
        return;
    }
    let Ok(mut stream) = TcpStream::from_std(stream) else { return };
    let came = Instant::now();
    let error = Error::OutOfBudget(format!("{open} connections are open, and no more allowed"));
    let hearing = service.hearing.try_acquire();
    let has_spoken = hearing.is_ok() && timeout(FIRST_BYTE, stream.readable()).await.is_ok();
    if !has_spoken {
        let words = words(&error, &service.marks, came.elapsed());
        // Best effort: a client that does not read this sees the closed connection.
        let _ = stream.write_all(&words).await;
        return;
    }
    let is_at_work = AtomicBool::new(false);
    let ids = service.serving.request_ids.source();
    let answer = service_fn(|request: Request<Incoming>| {
        let (front, error, is_at_work, ids) = (&front, &error, &is_at_work, &ids);
        async move {
            let (parts, mut body) = request.into_parts();
            let id = ids.name(framing::look(parts.version, &parts.headers).name);
            let parts = Parts::new(parts, id);
            let need = front.need(&parts);
            let is_health = need.is_some_and(|it| it.category() == Category::Health);
            // Held until the answer is there.
            let administers = need.and_then(|it| administers(&front.service, it, &parts.headers));
            let mut response = match is_health || administers.is_some() {
                true => {
                    is_at_work.store(administers.is_some(), Relaxed);
                    let mut response = front.answer(&parts, &mut body).await;
                    is_at_work.store(false, Relaxed);
                    answer::forget(&parts, body, &mut response);
                    response
                }
                false => out_of_places(error),
            };
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            let marks = &front.service.marks;
            Ok::<_, Infallible>(marks.put(&parts, response, || came.elapsed()))
        }
    });
    let connection =
        http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    // A client that is slow, or leaves, is closed without more words. A load may take its time.
    while timeout(service.settings.timeouts.head, &mut connection).await.is_err()
        && is_at_work.load(Relaxed)
    {}
}

/// The place of a request that administers the server, kept free for those who may load models or change what is traced
/// and logged. `None` where the request does not, its client may not, or all such places are taken.
fn administers<'a>(
    service: &'a Service,
    need: Need,
    headers: &HeaderMap,
) -> Option<SemaphorePermit<'a>> {
    let is_administration = match need.category() {
        Category::ModelRepository | Category::Trace | Category::Logging => true,
        Category::Health
        | Category::Metadata
        | Category::Inference
        | Category::SharedMemory
        | Category::ModelConfig
        | Category::Statistics
        | Category::Metrics => false,
    };
    // Whoever may only look is not to take the places of those who may change something.
    let may_change = || service.check(Need::changing(need.category()), headers).is_ok();
    (is_administration && may_change()).then(|| service.administering.try_acquire().ok())?
}

fn out_of_places(error: &Error) -> Response<Segments> {
    let mut response = respond::raw("application/json", respond::error_body(error));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(spread(SOONEST).as_secs()));
    response
}
