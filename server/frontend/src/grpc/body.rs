//! The body of a reply: one message, or answers in the order of their requests, and the status behind them. Answers of
//! many messages are not in that order: each of their messages is sent as it comes.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::Bytes;
use h2::{SendStream, server::SendResponse};
use hyper::{HeaderMap, Response};
use tokio::{sync::mpsc, time::Sleep};

use super::{
    status::Status,
    watch::{Activity, Call},
};
use crate::{
    exchange::{intake::QUICK, rendering::Code},
    net::Task,
};
use inference::{
    error::Error,
    limits::Permit,
    messages::DEADLINE_EXCEEDED,
    trace::Sending,
    yielding::{Holder, Yielding},
};
use telemetry::metrics::Metrics;

/// Most bytes that h2 is given at once. This bounds what a peer that does not read can keep in h2.
const CHUNK: usize = 64 << 10;

/// A reply up to that size is not counted while it is being written, as the buffers of a connection are not.
const SMALL: usize = 4 << 10;

/// An encoded message in pieces, with the permit for what lies in them.
#[derive(Debug, Default)]
pub struct Encoded {
    /// Written as they are, without being joined.
    pub pieces: VecDeque<Bytes>,
    /// Lives until the last piece is written.
    pub permit: Option<Permit>,
    /// Notes in the trace when the message has left, where its request is traced.
    pub sending: Option<Sending>,
}

impl Encoded {
    /// Lets the last piece hold the permit and count as activity of the connection until it is written. Returns among
    /// whom the message gives way, where it holds anything.
    fn hold(&mut self, activity: &Arc<Activity>) -> Option<Arc<Yielding>> {
        let permit = self.permit.take()?;
        if self.unsent() <= SMALL {
            return None;
        }
        let yielding = permit.budget().yielding().clone();
        if let Some(bytes) = self.pieces.pop_back() {
            activity.blocked(true);
            let sending = self.sending.take();
            let activity = activity.clone();
            let held = Held { bytes, _permit: permit, _sending: sending, activity };
            self.pieces.push_back(Bytes::from_owner(held));
        }
        Some(yielding)
    }

    /// Bytes that h2 was not given yet.
    fn unsent(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

/// A message that its peer takes slowly gives way where others need its room.
#[derive(Debug, Default)]
struct SlowMessage {
    among: Option<Arc<Yielding>>,
    /// When the peer let a part of it wait for the first time.
    since: Option<Instant>,
    sent: u64,
    holder: Option<Holder>,
}

impl SlowMessage {
    /// Is it to end, as its peer lets it wait and others need its room? The task is woken when it is.
    fn gives_way(&mut self, unsent: usize, context: &mut Context<'_>) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        if let (None, Some(among)) = (&self.holder, &self.among)
            && QUICK <= since.elapsed()
        {
            self.holder = Some(among.enter());
        }
        let Some(holder) = &self.holder else { return false };
        holder.note(unsent as u64, self.sent);
        holder.poll_asked(context).is_ready()
    }

    /// When to look at it for the first time.
    fn first_look(&self) -> Option<Instant> {
        self.since.filter(|_| self.holder.is_none() && self.among.is_some()).map(|it| it + QUICK)
    }
}

/// The last piece of a message, the permit for the whole message, and the counters that the connection's watch reads.
struct Held {
    bytes: Bytes,
    _permit: Permit,
    _sending: Option<Sending>,
    activity: Arc<Activity>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.activity.moved();
        self.activity.blocked(false);
    }
}

/// The messages of one answer, as they are made.
pub trait Several: Send {
    /// The next message; `None` behind the last. `Err` ends the stream.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Encoded, Status>>>;
}

impl std::fmt::Debug for dyn Several {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Several")
    }
}

/// One answer on a stream, or its end.
#[derive(Debug)]
pub enum Answer {
    /// A message.
    Message(Encoded),
    /// A message that is still being made; the answers behind wait for it. `Err` ends the stream.
    Later(Task<Result<Encoded, Status>>),
    /// Any number of messages. The answers behind do not wait for them.
    Several(Box<dyn Several>),
    /// The end, once all messages have been sent.
    End(Status),
}

