//! A session over a WebSocket: each message is a request to `/invocations`. Each answer is a message, or one for each
//! of its parts, in the order of the requests.
//!
//! The protocol is implemented by hand: a library would allocate the memory that a frame announces before the budget
//! could refuse it, and would copy each reply into a buffer of its own.

mod close;
pub mod frame;
mod queue;
pub mod reader;

use std::{
    future::poll_fn,
    io,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::{
    Response,
    header::{CONTENT_TYPE, HeaderValue},
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Sleep, timeout},
};

use super::{HttpFront, body::Segments, parts::Parts, protocol::Protocol, service::Service};
use crate::{
    drain::Guard,
    exchange::intake::{QUICK, Received},
};
pub use close::Close;
use frame::Opcode;
use inference::{error::Error, yielding::Holder};
use queue::Queue;
use reader::{Event, Kind, MessageReader};

/// Requests of a connection that run at the same time. A further request waits, and nothing is read behind it.
const MOST_AT_ONCE: usize = 8;

/// A reply up to that size is written with its header, in one piece.
const SMALL: usize = 4 << 10;

/// How long a peer may take to read the close frame and to close.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A WebSocket that was agreed upon.
#[derive(Clone)]
pub struct Opening {
    /// The connection, once the answer to its request is written.
    pub upgrade: OnUpgrade,
    /// The head of that request, which each message gets.
    pub parts: Arc<Parts>,
    /// Does each message depend on the state after the one before it? Then they run one at a time.
    pub is_in_order: bool,
}

/// Serves a session until the peer or the server ends it.
pub async fn serve<P: Protocol>(opening: Opening, front: Arc<HttpFront<P>>, guard: &mut Guard) {
    let stream = match opening.upgrade.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return tracing::debug!(%error, "a connection did not become a WebSocket"),
    };
    let most = if opening.is_in_order { 1 } else { MOST_AT_ONCE };
    let reader = MessageReader::new(front.service.settings.body.clone());
    let now = Instant::now();
    let mut session = Session {
        stream,
        reader,
        queue: Queue::new(most),
        in_parts: None,
        pending: None,
        close: None,
        heard: now,
        since: None,
        holder: None,
        parts: opening.parts,
        front,
    };
    let ended = match session.run(guard).await {
        Ok(close) => session.close(&close).await,
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        // Clients come and go as they like: a debug line is enough.
        tracing::debug!(%error, "a WebSocket ended early");
    }
}

/// A session over one WebSocket.
struct Session<P> {
    stream: TokioIo<Upgraded>,
    reader: MessageReader,
    /// Requests that run, and answers that are not written yet.
    queue: Queue<Response<Segments>>,
    /// The answer whose parts are being written.
    in_parts: Option<InParts>,
    /// A message that the queue has no room for, or why the message was refused.
    pending: Option<(Kind, Result<Received, Error>)>,
    /// Once set, no message is taken any more. The frame is sent when all requests are answered.
    close: Option<Close>,
    /// When the peer last sent anything, or was last sent an answer.
    heard: Instant,
    /// When the unfinished message began.
    since: Option<Instant>,
    /// What that message is among those who give way, once it takes long.
    holder: Option<Holder>,
    parts: Arc<Parts>,
    front: Arc<HttpFront<P>>,
}

/// An answer in parts, the first of which is written.
struct InParts {
    /// What the first part was.
    opcode: Opcode,
    /// It has the others.
    body: Segments,
}

/// The next step of a session.
// A large variant costs nothing: a step is matched where it is made.
#[allow(clippy::large_enum_variant)]
enum Step {
    /// That many bytes were read.
    Read(usize),
    /// Write an answer.
    Answer(Kind, Result<Response<Segments>, Error>),
    /// Write a part of an answer, or the error that ends it; or it has ended.
    Part(Option<Result<Segments, Segments>>),
    /// Look at the clock.
    Look,
    /// Close, because the server stops.
    Leave,
}

impl<P: Protocol> Session<P> {
    fn service(&self) -> &Service {
        &self.front.service
    }

