//! A connection that gives up on slow peers: while it is idle, while a request's head arrives, and while a reply is
//! written. (Bodies have a pace of their own, see `exchange/intake.rs`.) It also says when the connection is at rest:
//! idle for so long that what reads and writes HTTP is not worth its memory.
//!
//! One timer per connection, moved only when it fires or when a rest ends: a busy connection pays for comparing two
//! times per read, not for the timer.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use super::progress::{Phase, Progress};
use crate::{net::arrival::Arrival, settings::limits::Timeouts};

/// A connection without a request for so long is at rest. Most clients that are busy ask sooner, and pay nothing.
const REST_AFTER: Duration = Duration::from_secs(1);

/// A stream, plain or TLS, whose reads and writes fail with [`io::ErrorKind::TimedOut`] when the peer is too slow.
pub struct TimedStream<S> {
    stream: S,
    timeouts: Timeouts,
    progress: Arc<Progress>,
    timer: Pin<Box<Sleep>>,
    /// When the present wait for the peer began: at the first byte of a head, or when the peer last sent anything.
    waiting_since: Instant,
    /// What has arrived of the next head.
    head: Head,
    /// When the peer last took a part of a reply that it has not taken completely.
    writing_since: Option<Instant>,
    /// The value of `progress` at the last look.
    seen: u32,
    /// What was read and not used before the last rest. It comes before all that is read.
    unread: Bytes,
}

/// What has arrived of a request's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    Nothing,
    /// Empty lines, which some clients send behind a body. They belong to no request.
    EmptyLines,
    Part,
}

impl Head {
    /// The same when that has come, too; nothing comes at the end.
    fn and(self, bytes: &[u8]) -> Head {
        match self {
            _ if bytes.is_empty() => Head::Nothing,
            Head::Nothing | Head::EmptyLines if bytes.iter().all(is_line_end) => Head::EmptyLines,
            Head::Nothing | Head::EmptyLines | Head::Part => Head::Part,
        }
    }
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

impl<S> TimedStream<S> {
    /// A stream with these timeouts, at rest.
    pub fn new(stream: S, timeouts: Timeouts, progress: Arc<Progress>) -> TimedStream<S> {
        TimedStream {
            stream,
            timeouts,
            progress,
            timer: Box::pin(tokio::time::sleep(timeouts.idle)),
            waiting_since: Instant::now(),
            head: Head::Nothing,
            writing_since: None,
            seen: 0,
            unread: Bytes::new(),
        }
    }

    /// The stream at rest, of which `unread` was read and is to be read again.
    pub fn rest(mut self, mut unread: Bytes) -> TimedStream<S> {
        // Empty lines behind a request are no part of the next one.
        let empty_lines = unread.iter().take_while(|it| is_line_end(it)).count();
        unread = unread.split_off(empty_lines);
        // Even where it is empty it may keep a whole buffer.
        self.unread = if unread.is_empty() { Bytes::new() } else { unread };
        self
    }

    /// Ends the rest. To be called before the stream is read.
    pub fn wake(&mut self) {
        self.progress.set_at_rest(false);
        self.waiting_since = Instant::now();
        let look = self.waiting_since + self.soonest();
        self.timer.as_mut().reset(look.into());
    }

    /// The shortest time after which a connection that is not at rest needs a look.
    fn soonest(&self) -> Duration {
        let Timeouts { idle, head, stall } = self.timeouts;
        idle.min(head).min(stall).min(REST_AFTER)
    }

    /// Restarts the wait when a request has begun or ended since the last look.
    fn notice(&mut self) {
        let progress = self.progress.changes();
        if progress != self.seen {
            self.seen = progress;
            self.waiting_since = Instant::now();
            self.head = Head::Nothing;
        }
    }

    /// When the peer must have done something; `None` while the server has to act.
    fn due(&self, phase: Phase) -> Option<Instant> {
        if let Some(since) = self.writing_since {
            return Some(since + self.timeouts.stall);
        }
        match phase {
            Phase::Busy => None,
            Phase::Idle if self.head != Head::Nothing && self.progress.is_late_for_heads() => {
                Some(self.waiting_since)
            }
            Phase::Idle if self.head == Head::Part => Some(self.waiting_since + self.timeouts.head),
            Phase::Idle => Some(self.waiting_since + self.timeouts.idle),
        }
    }

