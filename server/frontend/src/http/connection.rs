//! One connection, from accept to close.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use hyper::{
    Request, Response, StatusCode, Version,
    body::{Body, Incoming},
    header::{CONNECTION, HeaderValue},
    server::conn::http1,
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    answer::{self, Unread},
    body::Segments,
    framing::{self, Look},
    front::HttpFront,
    parts::Parts,
    progress::Progress,
    protocol::Protocol,
    refusal, respond,
    self_wakes::{self, SelfWakes, Woken},
    service::{Listener, Service},
    timeouts::TimedStream,
    websocket::{self, Opening},
};
use crate::{
    drain::Guard,
    net::{
        Accepted,
        arrival::Arrival,
        places::ConnectionPlace,
        shared::{BEFORE_A_REPLY, BETWEEN_CHUNKS, SharedStream, WatchedStream},
        shared_tls::SharedTls,
        tls::Acceptor,
    },
};
use formats::{body_memo::BodyMemo, kserve_v2::ReplyFormat};
use inference::error::Error;
use telemetry::metrics::Protocol as Label;

/// When the server closes, an idle connection is kept for that long, because its next request may be under way.
const LAST_CALL: Duration = Duration::from_millis(100);

/// A request of which a part is there by then has that long to arrive.
const LAST_HEAD: Duration = Duration::from_secs(2);

/// How soon such a connection is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// About how many bytes a connection takes more than at rest while it is not, with [`FIRST_BUFFER`] and what it
/// remembers of them; how many more with TLS; how many more as a WebSocket.
///
/// [`FIRST_BUFFER`]: super::timeouts::FIRST_BUFFER
const AWAKE: usize = (22 << 10) + BodyMemo::<Arc<ReplyFormat>>::MOST;
const ENCRYPTED: usize = 12 << 10;
const OF_WEBSOCKET: usize = 18 << 10;

/// Serves a connection to its end.
pub async fn serve<P: Protocol>(accepted: Accepted, front: Arc<HttpFront<P>>) {
    let service = &front.service;
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
    // Boxed: what a connection carries while it is at rest is one of these, and nothing of the other or of a handshake.
    match service.listener.clone() {
        Listener::Plain | Listener::HealthOnly => {
            let (stream, watched) = SharedStream::new(stream);
            Box::pin(speak(stream, watched, guard, &place, front)).await;
        }
        Listener::Tls(acceptor) => {
            let longest = service.settings.timeouts.head;
            let Some(_room) = Box::pin(place.wait_for_room(ENCRYPTED)).await else {
                return tracing::debug!(
                    "a connection of TLS is closed: connections have no memory"
                );
            };
            let stream = Box::pin(shake(acceptor, stream, longest, &mut guard, &place)).await;
            if let Some(stream) = stream {
                let watched = WatchedStream::Tls(stream.clone());
                Box::pin(speak(stream, watched, guard, &place, front)).await;
            }
        }
    }
}

/// Makes a connection one of TLS; `None` where it is to be closed.
async fn shake(
    acceptor: Acceptor,
    stream: TcpStream,
    longest: Duration,
    guard: &mut Guard,
    place: &ConnectionPlace,
) -> Option<SharedTls> {
    let accepted = tokio::select! {
        accepted = acceptor.accept(stream, longest, guard) => accepted,
        () = place.seat().evicted() => return None,
    };
    // Clients of plain HTTP, scanners, and wrong client certificates: a debug line is enough.
    let failed = |error| tracing::debug!(%error, "a connection did not become one of TLS");
    accepted.map(SharedTls::new).map_err(failed).ok()
}