    /// Runs the session, and returns the frame to close it with.
    async fn run(&mut self, guard: &mut Guard) -> io::Result<Close> {
        let mut closing = pin!(guard.closing());
        let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            let is_done = self.is_unasked() && self.pending.is_none();
            if let Some(close) = self.close.take_if(|_| is_done) {
                return Ok(close);
            }
            self.wind(timer.as_mut());
            let is_ending = self.close.is_some();
            if is_ending {
                // Bytes are read and dropped, only to see whether the peer leaves.
                self.reader.discard();
            }
            let reads = self.pending.is_none();
            let step = tokio::select! {
                biased;
                () = &mut closing, if !is_ending => Step::Leave,
                (kind, answer) = poll_fn(|context| self.queue.poll(context)), if self.in_parts.is_none() => {
                    Step::Answer(kind, answer)
                }
                read = self.stream.read(self.reader.room()), if reads => Step::Read(read?),
                // Behind what the client says: a model may have parts at any time.
                part = next_part(&mut self.in_parts), if self.in_parts.is_some() => Step::Part(part),
                () = timer.as_mut() => Step::Look,
                () = asked(self.holder.as_ref()) => return Ok(Close::gave_way()),
            };
            match step {
                Step::Leave => self.close = Some(Close::leaving()),
                Step::Answer(kind, answer) => {
                    let response = match answer {
                        Ok(response) => response,
                        Err(error) => {
                            self.front.message(&self.parts_of_message(), Err(error)).await
                        }
                    };
                    self.write(kind, response).await?;
                    // The idle time begins when the answer is written.
                    self.heard = Instant::now();
                }
                Step::Part(part) => {
                    self.write_part(part).await?;
                    self.heard = Instant::now();
                }
                Step::Read(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Step::Read(bytes) => {
                    self.heard = Instant::now();
                    self.reader.filled(bytes);
                }
                Step::Look => {
                    self.hold();
                    if let Some((due, close)) = self.due()
                        && due <= Instant::now()
                    {
                        return Ok(close);
                    }
                }
            }
            if let Some(close) = self.take_in().await? {
                return Ok(close);
            }
        }
    }

    /// Is no answer owed?
    fn is_unasked(&self) -> bool {
        self.queue.is_empty() && self.in_parts.is_none()
    }

    /// When the peer must have sent something, and the frame that closes the session otherwise; `None` while the
    /// server has to act.
    fn due(&self) -> Option<(Instant, Close)> {
        let settings = &self.service().settings;
        if self.pending.is_some() || self.close.is_some() {
            return None;
        }
        if let (Some(since), Some(received)) = (self.since, self.reader.unfinished()) {
            let allowed = settings.body.pace.allowed(received)?;
            return Some((since + allowed, Close::slow(allowed.as_secs())));
        }
        let idle = settings.timeouts.idle;
        self.is_unasked().then(|| (self.heard + idle, Close::idle(idle.as_secs())))
    }

    /// Counts an unfinished message that takes long among those who give way.
    fn hold(&mut self) {
        let (Some(since), Some(received)) = (self.since, self.reader.unfinished()) else {
            self.holder = None;
            return;
        };
        if QUICK <= since.elapsed() {
            let yielding = self.front.service.settings.body.budget.yielding();
            let holder = self.holder.get_or_insert_with(|| yielding.enter());
            holder.note(received, received);
        }
    }

    /// Sets the timer to the time that is due first.
    fn wind(&self, timer: std::pin::Pin<&mut Sleep>) {
        let later = || Instant::now() + self.service().settings.timeouts.idle;
        let mut due = self.due().map_or_else(later, |it| it.0);
        if let Some(since) = self.since.filter(|_| self.holder.is_none()) {
            due = due.min(since + QUICK);
        }
        // Only moved to an earlier time: a timer that fires early costs one look.
        if timer.is_elapsed() || due < timer.deadline().into_std() {
            timer.reset(due.into());
        }
    }

    /// Takes messages in, as far as the queue has room. Returns a frame where the session closes at once.
    async fn take_in(&mut self) -> io::Result<Option<Close>> {
        loop {
            if self.queue.has_room_beside(usize::from(self.in_parts.is_some()))
                && let Some((kind, body)) = self.pending.take()
            {
                self.ask(kind, body);
            }
            if self.pending.is_some() || self.close.is_some() {
                break;
            }
            match self.reader.next_event() {
                Ok(None) => break,
                Ok(Some(Event::Message(kind, body))) => {
                    self.since = None;
                    self.pending = Some((kind, Ok(body)));
                }
                Ok(Some(Event::Refused(error))) => {
                    self.since = None;
                    self.pending = Some((Kind::Text, Err(error)));
                }
                Ok(Some(Event::Ping(payload))) => self.say(Opcode::Pong, &payload).await?,
                Ok(Some(Event::Pong)) => {}
                // After the peer's close frame no answer is owed any more.
                Ok(Some(Event::Closed(said))) => return Ok(Some(said)),
                Err(close) => self.close = Some(close),
            }
        }
        match self.reader.unfinished().filter(|_| self.pending.is_none()) {
            Some(_) => {
                self.since.get_or_insert_with(Instant::now);
            }
            None => self.since = None,
        }
        if self.holder.is_some() {
            self.hold();
        }
        Ok(None)
    }

