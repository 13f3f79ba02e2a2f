//! The messages of a call, one after the other: found in the stream of bytes, under limits.

use std::{
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::{Reason, RecvStream};

use super::{
    compress::{Encoding, unpack},
    layout::{self, Way},
};
use crate::net::aside;
use configuration::BodyPace;
use inference::{
    aligned::AlignedBuffer,
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
};

/// In front of a message: is it compressed, and its length.
const PREFIX: usize = 5;

/// A message of that size is unpacked in no time.
const SMALL: usize = 4 << 10;

/// What a message may take.
#[derive(Debug, Clone)]
pub struct MessageLimits {
    /// Most bytes of one message.
    pub limit: u64,
    /// How slowly it may come, once it has begun.
    pub pace: BodyPace,
    /// Bytes of all messages together.
    pub budget: Arc<Budget>,
}

/// A message, and the permit for the memory that it takes.
#[derive(Debug)]
pub struct Received {
    /// All of it.
    pub bytes: Bytes,
    /// To be held for as long as the bytes are.
    pub permit: Permit,
}

/// The messages of one call.
pub struct Messages<'l> {
    body: RecvStream,
    /// What has arrived and is not read yet.
    rest: Bytes,
    encoding: Option<Encoding>,
    /// Where tensors lie in them.
    way: Way,
    limits: &'l MessageLimits,
}