/// Answers as they come, and the task that makes them.
pub struct Answers {
    queue: mpsc::Receiver<Answer>,
    /// The answer that is next and not ready yet.
    next: Option<Task<Result<Encoded, Status>>>,
    /// Answers of several messages that have begun. A message of theirs is made when there is room for it.
    open: VecDeque<Box<dyn Several>>,
    /// So many of them are sent side by side.
    most_open: usize,
    /// The end, which comes behind them.
    end: Option<Status>,
    /// The task ends with the reply.
    _reader: Task<()>,
    metrics: Metrics,
    /// The end of the time that the client gives the call.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Answers {
    /// Sends the answers that `reader` puts into `queue`, in their order. At the queue's bound the reader waits. The
    /// status of the end is counted in `metrics`.
    pub fn new(queue: mpsc::Receiver<Answer>, reader: Task<()>, metrics: Metrics) -> Answers {
        let most_open = queue.max_capacity();
        let (next, open, end, deadline) = Default::default();
        Answers { queue, next, open, most_open, end, _reader: reader, metrics, deadline }
    }

    /// The same, which end at that time: nobody waits for an answer after it, nor for an error of one request.
    pub fn until(self, deadline: Option<Instant>) -> Answers {
        let timer = |it: Instant| Box::pin(tokio::time::sleep_until(it.into()));
        Answers { deadline: deadline.map(timer), ..self }
    }

    /// Is it over? The task is woken when it is.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|it| {
            // Timers fire up to a millisecond late, and answers that fail at that time do not.
            it.deadline().into_std() <= Instant::now() || it.as_mut().poll(context).is_ready()
        })
    }

    /// The next message, or the end.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Encoded, Status>> {
        if self.is_late(context) {
            let text =
                format!("{DEADLINE_EXCEEDED}: the time of the stream was over before its end");
            let code = Code::DeadlineExceeded;
            return Poll::Ready(Err(Status { code, text, retry_after_ms: None }));
        }
        loop {
            // First: answers of several messages may always have one.
            match self.poll_in_order(context) {
                Poll::Ready(Some(message)) => return Poll::Ready(message),
                Poll::Ready(None) => continue,
                Poll::Pending => {}
            }
            let open = self.open.len();
            if let Some(message) = self.poll_open(context) {
                return Poll::Ready(message);
            }
            match &self.end {
                Some(end) if self.open.is_empty() => return Poll::Ready(Err(end.clone())),
                // There is room for another one.
                None if self.open.len() < open => {}
                Some(_) | None => return Poll::Pending,
            }
        }
    }

    /// The next answer of the queue, as far as it is one message; `None` where it is another one, which is taken in.
    fn poll_in_order(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Encoded, Status>>> {
        let lost = || Err(Status::of(&Error::Internal("an answer was lost".to_owned())));
        if let Some(task) = &mut self.next {
            let answer = ready!(Pin::new(task).poll(context));
            self.next = None;
            return Poll::Ready(Some(answer.unwrap_or_else(|error| Err(Status::of(&error)))));
        }
        if self.end.is_some() || self.most_open <= self.open.len() {
            return Poll::Pending;
        }
        match ready!(self.queue.poll_recv(context)) {
            Some(Answer::Message(encoded)) => return Poll::Ready(Some(Ok(encoded))),
            Some(Answer::Later(task)) => self.next = Some(task),
            Some(Answer::Several(several)) => self.open.push_back(several),
            Some(Answer::End(status)) => match status.code {
                // What has begun may end.
                Code::Ok | Code::Unavailable => self.end = Some(status),
                _ => return Poll::Ready(Some(Err(status))),
            },
            None => return Poll::Ready(Some(lost())),
        }
        Poll::Ready(None)
    }

    /// A message of an answer of several that is ready. Each of them has its turn.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Option<Result<Encoded, Status>> {
        for _ in 0..self.open.len() {
            let mut several = self.open.pop_front()?;
            match several.poll_next(context) {
                Poll::Ready(Some(message)) => {
                    self.open.push_back(several);
                    return Some(message);
                }
                Poll::Ready(None) => {}
                Poll::Pending => self.open.push_back(several),
            }
        }
        None
    }
}

enum Source {
    One,
    Many(Box<Answers>),
}

/// The body of a reply.
pub struct Reply {
    source: Source,
    now: Encoded,
    end: Option<Status>,
    call: Call,
    /// Since when a piece waits for the peer to take it; `None` where none does.
    blocked: Option<Instant>,
    /// Wakes the reply when the peer has let it wait for too long. Made when it waits for the first time, and moved
    /// only when it fires.
    timer: Option<Pin<Box<Sleep>>>,
    slow: SlowMessage,
}

impl Reply {
    /// One message and a status of [`Status::OK`].
    pub fn message(encoded: Encoded, call: Call) -> Reply {
        Reply::new(Source::One, encoded, Some(Status::OK), call)
    }

    /// Messages and a status, as many messages as `answers` gives.
    pub fn stream(answers: Answers, call: Call) -> Reply {
        Reply::new(Source::Many(Box::new(answers)), Encoded::default(), None, call)
    }

