//! A connection that gives up on slow peers: while it is idle, while a request's head arrives, and while a reply is
//! written. (Bodies have a pace of their own, see `exchange/intake.rs`.)
//!
//! One timer per connection, moved only when it fires: a busy connection pays for comparing two times per read, not
//! for the timer.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use crate::{
    net::{arrival::Arrival, places::Seat},
    settings::limits::Timeouts,
};

/// The phase of a connection, which decides its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Phase {
    /// Between requests.
    Idle = 0,
    /// A request is being read or worked on.
    Busy = 1,
}

/// The phase of a connection, set by its requests. Shared by the connection and its service.
///
/// The lowest bit is the phase, the other bits count the changes. Because of the count, a request that came and was
/// answered between two looks is noticed, too.
#[derive(Debug)]
pub struct Progress {
    changes: AtomicU32,
    /// Is the connection about to be closed?
    is_last_look: AtomicBool,
    /// Had a part of a request arrived when nothing more could be read?
    arriving: AtomicBool,
    /// Does a part of a reply wait to be written?
    is_writing: AtomicBool,
    /// The place of the connection among all, which must know whether a request is in flight.
    seat: Arc<Seat>,
}

impl Progress {
    /// The progress of an idle connection.
    pub fn new(seat: Arc<Seat>) -> Progress {
        Progress {
            changes: AtomicU32::default(),
            is_last_look: AtomicBool::default(),
            arriving: AtomicBool::default(),
            is_writing: AtomicBool::default(),
            seat,
        }
    }

    /// The head of a request has arrived.
    pub fn busy(&self) {
        self.change(Phase::Busy);
        self.seat.busy();
    }

    /// The request is answered.
    pub fn idle(&self) {
        self.change(Phase::Idle);
        self.seat.idle();
    }

    /// From now on each read that waits notes whether a part of a request is there.
    pub fn last_look(&self) {
        self.is_last_look.store(true, Ordering::Relaxed);
    }

    /// Was a part of a request there at the last read, be it in the kernel alone?
    pub fn is_arriving(&self) -> bool {
        self.arriving.load(Ordering::Relaxed)
    }

    fn change(&self, phase: Phase) {
        // Only the connection's own task writes, so load and store need not be one operation.
        let changes = self.changes.load(Ordering::Relaxed) >> 1;
        self.changes.store(changes.wrapping_add(1) << 1 | phase as u32, Ordering::Relaxed);
    }

    /// Does a part of a reply wait to be written?
    pub fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }

    /// A part of a reply waits to be written, or has been.
    fn writing(&self, waits: bool) {
        self.is_writing.store(waits, Ordering::Relaxed);
        match waits {
            true => self.seat.busy(),
            false if self.phase() == Phase::Idle => self.seat.idle(),
            false => {}
        }
    }

    /// Is no request in flight?
    pub fn is_idle(&self) -> bool {
        self.seat.is_idle()
    }

    fn phase(&self) -> Phase {
        match self.changes.load(Ordering::Relaxed) & 1 {
            0 => Phase::Idle,
            _ => Phase::Busy,
        }
    }
}

/// A stream, plain or TLS, whose reads and writes fail with [`io::ErrorKind::TimedOut`] when the peer is too slow.
pub struct TimedStream<S> {
    stream: S,
    timeouts: Timeouts,
    progress: Arc<Progress>,
    timer: Pin<Box<Sleep>>,
    /// When the present wait for the peer began: at the first byte of a head, or when the peer last sent anything.
    waiting_since: Instant,
    /// Has a part of a head arrived?
    in_head: bool,
    /// When the peer last took a part of a reply that it has not taken completely.
    writing_since: Option<Instant>,
    /// The value of `progress` at the last look.
    seen: u32,
}

impl<S> TimedStream<S> {
    /// A stream with these timeouts.
    pub fn new(stream: S, timeouts: Timeouts, progress: Arc<Progress>) -> TimedStream<S> {
        TimedStream {
            stream,
            timeouts,
            progress,
            timer: Box::pin(tokio::time::sleep(timeouts.head.min(timeouts.stall))),
            waiting_since: Instant::now(),
            in_head: false,
            writing_since: None,
            seen: 0,
        }
    }

    /// Restarts the wait when a request has begun or ended since the last look.
    fn notice(&mut self) {
        let progress = self.progress.changes.load(Ordering::Relaxed);
        if progress != self.seen {
            self.seen = progress;
            self.waiting_since = Instant::now();
            self.in_head = false;
        }
    }

    /// When the peer must have done something; `None` while the server has to act.
    fn due(&self, phase: Phase) -> Option<Instant> {
        if let Some(since) = self.writing_since {
            return Some(since + self.timeouts.stall);
        }
        match phase {
            Phase::Busy => None,
            Phase::Idle if self.in_head => Some(self.waiting_since + self.timeouts.head),
            Phase::Idle => Some(self.waiting_since + self.timeouts.idle),
        }
    }

    /// Fails when the time is over; otherwise makes sure that the task is woken by then.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        loop {
            if self.timer.as_mut().poll(context).is_pending() {
                return Ok(());
            }
            let now = Instant::now();
            let due = self.due(self.progress.phase());
            if due.is_some_and(|it| it <= now) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Nothing is due yet: the next look is at the earliest time at which something could be due.
            let soonest = self.timeouts.head.min(self.timeouts.stall).min(self.timeouts.idle);
            let next = due.map_or(now + soonest, |it| it.min(now + soonest));
            self.timer.as_mut().reset(next.into());
        }
    }
}

impl<S: AsyncRead + Arrival + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.notice();
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(outcome) => {
                let phase = self.progress.phase();
                if phase != Phase::Idle || !self.in_head {
                    self.waiting_since = Instant::now();
                }
                self.in_head = phase == Phase::Idle && before < buffer.filled().len();
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                if self.progress.is_last_look.load(Ordering::Relaxed) {
                    let arriving = self.in_head || self.stream.has_arrived();
                    self.progress.arriving.store(arriving, Ordering::Relaxed);
                }
                match self.check(context) {
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
        self.check(context)?;
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
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wrote(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
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
        (TimedStream::new(stream, timeouts, progress()), client)
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
        let stream = || TimedStream::new(Full, timeouts, progress());
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
}