    /// When the connection is at rest if nothing happens; `None` while something is wanted of it.
    fn rests_at(&self) -> Option<Instant> {
        // Where empty lines were read, what reads HTTP holds them, and would not end.
        let is_wanted = self.head != Head::Nothing || self.writing_since.is_some();
        let may_rest = self.progress.may_rest() && !is_wanted;
        may_rest.then(|| self.waiting_since + REST_AFTER)
    }

    /// Fails when the time is over; otherwise makes sure that the task is woken by then, or when the connection is at
    /// rest. `soonest` is the shortest time after which anything could be due that is not yet.
    fn check(&mut self, context: &mut Context<'_>, soonest: Duration) -> io::Result<()> {
        loop {
            if self.timer.as_mut().poll(context).is_pending() {
                return Ok(());
            }
            let now = Instant::now();
            let (due, rests_at) = (self.due(self.progress.phase()), self.rests_at());
            if due.is_some_and(|it| it <= now) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if rests_at.is_some_and(|it| it <= now) {
                self.progress.set_at_rest(true);
            }
            // Nothing is due yet: the next look is at the earliest time at which something could be due.
            let rests_at = rests_at.filter(|it| now < *it);
            let next = [due, rests_at].into_iter().flatten().fold(now + soonest, Instant::min);
            self.timer.as_mut().reset(next.into());
        }
    }
}

impl<S: AsyncRead + Arrival + Unpin> TimedStream<S> {
    /// Waits, at rest, until there is something to read; false where that takes longer than a connection may be idle.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn arrival(&mut self) -> bool {
        poll_fn(|context| {
            if !self.unread.is_empty() || self.stream.poll_arrival(context).is_ready() {
                return Poll::Ready(true);
            }
            let most = self.timeouts.idle;
            match self.check(context, most) {
                Ok(()) => Poll::Pending,
                Err(_) => Poll::Ready(false),
            }
        })
        .await
    }

    fn poll_unread(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let length = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread.split_to(length));
        if self.unread.is_empty() {
            self.unread = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Arrival + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.notice();
        self.progress.set_at_rest(false);
        let before = buffer.filled().len();
        match self.poll_unread(context, buffer) {
            Poll::Ready(outcome) => {
                let phase = self.progress.phase();
                if phase != Phase::Idle || self.head != Head::Part {
                    self.waiting_since = Instant::now();
                }
                let came = buffer.filled().get(before..).unwrap_or_default();
                self.head = match phase {
                    Phase::Idle => self.head.and(came),
                    Phase::Busy => Head::Nothing,
                };
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                if self.progress.is_last_look() {
                    let arriving = self.head == Head::Part || self.stream.has_arrived();
                    self.progress.set_arriving(arriving);
                }
                let soonest = self.soonest();
                match self.check(context, soonest) {
                    Ok(()) => Poll::Pending,
                    Err(error) => Poll::Ready(Err(error)),
                }
            }
        }
    }
}

