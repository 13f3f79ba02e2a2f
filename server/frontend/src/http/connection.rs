//! One connection, from accept to close.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use hyper::{
    Request, Response, StatusCode, Version,
    body::Incoming,
    header::{CONNECTION, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use super::{
    body::Segments,
    framing,
    platform::Platform,
    respond,
    service::{Listener, Service},
    timeouts::{Progress, TimedStream},
    websocket::{self, Opening},
};
use crate::{
    drain::Guard,
    net::{
        Accepted,
        arrival::Arrival,
        places::Place,
        shared::{SharedStream, Watched},
        shared_tls::SharedTls,
    },
};
use inference::error::Error;
use telemetry::metrics::Protocol;

/// When the server closes, an idle connection is kept for that long, because its next request may be under way.
const LAST_CALL: Duration = Duration::from_millis(100);

/// A request of which a part is there by then has that long to arrive.
const LAST_HEAD: Duration = Duration::from_secs(2);

/// How soon such a connection is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Serves a connection to its end.
pub async fn serve<P: Platform>(accepted: Accepted, platform: Arc<P>) {
    let service = platform.service();
    let Accepted { stream, place, mut guard } = accepted;
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::debug!(%error, "lost a connection before it was served"),
    };
    let _counted = service.serving.metrics.connection();
    // Nagle's algorithm would only delay: a reply is written whole, or as soon as there is room for its rest.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    // What speaks is large, and boxed so that a connection that never says anything does not carry it.
    match service.listener.clone() {
        Listener::Plain | Listener::HealthOnly => {
            if has_spoken(&stream, service.settings.timeouts.idle, &mut guard, &place).await {
                let (stream, watched) = SharedStream::new(stream);
                Box::pin(speak(stream, watched, guard, &place, platform)).await;
            }
        }
        Listener::Tls(acceptor) => {
            let longest = service.settings.timeouts.head;
            let accepted = tokio::select! {
                accepted = Box::pin(acceptor.accept(stream, longest, &mut guard)) => accepted,
                () = place.seat().evicted() => return,
            };
            match accepted {
                Ok(stream) => {
                    let stream = SharedTls::new(stream);
                    let watched = Watched::Tls(stream.clone());
                    Box::pin(speak(stream, watched, guard, &place, platform)).await;
                }
                // Clients of plain HTTP, scanners, and wrong client certificates: a debug line is enough.
                Err(error) => tracing::debug!(%error, "a connection did not become one of TLS"),
            }
        }
    }
}

/// Waits for the first byte of a connection; true also when the server closes, so that what is under way is answered.
/// False where the connection is to be closed.
async fn has_spoken(
    stream: &TcpStream,
    longest: Duration,
    guard: &mut Guard,
    place: &Place,
) -> bool {
    tokio::select! {
        readable = stream.readable() => readable.is_ok(),
        () = guard.closing() => true,
        () = place.seat().evicted() => false,
        () = tokio::time::sleep(longest) => false,
    }
}

