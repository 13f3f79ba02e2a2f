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

use super::{
    marks::Marks,
    progress::{Phase, Progress},
    unread_heads,
};
use crate::{
    exchange::intake::QUICK,
    net::{arrival::Arrival, footprint::ConnectionBytes},
    settings::limits::Timeouts,
};
use inference::yielding::{Holder, Yielding};

/// A connection without a request for so long is at rest. Most clients that are busy ask sooner, and pay nothing.
const REST_AFTER: Duration = Duration::from_secs(1);

/// Bytes that are read ahead, and of a head that is kept, within the room of a connection that is awake. Beyond that
/// room is taken first.
pub const FIRST_BUFFER: usize = 12 << 10;

/// Bytes that are read at a time where there is no room for more.
const LITTLE: usize = 4 << 10;

/// A stream, plain or TLS, whose reads and writes fail with [`io::ErrorKind::TimedOut`] when the peer is too slow.
pub struct TimedStream<S> {
    stream: S,
    timeouts: Timeouts,
    progress: Arc<Progress>,
    timer: Pin<Box<Sleep>>,
    /// When the present wait for the peer began: at the first byte of a head, or when the peer last sent anything.
    waiting_since: Instant,
    /// What has arrived of the next head.
    head: HeadProgress,
    /// When the peer last took a part of a reply that it has not taken completely.
    writing_since: Option<Instant>,
    /// The value of `progress` at the last look.
    seen: u32,
    /// What was read and not used before the last rest. It comes before all that is read.
    unread: Bytes,
    /// What is left of an answer that is written in the place of another one.
    instead: Bytes,
    /// Room for what is read ahead and kept, beyond [`FIRST_BUFFER`].
    room: ConnectionBytes,
    /// Bytes of the present request's head, which are kept until it is answered.
    kept: usize,
    reply: SlowReply,
    /// What a reply to a head that cannot be read carries.
    marks: Arc<Marks>,
}

/// A reply that its peer takes slowly gives way where others need its room.
#[derive(Debug, Default)]
struct SlowReply {
    /// When the peer let a part of it wait for the first time.
    since: Option<Instant>,
    /// Bytes that were to be written last, and those that have been.
    unsent: usize,
    sent: u64,
    holder: Option<Holder>,
}

impl SlowReply {
    /// Is it to end, as its peer has let it wait and others need its room? The task is woken when it is.
    fn gives_way(&mut self, among: &Arc<Yielding>, context: &mut Context<'_>) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.holder.is_none() && QUICK <= since.elapsed() {
            self.holder = Some(among.enter());
        }
        let Some(holder) = &self.holder else { return false };
        holder.note(self.unsent as u64, self.sent);
        holder.poll_asked(context).is_ready()
    }
}

/// What has arrived of a request's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadProgress {
    Nothing,
    /// Empty lines, which some clients send behind a body. They belong to no request.
    EmptyLines,
    ConnectionBytes,
}

impl HeadProgress {
    /// The same when that has come, too; nothing comes at the end.
    fn and(self, bytes: &[u8]) -> HeadProgress {
        match self {
            _ if bytes.is_empty() => HeadProgress::Nothing,
            HeadProgress::Nothing | HeadProgress::EmptyLines if bytes.iter().all(is_line_end) => {
                HeadProgress::EmptyLines
            }
            HeadProgress::Nothing | HeadProgress::EmptyLines | HeadProgress::ConnectionBytes => {
                HeadProgress::ConnectionBytes
            }
        }
    }
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

impl<S> TimedStream<S> {
    /// A stream with these timeouts, at rest. `room` may grow.
    pub fn new(
        stream: S,
        timeouts: Timeouts,
        progress: Arc<Progress>,
        room: ConnectionBytes,
        marks: Arc<Marks>,
    ) -> TimedStream<S> {
        TimedStream {
            stream,
            timeouts,
            progress,
            timer: Box::pin(tokio::time::sleep(timeouts.idle)),
            waiting_since: Instant::now(),
            head: HeadProgress::Nothing,
            writing_since: None,
            seen: 0,
            unread: Bytes::new(),
            instead: Bytes::new(),
            room,
            kept: 0,
            reply: SlowReply::default(),
            marks,
        }
    }

    /// The stream at rest, of which `unread` was read and is to be read again.
    pub fn rest(mut self, mut unread: Bytes) -> TimedStream<S> {
        // Empty lines behind a request are no part of the next one.
        let empty_lines = unread.iter().take_while(|it| is_line_end(it)).count();
        unread = unread.split_off(empty_lines);
        // Even where it is empty it may keep a whole buffer.
        self.unread = if unread.is_empty() { Bytes::new() } else { unread };
        self.room.shrink_to(self.unread.len());
        self.kept = 0;
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
            self.head = HeadProgress::Nothing;
            if self.progress.phase() == Phase::Idle {
                self.kept = 0;
            }
            if self.reply.since.is_some() && self.writing_since.is_none() {
                self.reply = SlowReply::default();
            }
        }
    }