impl<S> TimedStream<S> {
    /// Passes on the outcome of writing, flushing or shutting down; an error where the peer has let it wait for too
    /// long.
    fn wrote<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.writing_since.take().is_some() {
                // A peer that has just taken a part of a reply was not idle in that time.
                self.waiting_since = Instant::now();
                self.progress.writing(false);
            }
            return outcome;
        }
        if self.writing_since.is_none() {
            self.writing_since = Some(Instant::now());
            self.progress.writing(true);
        }
        let soonest = self.soonest();
        self.check(context, soonest)?;
        Poll::Pending
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.wrote(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, data);
        self.wrote(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS buffers a part of a reply before the peer takes it, so the wait shows in the flush.
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.wrote(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.progress.is_at_rest() {
            // What read and wrote the stream ends, and not the stream.
            return Poll::Ready(Ok(()));
        }
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wrote(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::places::Seat;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    fn progress() -> Arc<Progress> {
        let seat = Seat::new([127, 0, 0, 1].into(), Instant::now());
        Arc::new(Progress::new(Arc::new(seat)))
    }

    /// The server's end of a connection with these timeouts, and the client's end.
    async fn connection(idle: u64, head: u64, stall: u64) -> (TimedStream<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let [idle, head, stall] = [idle, head, stall].map(Duration::from_millis);
        let timeouts = Timeouts { idle, head, stall };
        let mut stream = TimedStream::new(stream, timeouts, progress());
        stream.wake();
        (stream, client)
    }

    async fn byte(stream: &mut TimedStream<TcpStream>) -> io::Result<u8> {
        stream.read_u8().await
    }

    fn is_timeout<T>(outcome: &io::Result<T>) -> bool {
        matches!(outcome, Err(error) if error.kind() == io::ErrorKind::TimedOut)
    }

    #[tokio::test]
    async fn a_silent_peer_is_given_up_after_the_idle_time_and_not_before() {
        let (mut stream, _client) = connection(100, 10, 10).await;
        let started = Instant::now();
        assert!(is_timeout(&byte(&mut stream).await));
        assert!(started.elapsed() >= Duration::from_millis(100));
    }

    #[tokio::test]
    async fn a_head_has_its_time_from_its_first_byte_however_it_trickles() {
        let (mut stream, mut client) = connection(60_000, 100, 60_000).await;
        let trickle = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let started = Instant::now();
        while byte(&mut stream).await.is_ok() {}
        assert!(started.elapsed() >= Duration::from_millis(100));
        drop(stream);
        trickle.await.unwrap();
    }

    #[tokio::test]
    async fn while_a_request_is_worked_on_the_peer_may_be_silent() {
        let (mut stream, mut client) = connection(10, 10, 10).await;
        stream.progress.busy();
        let silence = tokio::time::timeout(Duration::from_millis(100), byte(&mut stream)).await;
        assert!(silence.is_err());
        stream.progress.idle();
        client.write_all(b"x").await.unwrap();
        assert_eq!(byte(&mut stream).await.unwrap(), b'x');
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_of_a_reply_is_given_up() {
        let (mut stream, _client) = connection(60_000, 60_000, 50).await;
        assert!(is_timeout(&stream.write_all(&vec![0; 64 << 20]).await));
    }

    #[tokio::test]
    async fn at_the_last_look_bytes_that_only_the_kernel_has_are_a_request_on_its_way() {
        let (mut stream, client) = connection(60_000, 60_000, 60_000).await;
        stream.progress.last_look();
        let mut look = || {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            let mut context = Context::from_waker(std::task::Waker::noop());
            let read = Pin::new(&mut stream).poll_read(&mut context, &mut buffer);
            (read.is_pending(), stream.progress.is_arriving())
        };
        assert_eq!(look(), (true, false));
        // Without a turn of the runtime, which does not know of them then.
        client.try_write(b"G").unwrap();
        assert_eq!(look(), (true, true));
        client.writable().await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!look().0);
        // A head that has begun is one, too.
        assert_eq!(look(), (true, true));
    }

    /// Accepts all bytes, as TLS does up to a bound, but never finishes a flush.
    struct Full;

    impl AsyncWrite for Full {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(data.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn what_is_buffered_must_be_taken_in_time_too() {
        let long = Duration::from_secs(60);
        let timeouts = Timeouts { idle: long, head: long, stall: Duration::from_millis(50) };
        let stream = || {
            let mut stream = TimedStream::new(Full, timeouts, progress());
            stream.wake();
            stream
        };
        let mut flushed = stream();
        flushed.write_all(b"reply").await.unwrap();
        assert!(is_timeout(&flushed.flush().await));
        assert!(is_timeout(&stream().shutdown().await));
    }

    #[tokio::test]
    async fn a_connection_is_idle_when_its_reply_has_been_written() {
        let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
        let progress = stream.progress.clone();
        progress.busy();
        progress.idle();
        let reply = vec![0; 64 << 20];
        let write = tokio::spawn(async move { stream.write_all(&reply).await.map(|()| stream) });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!progress.is_idle());
        client.read_exact(&mut vec![0; 64 << 20]).await.unwrap();
        write.await.unwrap().unwrap();
        assert!(progress.is_idle());
    }

    #[tokio::test]
    async fn a_peer_that_is_slow_to_take_a_reply_is_idle_only_after_that() {
        let slow = Duration::from_millis(50);
        let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
        let started = Instant::now();
        let reader = tokio::spawn(async move {
            tokio::time::sleep(slow).await;
            client.read_exact(&mut vec![0; 16 << 20]).await.unwrap();
            client
        });
        stream.write_all(&vec![0; 16 << 20]).await.unwrap();
        reader.await.unwrap();
        assert!(stream.waiting_since >= started + slow);
    }

    #[tokio::test]
    async fn what_was_read_before_a_rest_comes_first_and_none_of_it_is_kept() {
        let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
        stream = stream.rest(Bytes::from_static(b"GE"));
        assert!(stream.arrival().await);
        client.write_all(b"T").await.unwrap();
        let mut read = [0; 3];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"GET");
        assert!(stream.unread.is_empty());
    }

    #[tokio::test]
    async fn a_connection_is_at_rest_once_nothing_was_asked_for_long_enough() {
        let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
        let progress = stream.progress.clone();
        let began = Instant::now();
        poll_fn(|context| {
            let read = Pin::new(&mut stream).poll_read(context, &mut ReadBuf::new(&mut [0]));
            assert!(read.is_pending());
            if progress.is_at_rest() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert!(REST_AFTER <= began.elapsed());
        // It is not shut down by what ends with the rest.
        stream.shutdown().await.unwrap();
        client.write_all(b"G").await.unwrap();
        assert!(stream.arrival().await);
        assert_eq!(byte(&mut stream).await.unwrap(), b'G');
        assert!(!progress.is_at_rest());
        // A head that has begun is no rest.
        assert_eq!(stream.rests_at(), None);
    }

    #[tokio::test]
    async fn empty_lines_between_requests_begin_no_head() {
        let (mut stream, mut client) = connection(60_000, 50, 60_000).await;
        client.write_all(b"\r\n").await.unwrap();
        assert_eq!(byte(&mut stream).await.unwrap(), b'\r');
        assert_eq!(byte(&mut stream).await.unwrap(), b'\n');
        let silence = tokio::time::timeout(Duration::from_millis(200), byte(&mut stream)).await;
        assert!(silence.is_err());
        assert!(stream.rests_at().is_none());
        // Those that were read and not used are dropped, and what stands behind them is not.
        let mut stream = stream.rest(Bytes::from_static(b"\r\n\n\rG\r"));
        assert_eq!(byte(&mut stream).await.unwrap(), b'G');
        assert_eq!(byte(&mut stream).await.unwrap(), b'\r');
        assert!(is_timeout(&byte(&mut stream).await));
    }

    #[tokio::test]
    async fn once_no_head_is_waited_for_a_part_of_one_ends_the_connection_and_a_request_does_not() {
        let (mut stream, mut client) = connection(60_000, 60_000, 60_000).await;
        stream.progress.busy();
        client.write_all(b"x").await.unwrap();
        assert_eq!(byte(&mut stream).await.unwrap(), b'x');
        stream.progress.wait_for_no_head();
        let silence = tokio::time::timeout(Duration::from_millis(1200), byte(&mut stream)).await;
        assert!(silence.is_err());
        stream.progress.idle();
        client.write_all(b"\nG").await.unwrap();
        assert_eq!(byte(&mut stream).await.unwrap(), b'\n');
        assert_eq!(byte(&mut stream).await.unwrap(), b'G');
        assert!(is_timeout(&byte(&mut stream).await));
    }

    #[tokio::test]
    async fn a_connection_at_rest_is_given_up_after_the_idle_time() {
        let began = Instant::now();
        let (mut stream, _client) = connection(1200, 60_000, 60_000).await;
        assert!(!stream.arrival().await);
        assert!(Duration::from_millis(1200) <= began.elapsed());
    }
}
