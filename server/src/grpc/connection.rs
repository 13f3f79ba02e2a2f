//! One connection, from accept to close.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::{Request, body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    Grpc, call,
    watch::{Activity, Call, Patience, Verdict, Watch},
};
use crate::drain::Guard;

/// Bytes of one call that a peer may send before they are read, and of one frame: of a large tensor few frames are
/// made, and what a connection can pile up stays small.
const STREAM_WINDOW: u32 = 1 << 20;

/// Bytes of all calls of a connection that may wait to be read.
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Bytes of a request's metadata.
const METADATA: u32 = 16 << 10;

/// Bytes of one reply that may wait in the connection to be written.
const SEND_BUFFER: usize = 256 << 10;

/// A connection that is to end is kept for that long without calls: the next one may be under way.
const LAST_CALL: Duration = Duration::from_millis(500);

/// Serves a connection to its end. `stream` is whatever carries bytes: TCP, or TLS over it.
pub async fn serve<S>(stream: S, front: Arc<Grpc>, mut guard: Guard)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let _counted = front.serving.metrics.connection();
    let activity = Arc::new(Activity::default());
    let answer = service_fn(|request: Request<Incoming>| {
        let (front, call) = (front.clone(), Call::begin(activity.clone()));
        async move { Ok::<_, Infallible>(call::answer(front, call, request).await) }
    });
    let settings = &front.settings;
    let io = TokioIo::new(Heard { stream, activity: activity.clone() });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(STREAM_WINDOW)
        .max_concurrent_streams(settings.grpc.max_streams.get())
        .max_header_list_size(METADATA)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(settings.grpc.keepalive.time)
        .keep_alive_timeout(settings.grpc.keepalive.timeout)
        // Nobody looks at it.
        .auto_date_header(false)
        .serve_connection(io, answer);
    let mut connection = std::pin::pin!(connection);

    let patience = Patience {
        greeting: settings.patience.greeting,
        stall: settings.patience.stall,
        age: settings.grpc.age,
        last_call: LAST_CALL,
    };
    let mut watch = Watch::new(patience, Instant::now());
    let mut timer = std::pin::pin!(tokio::time::sleep_until(watch.first_look().into()));
    let mut closing = std::pin::pin!(guard.closing());
    let mut closes = false;
    let ended = loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => break ended,
            () = closing.as_mut(), if !closes => {
                closes = true;
                timer.as_mut().reset(watch.retire(Instant::now()).into());
                // The peer is told; calls in flight are answered.
                connection.as_mut().graceful_shutdown();
            }
            () = timer.as_mut() => match watch.look(&activity, Instant::now()) {
                Verdict::Keep(until) => timer.as_mut().reset(until.into()),
                Verdict::Retire(until) => {
                    connection.as_mut().graceful_shutdown();
                    timer.as_mut().reset(until.into());
                }
                Verdict::Drop(reason) => {
                    return tracing::debug!("a connection is closed: {reason}");
                }
            },
        }
    };
    if let Err(error) = ended {
        // Clients come and go as they like; that is no news.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A stream that says whether its peer has spoken at all.
struct Heard<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.activity.has_read(buffer.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