    /// How many bytes may be read into a buffer that has room for `wanted`; `None` where there is no memory for them.
    fn allowance(&mut self, wanted: usize) -> Option<usize> {
        let needed = self.kept + wanted;
        let has_room = needed <= FIRST_BUFFER + self.room.bytes()
            || self.room.grow_to(needed.saturating_sub(FIRST_BUFFER));
        if has_room {
            return Some(wanted);
        }
        let left = (FIRST_BUFFER + self.room.bytes()).saturating_sub(self.kept);
        match self.progress.phase() {
            // What is read of a body goes on to where it is counted.
            Phase::Busy => Some(left.max(LITTLE).min(wanted)),
            Phase::Idle => Some(left.min(wanted)).filter(|it| 0 < *it),
        }
    }

    /// When the peer must have done something; `None` while the server has to act.
    fn due(&self, phase: Phase) -> Option<Instant> {
        if let Some(since) = self.writing_since {
            return Some(since + self.timeouts.stall);
        }
        match phase {
            Phase::Busy => None,
            Phase::Idle
                if self.head != HeadProgress::Nothing && self.progress.is_late_for_heads() =>
            {
                Some(self.waiting_since)
            }
            Phase::Idle if self.head == HeadProgress::ConnectionBytes => {
                Some(self.waiting_since + self.timeouts.head)
            }
            Phase::Idle => Some(self.waiting_since + self.timeouts.idle),
        }
    }

    /// When the connection is at rest if nothing happens; `None` while something is wanted of it.
    fn rests_at(&self) -> Option<Instant> {
        // Where empty lines were read, what reads HTTP holds them, and would not end.
        let is_wanted = self.head != HeadProgress::Nothing || self.writing_since.is_some();
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
            let Some(allowed) = self.allowance(buffer.remaining()) else {
                let text = "no memory is left for heads of requests";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, text)));
            };
            if allowed == buffer.remaining() {
                return Pin::new(&mut self.stream).poll_read(context, buffer);
            }
            let mut some = ReadBuf::new(buffer.initialize_unfilled_to(allowed));
            let outcome = Pin::new(&mut self.stream).poll_read(context, &mut some);
            let length = some.filled().len();
            buffer.advance(length);
            return outcome;
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
                if phase != Phase::Idle || self.head != HeadProgress::ConnectionBytes {
                    self.waiting_since = Instant::now();
                }
                let came = buffer.filled().get(before..).unwrap_or_default();
                match phase {
                    Phase::Idle => {
                        self.progress.head_came(self.waiting_since);
                        self.head = self.head.and(came);
                        self.kept += came.len();
                    }
                    Phase::Busy => self.head = HeadProgress::Nothing,
                }
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                if self.progress.is_last_look() {
                    let arriving =
                        self.head == HeadProgress::ConnectionBytes || self.stream.has_arrived();
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
        if self.reply.gives_way(self.room.footprint().yielding_bodies(), context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let soonest = self.soonest();
        self.check(context, soonest)?;
        Poll::Pending
    }

    /// So many bytes were to be written, with this outcome.
    fn sent(&mut self, all: usize, written: &Poll<io::Result<usize>>) {
        self.reply.unsent = all;
        if let Poll::Ready(Ok(written)) = written {
            self.reply.sent += *written as u64;
            if *written == all {
                self.reply.holder = None;
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> TimedStream<S> {
    /// Writes the answer that takes the place of a whole other one.
    fn poll_instead(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.instead);
            match self.wrote(context, written) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(length)) => drop(self.instead.split_to(length)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.instead = Bytes::new();
        Poll::Ready(Ok(()))
    }

    /// Is that a whole answer in whose place another one is written, or was it begun before?
    fn has_instead(&mut self, data: &[u8]) -> bool {
        if self.instead.is_empty()
            && let Some(words) = unread_heads::in_words(data, &self.marks, &self.progress)
        {
            self.instead = words;
        }
        !self.instead.is_empty()
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.has_instead(data) {
            return self.poll_instead(context).map_ok(|()| data.len());
        }
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.sent(data.len(), &written);
        self.wrote(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [first, rest @ ..] = data
            && rest.iter().all(|it| it.is_empty())
            && self.has_instead(first)
        {
            return self.poll_instead(context).map_ok(|()| first.len());
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, data);
        self.sent(data.iter().map(|it| it.len()).sum(), &written);
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
mod tests;
