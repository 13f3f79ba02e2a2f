//! A connection for which there is no place: a question for health is answered, everything else is refused.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, HeaderValue, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use super::{body::Segments, platform::Platform, respond, service::Listener};
use crate::exchange::retry::spread;
use inference::{access::Category, error::Error};

/// The least time after which a client is asked to come back.
const SOONEST: Duration = Duration::from_secs(1);

/// Longest time until the first byte of a request.
const FIRST_BYTE: Duration = Duration::from_millis(500);

/// Answers a question for health, or that too many connections are open, and closes this one. A TLS port closes it
/// without an answer, because a handshake would cost too much.
pub async fn refuse<P: Platform>(stream: std::net::TcpStream, platform: Arc<P>, open: usize) {
    let service = platform.service();
    if matches!(service.listener, Listener::Tls(_)) {
        return;
    }
    let Ok(mut stream) = TcpStream::from_std(stream) else { return };
    let error = Error::OutOfBudget(format!("{open} connections are open, and no more allowed"));
    let hearing = service.hearing.try_acquire();
    let has_spoken = hearing.is_ok() && timeout(FIRST_BYTE, stream.readable()).await.is_ok();
    if !has_spoken {
        let body = respond::error_body(&error);
        let head = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: {}\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n",
            spread(SOONEST).as_secs(),
            body.len()
        );
        // Best effort: a client that does not read this sees the closed connection.
        let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        return;
    }
    let answer = service_fn(|request: Request<Incoming>| {
        let (platform, error) = (&platform, &error);
        async move {
            let (parts, body) = request.into_parts();
            let is_health = platform.route(&parts).is_ok_and(|route| {
                let (_, need) = route.family_and_need(&parts.method);
                need.category() == Category::Health
            });
            let mut response = match is_health {
                true => platform.answer(Request::from_parts(parts, body)).await,
                false => out_of_places(error),
            };
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            Ok::<Response<Segments>, Infallible>(response)
        }
    });
    let connection =
        http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answer);
    // A client that is slow, or leaves, is closed without more words.
    let _ = timeout(service.settings.timeouts.head, connection).await;
}

fn out_of_places(error: &Error) -> Response<Segments> {
    let mut response = respond::raw("application/json", respond::error_body(error));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(spread(SOONEST).as_secs()));
    response
}