impl<'l> Messages<'l> {
    /// The messages in `body`, those that are compressed by `encoding`. The first tensor of each, found that `way`, is
    /// aligned in memory.
    pub fn new(
        body: RecvStream,
        encoding: Option<Encoding>,
        way: Way,
        limits: &'l MessageLimits,
    ) -> Messages<'l> {
        Messages { body, rest: Bytes::new(), encoding, way, limits }
    }

    /// The only message of a call that has one.
    ///
    /// # Errors
    /// As [`Messages::next`], and [`Error::InvalidRequest`] where there is none or more than one.
    pub async fn only(&mut self) -> Result<Received, Error> {
        let none = || Error::InvalidRequest("expected one message, given none".to_owned());
        // A call without a message does not begin with the first byte of one.
        let message = self.next(true).await?.ok_or_else(none)?;
        let ended = self.rest.is_empty() && self.body.is_end_stream();
        if !ended && self.next(true).await?.is_some() {
            let problem = "expected one message, given several".to_owned();
            return Err(Error::InvalidRequest(problem));
        }
        Ok(message)
    }

    /// The next message; `None` at the end. `begun`: does the client owe a message already, or may it take its
    /// time?
    ///
    /// # Errors
    /// [`Error::BodyTooLarge`] before the message is read; [`Error::OutOfBudget`]; [`Error::BodyTimeout`];
    /// [`Error::InvalidRequest`] when the stream breaks or ends within a message; [`Error::Unimplemented`] for a
    /// compressed one whose encoding was not named.
    pub async fn next(&mut self, begun: bool) -> Result<Option<Received>, Error> {
        let mut watch = begun.then_some(Watch { pace: self.limits.pace, since: None, received: 0 });
        while self.rest.len() < PREFIX {
            let Some(data) = self.data(watch.as_mut()).await? else {
                if self.rest.is_empty() {
                    return Ok(None);
                }
                return Err(cut(self.rest.len(), PREFIX));
            };
            self.rest = match self.rest.is_empty() {
                true => data,
                false => [&*self.rest, &*data].concat().into(),
            };
            watch.get_or_insert(Watch { pace: self.limits.pace, since: None, received: 0 });
        }
        let (compressed, length) = self.prefix()?;
        let MessageLimits { limit, budget, .. } = self.limits;
        if *limit < length as u64 {
            return Err(Error::BodyTooLarge { given: length as u64, limit: *limit });
        }
        let mut permit = budget.take(length).ok_or_else(|| out_of_bytes(budget))?;
        let mut watch = watch.unwrap_or(Watch { pace: self.limits.pace, since: None, received: 0 });
        let bytes = self.exactly(length, &mut watch).await?;
        let bytes = match compressed {
            None => bytes,
            Some(encoding) => {
                let limit = *limit;
                let unpacked = match bytes.len() <= SMALL {
                    true => unpack(encoding, &bytes, limit),
                    false => aside(move || unpack(encoding, &bytes, limit)).await?,
                }?;
                if !permit.grow_to(unpacked.len()) {
                    return Err(out_of_bytes(budget));
                }
                unpacked
            }
        };
        Ok(Some(Received { bytes, permit }))
    }

    /// Takes the prefix of a message off.
    fn prefix(&mut self) -> Result<(Option<Encoding>, usize), Error> {
        let prefix = self.rest.split_to(PREFIX);
        let (flag, length) = prefix.split_first().unwrap_or((&0, &[]));
        let length = length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        let compressed = match (flag, self.encoding) {
            (0, _) => None,
            (1, Some(encoding)) => Some(encoding),
            (1, None) => {
                let problem = "a message is compressed, and metadata grpc-encoding do not say how";
                return Err(Error::Unimplemented(problem.to_owned()));
            }
            (other, _) => {
                return Err(Error::InvalidRequest(format!(
                    "a message begins with the byte {other}, expected 0, or 1 where it is compressed"
                )));
            }
        };
        Ok((compressed, length))
    }

    /// So many bytes, in one piece.
    async fn exactly(&mut self, length: usize, watch: &mut Watch) -> Result<Bytes, Error> {
        if length <= self.rest.len() {
            // In one piece in the connection's read buffer; no copy is needed.
            return Ok(self.rest.split_to(length));
        }
        let first = std::mem::take(&mut self.rest);
        let mut buffer =
            AlignedBuffer::new(length, layout::first_tensor(&first, self.way).unwrap_or(0));
        buffer.extend(&first);
        while buffer.len() < length {
            watch.received = buffer.len() as u64;
            let Some(mut data) = self.data(Some(watch)).await? else {
                return Err(cut(buffer.len(), length));
            };
            self.rest = data.split_off(data.len().min(length - buffer.len()));
            buffer.extend(&data);
        }
        Ok(buffer.finish())
    }

    /// The next part of the body, unless it comes too slowly.
    async fn data(&mut self, watch: Option<&mut Watch>) -> Result<Option<Bytes>, Error> {
        let mut next = std::pin::pin!(next_data(&mut self.body));
        // What has come with the head needs neither clock nor timer.
        if let Poll::Ready(there) =
            poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await
        {
            return there;
        }
        let Some((until, allowed)) = watch.and_then(Watch::until) else { return next.await };
        let late = |_| Error::BodyTimeout(allowed);
        tokio::time::timeout_at(until.into(), next).await.map_err(late)?
    }
}

/// How long a message has been on its way.
struct Watch {
    pace: BodyPace,
    /// When one had to wait for it the first time.
    since: Option<Instant>,
    received: u64,
}

impl Watch {
    /// When the next part must be there, and how long that is; `None` for any time.
    fn until(&mut self) -> Option<(Instant, Duration)> {
        let allowed = self.pace.allowed(self.received)?;
        Some((*self.since.get_or_insert_with(Instant::now) + allowed, allowed))
    }
}

fn cut(given: usize, expected: usize) -> Error {
    Error::InvalidRequest(format!(
        "the stream ends within a message: expected {expected} bytes, given {given}"
    ))
}

async fn next_data(body: &mut RecvStream) -> Result<Option<Bytes>, Error> {
    while let Some(data) = body.data().await {
        let data = match data {
            Ok(data) => data,
            // The client has left, or has said all that it wants to say.
            Err(error) if matches!(error.reason(), Some(Reason::NO_ERROR | Reason::CANCEL)) => {
                return Ok(None);
            }
            Err(error) => {
                let problem = format!("the call cannot be read: {error}");
                return Err(Error::InvalidRequest(problem));
            }
        };
        // An error means that the call is over: the next look says so.
        let _ = body.flow_control().release_capacity(data.len());
        if !data.is_empty() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