/// Serves a connection, plain or TLS, to its end. What reads and writes HTTP is there only while it is used.
async fn speak<S, P>(
    stream: S,
    watched: WatchedStream,
    mut guard: Guard,
    place: &ConnectionPlace,
    front: Arc<HttpFront<P>>,
) where
    P: Protocol,
    S: AsyncRead + AsyncWrite + Arrival + Unpin + Send + 'static,
{
    let progress = Arc::new(Progress::new(place.seat().clone()));
    let timeouts = front.service.settings.timeouts;
    let marks = front.service.marks.clone();
    let mut stream = TimedStream::new(stream, timeouts, progress.clone(), place.no_room(), marks);
    while has_spoken(&mut stream, &mut guard, place).await {
        let room = match place.room(AWAKE) {
            None => Box::pin(place.wait_for_room(AWAKE)).await,
            room => room,
        };
        stream.wake();
        let Some(_room) = room else {
            let text = "connections have taken the memory that they may take".to_owned();
            let words = refusal::words(
                &Error::OutOfBudget(text),
                &front.service.marks,
                progress.since_head(),
            );
            // Best effort: a client that does not read this sees the closed connection.
            let _ = Box::pin(stream.write_all(&words)).await;
            return;
        };
        let watch = Watch { watched: &watched, progress: &progress, place };
        // Boxed: a connection at rest does not carry it.
        match Box::pin(converse(stream, watch, &mut guard, &front)).await {
            Some(at_rest) => stream = at_rest,
            None => return,
        }
    }
}

/// Waits at rest until a connection says something; true also when the server closes, so that what is under way is
/// answered. False where the connection is to be closed.
async fn has_spoken<S>(
    stream: &mut TimedStream<S>,
    guard: &mut Guard,
    place: &ConnectionPlace,
) -> bool
where
    S: AsyncRead + Arrival + Unpin,
{
    tokio::select! {
        biased;
        has_arrived = stream.arrival() => has_arrived,
        () = guard.closing() => true,
        () = place.seat().evicted() => false,
    }
}

/// What is known of a connection beside its bytes.
#[derive(Clone, Copy)]
struct Watch<'c> {
    watched: &'c WatchedStream,
    progress: &'c Arc<Progress>,
    place: &'c ConnectionPlace,
}