    /// No message: the head carries the status.
    pub fn nothing(call: Call) -> Reply {
        Reply::new(Source::One, Encoded::default(), None, call)
    }

    fn new(source: Source, mut now: Encoded, end: Option<Status>, call: Call) -> Reply {
        let slow = SlowMessage { among: now.hold(call.activity()), ..SlowMessage::default() };
        Reply { source, now, end, call, blocked: None, timer: None, slow }
    }

    /// Fetches the next message into `now`, or the end into `end`.
    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Source::Many(answers) = &mut self.source else { return Poll::Ready(()) };
        match ready!(answers.poll(context)) {
            Ok(mut encoded) => {
                let among = encoded.hold(self.call.activity());
                self.slow = SlowMessage { among, ..SlowMessage::default() };
                self.now = encoded;
            }
            Err(status) => {
                answers.metrics.grpc(status.code as u8);
                self.end = Some(status);
                // Answers that are still being made are of no use after the end.
                self.source = Source::One;
            }
        }
        Poll::Ready(())
    }

    fn mark(&mut self, blocked: bool) {
        if self.blocked.is_some() != blocked {
            self.call.activity().blocked(blocked);
            self.blocked = blocked.then(Instant::now);
        }
    }

    /// Waits until the peer has taken nothing of this reply for too long. Other replies of its connection do not count:
    /// a peer that reads one of them may leave the others in memory for ever. Also ready where it has to give way.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(since) = self.blocked else { return Poll::Pending };
        let due = since + self.call.activity().stall();
        loop {
            if self.slow.gives_way(self.now.unsent(), context) {
                return Poll::Ready(());
            }
            let look = self.slow.first_look().map_or(due, |it| it.min(due));
            let timer = || Box::pin(tokio::time::sleep_until(look.into()));
            let timer = self.timer.get_or_insert_with(timer);
            if look < timer.deadline().into_std() {
                timer.as_mut().reset(look.into());
            }
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(look.max(Instant::now()).into());
        }
    }
}

impl Reply {
    /// Sends `head`, and then the messages as fast as the peer takes them.
    ///
    /// # Errors
    /// When the peer has cancelled the call or left, or takes nothing of the reply for too long.
    // An `async fn` would copy its parameters once more, which are large.
    #[allow(clippy::manual_async_fn)]
    pub fn send(
        mut self,
        head: Response<()>,
        mut respond: SendResponse<Bytes>,
    ) -> impl Future<Output = Result<(), h2::Error>> + Send {
        async move {
            let nothing = matches!(self.source, Source::One) && self.end.is_none();
            let mut stream = respond.send_response(head, nothing)?;
            match nothing {
                true => Ok(()),
                false => poll_fn(|context| self.poll_send(&mut stream, context)).await,
            }
        }
    }

    fn poll_send(
        &mut self,
        stream: &mut SendStream<Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), h2::Error>> {
        loop {
            if !self.now.pieces.is_empty() {
                ready!(self.poll_room(stream, context))?;
            }
            if let Some(mut piece) = self.now.pieces.pop_front() {
                if CHUNK < piece.len() {
                    let rest = piece.split_off(CHUNK);
                    self.now.pieces.push_front(rest);
                }
                if self.timer.is_some() && self.now.pieces.is_empty() {
                    // h2 keeps the end of a reply until the peer takes it: not with all that was in front of it.
                    piece = Bytes::copy_from_slice(&piece);
                }
                self.call.activity().moved();
                self.slow.sent += piece.len() as u64;
                stream.send_data(piece, false)?;
            } else if let Some(status) = self.end.take() {
                let mut trailers = HeaderMap::with_capacity(1);
                status.write(&mut trailers);
                return Poll::Ready(stream.send_trailers(trailers));
            } else if self.poll_answer(context).is_pending() {
                return stream.poll_reset(context).map(|reset| Err(reset?.into()));
            }
        }
    }

    /// Waits until the peer takes more. It reserves one byte only, because h2 withholds from other calls of the
    /// connection what it reserves for one.
    fn poll_room(
        &mut self,
        stream: &mut SendStream<Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), h2::Error>> {
        stream.reserve_capacity(1);
        while stream.capacity() == 0 {
            self.mark(true);
            match stream.poll_capacity(context) {
                Poll::Ready(Some(room)) => drop(room?),
                Poll::Ready(None) => return Poll::Ready(Err(h2::Reason::CANCEL.into())),
                Poll::Pending => {
                    ready!(self.poll_stalled(context));
                    stream.send_reset(h2::Reason::CANCEL);
                    return Poll::Ready(Err(h2::Reason::CANCEL.into()));
                }
            }
        }
        self.mark(false);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.mark(false);
    }
}