    /// The head of a message. Each has a name of its own, unless the client has named them all.
    fn parts_of_message(&self) -> Arc<Parts> {
        match self.parts.id.is_given() {
            true => self.parts.clone(),
            false => {
                let id = self.service().serving.request_ids.one();
                Arc::new(Parts { id, ..Parts::clone(&self.parts) })
            }
        }
    }

    /// Queues a request behind those before it.
    fn ask(&mut self, kind: Kind, body: Result<Received, Error>) {
        let (front, parts) = (self.front.clone(), self.parts_of_message());
        self.queue.push(kind, async move { front.message(&parts, body).await });
    }

    /// Writes an answer as one message, or its first part. An error is a text. Otherwise a text is answered by a text
    /// if the reply is UTF-8, and bytes are answered by bytes.
    async fn write(&mut self, asked: Kind, response: Response<Segments>) -> io::Result<()> {
        let is_error = !response.status().is_success();
        let is_text = is_error || (asked == Kind::Text && is_text(&response));
        let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
        let mut body = response.into_body();
        self.write_message(opcode, &mut body).await?;
        if body.has_messages() {
            self.in_parts = Some(InParts { opcode, body });
        }
        Ok(())
    }

    /// Writes a part of the answer that is under way, which looks like the first.
    async fn write_part(&mut self, part: Option<Result<Segments, Segments>>) -> io::Result<()> {
        let opcode = self.in_parts.as_ref().map_or(Opcode::Text, |it| it.opcode);
        match part {
            Some(Ok(mut part)) => self.write_message(opcode, &mut part).await,
            Some(Err(mut error)) => {
                self.in_parts = None;
                self.write_message(Opcode::Text, &mut error).await
            }
            None => {
                self.in_parts = None;
                Ok(())
            }
        }
    }

    async fn write_message(&mut self, opcode: Opcode, body: &mut Segments) -> io::Result<()> {
        let mut head = frame::header(opcode, body.length());
        while let Some(data) = body.next().await {
            let data = data.map_err(io::Error::other)?;
            if head.len() + data.len() <= SMALL {
                head.extend_from_slice(&data);
                continue;
            }
            self.stream.write_all(&std::mem::take(&mut head)).await?;
            self.stream.write_all(&data).await?;
        }
        self.stream.write_all(&head).await?;
        self.stream.flush().await
    }

    async fn say(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        let bytes = [&frame::header(opcode, payload.len()), payload].concat();
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await
    }

    /// Sends the close frame, and waits for a moment until the peer has read it.
    async fn close(&mut self, close: &Close) -> io::Result<()> {
        let last = async {
            self.say(Opcode::Close, &close.payload()).await?;
            self.stream.shutdown().await?;
            // Closing a connection with unread bytes resets it, and the peer would lose the close frame.
            self.reader.discard();
            while self.stream.read(self.reader.room()).await? != 0 {}
            io::Result::Ok(())
        };
        timeout(LAST_WORDS, last).await.unwrap_or(Ok(()))
    }
}

/// The next part of an answer.
async fn next_part(in_parts: &mut Option<InParts>) -> Option<Result<Segments, Segments>> {
    match in_parts {
        Some(it) => poll_fn(|context| it.body.poll_message(context)).await,
        None => std::future::pending().await,
    }
}

/// Waits until a message has to give way.
async fn asked(holder: Option<&Holder>) {
    match holder {
        Some(holder) => poll_fn(|context| holder.poll_asked(context)).await,
        None => std::future::pending().await,
    }
}

/// Is a body of that type UTF-8?
fn is_text(response: &Response<Segments>) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let Some(given) = content_type else { return true };
    let name = given.split(|it| *it == b';').next().unwrap_or_default();
    let beginnings = [&b"text/"[..], b"application/json", b"application/x-ndjson"];
    beginnings.iter().any(|it| name.starts_with(it))
}
