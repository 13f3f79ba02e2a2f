//! A conversation over WebSocket: each message is a request to `/invocations`, each answer a message, in the order of
//! the requests.
//!
//! The protocol is spoken by hand: a library would take the memory that a frame announces before anybody could refuse
//! it, and copy each reply into a buffer of its own.

mod close;
mod frame;
mod queue;
mod reader;

use std::{
    future::poll_fn,
    io,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::BodyExt;
use hyper::{
    Response,
    header::{CONTENT_TYPE, HeaderValue},
    http::request::Parts,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Sleep, timeout},
};

use super::{body::Segments, service::Service};
use crate::{drain::Guard, exchange::intake::Received, hosting::message};
use close::Close;
use frame::Opcode;
use inference::error::Error;
use queue::Queue;
use reader::{Event, Kind, Reader};

/// Requests of a connection that are worked on at once; a further one waits, and nothing is read behind it.
const MOST_AT_ONCE: usize = 8;

/// A reply up to that size is written with its header, in one piece.
const SMALL: usize = 4 << 10;

/// How long a peer may take to hear that it ends, and to close.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A conversation that has been agreed upon.
#[derive(Clone)]
pub struct Opening {
    /// The connection, once the answer to its request is written.
    pub upgrade: OnUpgrade,
    /// The head of that request, as each message is to have it.
    pub parts: Arc<Parts>,
    /// Does each message need what the one before it has left? Then one is worked on at a time.
    pub is_in_order: bool,
}

/// Talks to a peer until one of the two is done.
pub async fn serve(opening: Opening, service: Arc<Service>, guard: &mut Guard) {
    let stream = match opening.upgrade.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => return tracing::debug!(%error, "a connection did not become a WebSocket"),
    };
    let most = if opening.is_in_order { 1 } else { MOST_AT_ONCE };
    let reader = Reader::new(service.settings.body.clone());
    let now = Instant::now();
    let mut session = Session {
        stream,
        reader,
        queue: Queue::new(most),
        pending: None,
        close: None,
        heard: now,
        since: None,
        parts: opening.parts,
        service,
    };
    let ended = match session.run(guard).await {
        Ok(close) => session.close(&close).await,
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        // Clients come and go as they like; that is no news.
        tracing::debug!(%error, "a WebSocket ended early");
    }
}

/// A conversation.
struct Session {
    stream: TokioIo<Upgraded>,
    reader: Reader,
    /// What is worked on, or answered and not written.
    queue: Queue<Response<Segments>>,
    /// A message that the queue has no room for, or why it was refused.
    pending: Option<(Kind, Result<Received, Error>)>,
    /// Nothing more is read, and this is said when all is answered.
    close: Option<Close>,
    /// When the peer last said anything.
    heard: Instant,
    /// When the message that is coming began to.
    since: Option<Instant>,
    parts: Arc<Parts>,
    service: Arc<Service>,
}

/// What is next.
// Made and taken apart at once.
#[allow(clippy::large_enum_variant)]
enum Step {
    /// So many bytes were read.
    Read(usize),
    /// To write an answer.
    Answer(Kind, Result<Response<Segments>, Error>),
    /// To look at the clock.
    Look,
    /// To end: the server stops.
    Leave,
}