/// Answers the requests of a connection until it ends, or is at rest: then it is returned. A peer that has sent its
/// last byte still gets its answer.
async fn converse<S, P>(
    stream: TimedStream<S>,
    watch: Watch<'_>,
    guard: &mut Guard,
    front: &Arc<HttpFront<P>>,
) -> Option<TimedStream<S>>
where
    P: Protocol,
    S: AsyncRead + AsyncWrite + Arrival + Unpin + Send + 'static,
{
    let Watch { watched, progress, place } = watch;
    let opened = Mutex::new(None);
    let ids = front.service.serving.request_ids.source();
    let memo = Arc::new(BodyMemo::default());
    let wakes = Arc::new(SelfWakes::default());
    let answer = service_fn(|request: Request<Incoming>| {
        let (opened, ids, memo, wakes) = (&opened, &ids, &memo, &wakes);
        async move {
            progress.busy();
            if request.extensions().get::<OnUpgrade>().is_some() {
                // hyper would end by giving the stream to whoever waits for an upgrade.
                progress.stay_for_good();
            }
            let _idle = IdleAtEnd(progress);
            let (parts, mut body) = request.into_parts();
            let Look { name, framing } = framing::look(parts.version, &parts.headers);
            let id = ids.name(name);
            let parts = Parts::of_connection(parts, id, memo);
            let mut response = match &framing {
                Ok(()) => {
                    // Interim replies came with HTTP/1.1.
                    let is_newest = parts.version == Version::HTTP_11;
                    let (mut response, was_woken) = {
                        let mut answer = pin!(front.answer(&parts, &mut body));
                        tokio::select! {
                            biased;
                            answered = wakes.keep(answer.as_mut()) => answered,
                            () = watched.departed(BEFORE_A_REPLY, || is_newest && !progress.is_writing()) => {
                                return Err(Departed);
                            }
                        }
                    };
                    if was_woken && !body.is_end_stream() {
                        self_wakes::wake().await;
                    }
                    answer::forget(&parts, body, &mut response);
                    response
                }
                Err(error) => ambiguous(&front.service, error),
            };
            if framing.is_err() || !front.service.serving.drain.is_serving() {
                // `connection: close` lets the client use another server in time; a connection that is cut off is an
                // error to it.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if response.extensions().get::<Unread>().is_some() {
                progress.stay();
            }
            if let Some(opening) = response.extensions_mut().remove::<Opening>() {
                watched.keep_little_unsent();
                *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(opening);
            }
            if response.body().is_coming() {
                watched.keep_little_unsent();
                // Its chunks came with HTTP/1.1, too.
                if parts.version == Version::HTTP_11 {
                    response.body_mut().keep_while_coming(progress.in_parts());
                }
            }
            let marks = &front.service.marks;
            Ok::<_, Departed>(marks.put(&parts, response, || progress.since_head()))
        }
    });
    // No `pipeline_flush`: it joins a reply's segments, keeps pipelined replies in memory without bound, and loses
    // the reply to a head that cannot be read.
    let mut builder = http1::Builder::new();
    builder.half_close(true);
    let connection = builder.serve_connection(TokioIo::new(stream), answer).with_upgrades();
    let mut connection = Woken::new(connection, wakes.clone());
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = left_in_the_middle(watched, progress) => {
            tracing::debug!("a client has left in the middle of an answer in parts");
            return None;
        }
        () = rest(progress) => {
            // hyper ends without a read if it waits for a head, and else at the end of what it is at.
            Pin::new(&mut connection.future).graceful_shutdown();
            match look(Pin::new(&mut connection)).await {
                Poll::Ready(Ok(())) if progress.is_at_rest() => {
                    let parts = connection.future.into_parts()?;
                    return Some(parts.io.into_inner().rest(parts.read_buf));
                }
                Poll::Ready(ended) => ended,
                Poll::Pending => {
                    progress.set_at_rest(false);
                    connection.await
                }
            }
        }
        () = place.seat().evicted() => {
            if progress.is_idle() {
                tracing::debug!("an idle connection makes room for another one");
                return None;
            }
            // A request came at the last moment. It is answered.
            progress.set_at_rest(false);
            Pin::new(&mut connection.future).graceful_shutdown();
            connection.await
        }
        () = guard.closing() => match last_requests(Pin::new(&mut connection), progress).await {
            Some(ended) => ended,
            None => {
                // A request in flight is answered; an idle connection closes now, and one with a part of a head.
                progress.set_at_rest(false);
                progress.wait_for_no_head();
                Pin::new(&mut connection.future).graceful_shutdown();
                connection.await
            }
        },
    };
    if let Err(error) = ended {
        // Clients come and go as they like: a debug line is enough.
        tracing::debug!(%error, "a connection ended early");
        return None;
    }
    let opening = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(opening) = opening {
        // A WebSocket has an idle timeout of its own.
        progress.busy();
        let Some(_room) = place.wait_for_room(OF_WEBSOCKET).await else {
            tracing::debug!("a WebSocket is closed: connections have no memory");
            return None;
        };
        // Boxed: no other connection carries it.
        Box::pin(websocket::serve(opening, front.clone(), guard)).await;
    }
    None
}

/// Waits until the client leaves while an answer in parts is on its way. The next part would tell, but may take long.
async fn left_in_the_middle(watched: &WatchedStream, progress: &Progress) {
    let mut watching = None;
    // Whoever begins such an answer, or ends it, does so in this task.
    poll_fn(|context| match progress.is_in_parts() {
        true => {
            let departed = || Box::pin(watched.departed(BETWEEN_CHUNKS, || !progress.is_writing()));
            watching.get_or_insert_with(departed).as_mut().poll(context)
        }
        false => {
            watching = None;
            Poll::Pending
        }
    })
    .await;
}

/// Waits until a connection is found to be at rest, which its own reads find.
async fn rest(progress: &Progress) {
    poll_fn(|_| match progress.is_at_rest() {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await
}

/// What a future has to say now.
async fn look<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
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
        if let Poll::Ready(ended) = look(connection.as_mut()).await {
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
    service.serving.metrics.http(Label::Other, response.status().as_u16());
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

    /// Of whose future only the size is asked.
    fn front<P: Protocol>() -> Arc<HttpFront<P>> {
        unreachable!()
    }

    fn size_of_future<A, B, F: Future>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_at_rest_is_small() {
        type Parts = (WatchedStream, Guard, &'static ConnectionPlace);
        let serving = size_of_future(serve::<()>);
        let speaking = size_of_future(|stream: SharedStream, parts: Parts| {
            let (watched, guard, place) = parts;
            speak(stream, watched, guard, place, front::<()>())
        });
        assert!(serving + speaking <= 1536, "{serving} and {speaking} bytes");
    }
}