/// Answers the requests of a connection. A peer that has sent its last byte still gets its answer.
async fn speak<S, P>(stream: S, watched: Watched, mut guard: Guard, place: &Place, platform: Arc<P>)
where
    P: Platform,
    S: AsyncRead + AsyncWrite + Arrival + Unpin + Send + 'static,
{
    let service = platform.service();
    let opened = Mutex::new(None);
    let progress = Arc::new(Progress::new(place.seat().clone()));
    let io = TokioIo::new(TimedStream::new(stream, service.settings.timeouts, progress.clone()));
    let answer = service_fn(|request: Request<Incoming>| {
        let (platform, progress, opened) = (&platform, progress.clone(), &opened);
        let watched = &watched;
        async move {
            progress.busy();
            let _idle = IdleAtEnd(&progress);
            let framing = framing::check(request.version(), request.headers());
            let mut response = match &framing {
                Ok(()) => {
                    // Interim replies came with HTTP/1.1.
                    let is_newest = request.version() == Version::HTTP_11;
                    tokio::select! {
                        biased;
                        response = platform.answer(request) => response,
                        () = watched.departed(|| is_newest && !progress.is_writing()) => return Err(Departed),
                    }
                }
                Err(error) => ambiguous(platform.service(), error),
            };
            if framing.is_err() || !platform.service().serving.drain.is_serving() {
                // `connection: close` lets the client use another server in time; a connection that is cut off is an
                // error to it.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if let Some(opening) = response.extensions_mut().remove::<Opening>() {
                *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(opening);
            }
            Ok::<Response<Segments>, Departed>(response)
        }
    });
    // No `pipeline_flush`: it joins a reply's segments, keeps pipelined replies in memory without bound, and loses
    // the reply to a head that cannot be read.
    let mut builder = http1::Builder::new();
    builder.half_close(true);
    let connection = builder.serve_connection(io, answer).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = place.seat().evicted() => {
            if progress.is_idle() {
                return tracing::debug!("an idle connection makes room for another one");
            }
            // A request came at the last moment. It is answered.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = guard.closing() => match last_requests(connection.as_mut(), &progress).await {
            Some(ended) => ended,
            None => {
                // A request in flight is answered; an idle connection closes now.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        },
    };
    if let Err(error) = ended {
        // Clients come and go as they like: a debug line is enough.
        return tracing::debug!(%error, "a connection ended early");
    }
    let opening = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(opening) = opening {
        // A WebSocket has an idle timeout of its own.
        progress.busy();
        // Boxed: no other connection carries it.
        Box::pin(websocket::serve(opening, platform.clone(), &mut guard)).await;
    }
}

/// Serves a connection that is to end until no request is on its way any more; `None` if it is still open then. What a
/// client has sent before it saw the end is answered, even where the runtime has not noticed it yet.
async fn last_requests<C: Future>(
    mut connection: Pin<&mut C>,
    progress: &Progress,
) -> Option<C::Output> {
    if let Ok(ended) = tokio::time::timeout(LAST_CALL, connection.as_mut()).await {
        return Some(ended);
    }
    progress.last_look();
    let until = Instant::now() + LAST_HEAD;
    loop {
        let looked = poll_fn(|context| Poll::Ready(connection.as_mut().poll(context))).await;
        if let Poll::Ready(ended) = looked {
            return Some(ended);
        }
        if !progress.is_arriving() || until <= Instant::now() {
            return None;
        }
        if let Ok(ended) = tokio::time::timeout(LOOK_AGAIN, connection.as_mut()).await {
            return Some(ended);
        }
    }
}

/// The client left before its answer was there.
#[derive(Debug)]
struct Departed;

impl std::fmt::Display for Departed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the client has left")
    }
}

impl std::error::Error for Departed {}

/// The answer to a request that another server may have read in another way.
fn ambiguous(service: &Service, error: &Error) -> Response<Segments> {
    let mut response = respond::raw("application/json", respond::error_body(error));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    service.serving.metrics.http(Protocol::Other, response.status().as_u16());
    response
}

/// Marks the connection as idle when a request is answered or dropped.
struct IdleAtEnd<'a>(&'a Progress);

impl Drop for IdleAtEnd<'_> {
    fn drop(&mut self) {
        self.0.idle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exchange::intake::Received,
        http::{
            answer::Answer,
            router::{PlatformRoute, Route},
        },
    };
    use hyper::http::request::Parts;

    /// A platform that is asked nothing.
    #[derive(Clone)]
    struct Unasked;

    impl Platform for Unasked {
        fn service(&self) -> &Service {
            unreachable!()
        }

        fn route<'a>(&self, _: &'a Parts) -> Result<Route<'a>, Error> {
            unreachable!()
        }

        async fn answer(&self, _: Request<Incoming>) -> Response<Segments> {
            unreachable!()
        }

        async fn handle(&self, _: PlatformRoute<'_>, _: &Parts, _: &mut Incoming) -> Answer {
            unreachable!()
        }

        async fn message(&self, _: &Parts, _: Result<Received, Error>) -> Response<Segments> {
            unreachable!()
        }
    }

    fn size_of_future<A, B, F: Future>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_that_says_nothing_is_small() {
        let size = size_of_future(serve::<Unasked>);
        assert!(size <= 2048, "{size} bytes");
    }
}