impl Session {
    /// How it is to end.
    async fn run(&mut self, guard: &mut Guard) -> io::Result<Close> {
        let mut closing = pin!(guard.closing());
        let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            let is_done = self.queue.is_empty() && self.pending.is_none();
            if let Some(close) = self.close.take_if(|_| is_done) {
                return Ok(close);
            }
            self.wind(timer.as_mut());
            let is_ending = self.close.is_some();
            if is_ending {
                // Read on, to no purpose but to see whether the peer leaves.
                self.reader.discard();
            }
            let reads = self.pending.is_none();
            let step = tokio::select! {
                biased;
                () = &mut closing, if !is_ending => Step::Leave,
                (kind, answer) = poll_fn(|context| self.queue.poll(context)) => Step::Answer(kind, answer),
                read = self.stream.read(self.reader.room()), if reads => Step::Read(read?),
                () = timer.as_mut() => Step::Look,
            };
            match step {
                Step::Leave => self.close = Some(Close::leaving()),
                Step::Answer(kind, answer) => {
                    let lost = |error| message::refused(&self.service, &self.parts, error);
                    let response = answer.unwrap_or_else(lost);
                    self.write(kind, response).await?;
                    // It was not idle until now.
                    self.heard = Instant::now();
                }
                Step::Read(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Step::Read(bytes) => {
                    self.heard = Instant::now();
                    self.reader.filled(bytes);
                }
                Step::Look => {
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

    /// When the peer must have done something, and how it ends if it has not; `None` while it is not its turn.
    fn due(&self) -> Option<(Instant, Close)> {
        let settings = &self.service.settings;
        if self.pending.is_some() || self.close.is_some() {
            return None;
        }
        if let (Some(since), Some(received)) = (self.since, self.reader.unfinished()) {
            let allowed = settings.body.pace.allowed(received)?;
            return Some((since + allowed, Close::slow(allowed.as_secs())));
        }
        let idle = settings.timeouts.idle;
        self.queue.is_empty().then(|| (self.heard + idle, Close::idle(idle.as_secs())))
    }

    /// Sets the timer to what is due first.
    fn wind(&self, timer: std::pin::Pin<&mut Sleep>) {
        let later = || Instant::now() + self.service.settings.timeouts.idle;
        let due = self.due().map_or_else(later, |it| it.0);
        // Moved forward only: a timer that fires early costs a look.
        if timer.is_elapsed() || due < timer.deadline().into_std() {
            timer.reset(due.into());
        }
    }

    /// Takes in what has come, as far as there is room. How it is to end at once, where it is.
    async fn take_in(&mut self) -> io::Result<Option<Close>> {
        loop {
            if self.queue.has_room()
                && let Some((kind, body)) = self.pending.take()
            {
                self.ask(kind, body);
            }
            if self.pending.is_some() || self.close.is_some() {
                break;
            }
            match self.reader.next() {
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
                // Who is done waits for nothing more.
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
        Ok(None)
    }

    /// Has a message answered, behind those before it.
    fn ask(&mut self, kind: Kind, body: Result<Received, Error>) {
        let (service, parts) = (self.service.clone(), self.parts.clone());
        let answer = async move {
            match body {
                Ok(body) => message::message(&service, &parts, body).await,
                Err(error) => message::refused(&service, &parts, error),
            }
        };
        self.queue.push(kind, answer);
    }

    /// Writes an answer as one message: text to a text, if it is one, and bytes to bytes. What went wrong is always
    /// text.
    async fn write(&mut self, asked: Kind, response: Response<Segments>) -> io::Result<()> {
        let is_error = !response.status().is_success();
        let is_text = is_error || (asked == Kind::Text && is_text(&response));
        let opcode = if is_text { Opcode::Text } else { Opcode::Binary };
        let mut body = response.into_body();
        let mut head = frame::header(opcode, body.length());
        while let Some(Ok(part)) = body.frame().await {
            let Ok(data) = part.into_data() else { continue };
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

    /// Says that it ends, and waits a little for the peer to hear it.
    async fn close(&mut self, close: &Close) -> io::Result<()> {
        let last = async {
            self.say(Opcode::Close, &close.payload()).await?;
            self.stream.shutdown().await?;
            // A connection that is closed under bytes that nobody has read loses what was said last.
            self.reader.discard();
            while self.stream.read(self.reader.room()).await? != 0 {}
            io::Result::Ok(())
        };
        timeout(LAST_WORDS, last).await.unwrap_or(Ok(()))
    }
}

/// Is the body of that type UTF-8?
fn is_text(response: &Response<Segments>) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let Some(given) = content_type else { return true };
    let name = given.split(|it| *it == b';').next().unwrap_or_default();
    let beginnings = [&b"text/"[..], b"application/json", b"application/x-ndjson"];
    beginnings.iter().any(|it| name.starts_with(it))
}
