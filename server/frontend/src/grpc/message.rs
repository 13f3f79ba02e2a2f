//! The messages of a call, one after the other, cut out of its stream of bytes under limits.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    task::Poll,
};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use tokio::sync::Notify;

use super::{
    layout::{self, FieldPath},
    room::OF_CALL,
};
use crate::exchange::{
    Arrived,
    body_buffer::{self, BodyBuffer, first_piece},
    compression::Encoding,
    intake::{Limits, PaceClock, QUICK, Received, Source, gave_way},
};
use inference::{error::Error, limits::Permit, yielding::Yielding};

/// The metadata that say how messages are compressed.
pub const ENCODING: &str = "grpc-encoding";

/// Bytes of the prefix: a flag for compression, and the length.
pub const PREFIX: usize = 5;

/// The messages of one call.
pub struct Messages<'l> {
    body: RecvStream,
    /// Bytes that have arrived and are not read yet.
    rest: Bytes,
    encoding: Option<Encoding>,
    /// The path to the first raw tensor of a message.
    path: FieldPath,
    limits: &'l Limits,
    /// Those who give way where calls are short of memory.
    calls: Arc<Yielding>,
    /// `None` before the first request of a stream.
    under_way: Option<Arc<UnderWay>>,
}

/// The requests of one call that are being answered.
#[derive(Debug, Default)]
struct UnderWay {
    requests: AtomicUsize,
    /// Signalled when there are none any more.
    over: Notify,
}

impl UnderWay {
    /// One more.
    fn begin(self: &Arc<UnderWay>) -> OneUnderWay {
        self.requests.fetch_add(1, Relaxed);
        OneUnderWay(self.clone())
    }

    /// Returns when all are answered.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    async fn over(&self) {
        while 0 < self.requests.load(Acquire) {
            self.over.notified().await;
        }
    }
}

/// A request of a call that is being answered, until this is dropped. Until then its client waits for the server.
#[derive(Debug)]
pub struct OneUnderWay(Arc<UnderWay>);

impl Drop for OneUnderWay {
    fn drop(&mut self) {
        if self.0.requests.fetch_sub(1, Release) == 1 {
            self.0.over.notify_one();
        }
    }
}

impl<'l> Messages<'l> {
    /// The messages in `body`; `encoding` is that of the compressed ones. The tensor at `path` in each
    /// lies at an aligned address. Between two messages the call is one of `calls`.
    pub fn new(
        body: RecvStream,
        encoding: Option<Encoding>,
        path: FieldPath,
        limits: &'l Limits,
        calls: Arc<Yielding>,
    ) -> Messages<'l> {
        let (rest, under_way) = Default::default();
        Messages { body, rest, encoding, path, limits, calls, under_way }
    }

    /// Counts the last message among those that are being answered: until it is, the call is not silent.
    pub fn begin_answer(&mut self) -> OneUnderWay {
        self.under_way.get_or_insert_default().begin()
    }

    /// The message of a call that has exactly one.
    ///
    /// # Errors
    /// As [`Messages::next`], and [`Error::InvalidRequest`] where there is none or more than one.
    pub async fn only(&mut self) -> Result<Received, Error> {
        self.only_arrived().await?.whole().await
    }

    /// The same, of which the rest may have to be inflated.
    ///
    /// # Errors
    /// Those of [`Messages::only`].
    pub async fn only_arrived(&mut self) -> Result<Arrived, Error> {
        let none = || Error::InvalidRequest("expected one message, given none".to_owned());
        // The clock runs at once: a unary call owes its message from the beginning.
        let message = self.next_arrived(true).await?.ok_or_else(none)?;
        let ended = self.rest.is_empty() && self.body.is_end_stream();
        if !ended && self.next_arrived(true).await?.is_some() {
            let problem = "expected one message, given several".to_owned();
            return Err(Error::InvalidRequest(problem));
        }
        Ok(message)
    }

    /// The next message; `None` at the end. With `begun`, the client owes a message already; otherwise it may take
    /// any time before the first byte.
    ///
    /// # Errors
    /// [`Error::BodyTooLarge`] before the message is read; [`Error::OutOfBudget`]; [`Error::BodyTimeout`];
    /// [`Error::BodyExpands`]; [`Error::InvalidRequest`] when the stream breaks or ends within a message;
    /// [`Error::Unimplemented`] for a compressed message without a named encoding.
    pub async fn next(&mut self, begun: bool) -> Result<Option<Received>, Error> {
        match self.next_arrived(begun).await? {
            Some(arrived) => Ok(Some(arrived.whole().await?)),
            None => Ok(None),
        }
    }

    /// The same, of which the rest may have to be inflated.
    ///
    /// # Errors
    /// Those of [`Messages::next`].
    pub async fn next_arrived(&mut self, begun: bool) -> Result<Option<Arrived>, Error> {
        let mut clock = begun.then(|| PaceClock::new(self.limits));
        while self.rest.len() < PREFIX {
            let data = match &mut clock {
                Some(clock) => clock.next(&mut self.body).await?,
                None => silence(&mut self.body, &self.calls, self.under_way.as_deref()).await?,
            };
            let Some(data) = data else {
                if self.rest.is_empty() {
                    return Ok(None);
                }
                return Err(cut(self.rest.len(), PREFIX));
            };
            self.rest = match self.rest.is_empty() {
                true => data,
                false => [&*self.rest, &*data].concat().into(),
            };
            clock.get_or_insert_with(|| PaceClock::new(self.limits));
        }
        let (compressed, length) = self.prefix()?;
        let Limits { limit, budget, .. } = self.limits;
        if *limit < length as u64 {
            return Err(self.limits.too_large(length, *limit));
        }
        let permit = first_piece(budget, length)?;
        let mut clock = clock.unwrap_or_else(|| PaceClock::new(self.limits));
        let received = self.exactly(length, permit, &mut clock).await?;
        Ok(Some(match compressed {
            None => received.into(),
            Some(encoding) => Arrived::inflate(encoding, ENCODING, received, self.limits)?,
        }))
    }

    /// Reads the prefix of a message.
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

    /// Exactly `length` bytes, in one piece.
    async fn exactly(
        &mut self,
        length: usize,
        permit: Permit,
        clock: &mut PaceClock<'_>,
    ) -> Result<Received, Error> {
        if length <= self.rest.len() {
            // The bytes lie in one piece in the connection's read buffer: no copy is needed.
            return body_buffer::whole(self.rest.split_to(length), permit);
        }
        let first = std::mem::take(&mut self.rest);
        let aligned_at = layout::first_tensor(&first, self.path).unwrap_or(0);
        let mut buffer = BodyBuffer::new(length, aligned_at, permit);
        buffer.extend(&first)?;
        while buffer.received() < length {
            clock.received = buffer.received() as u64;
            let Some(mut data) = clock.next(&mut self.body).await? else {
                return Err(cut(buffer.received(), length));
            };
            self.rest = data.split_off(data.len().min(length - buffer.received()));
            buffer.extend(&data)?;
        }
        Ok(buffer.finish())
    }
}

/// The next piece of a call that owes nothing. Where it waits for no answer and is silent for long, it gives way to
/// others that need its room.
async fn silence(
    source: &mut impl Source,
    calls: &Arc<Yielding>,
    under_way: Option<&UnderWay>,
) -> Result<Option<Bytes>, Error> {
    let mut next = std::pin::pin!(source.next());
    // No request begins meanwhile: whoever begins them waits here.
    let long = async {
        if let Some(under_way) = under_way {
            under_way.over().await;
        }
        tokio::time::sleep(QUICK).await;
    };
    tokio::select! {
        biased;
        there = next.as_mut() => return there,
        () = long => {}
    }
    let holder = calls.enter();
    holder.note(OF_CALL as u64, 0);
    poll_fn(|context| match next.as_mut().poll(context) {
        Poll::Ready(there) => Poll::Ready(there),
        Poll::Pending => holder.poll_asked(context).map(|()| Err(gave_way())),
    })
    .await
}

fn cut(given: usize, expected: usize) -> Error {
    Error::InvalidRequest(format!(
        "the stream ends within a message: expected {expected} bytes, given {given}"
    ))
}

/// The body of a call.
impl Source for RecvStream {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(data) = self.data().await {
            let data = match data {
                Ok(data) => data,
                // The client has left, or has finished its side.
                Err(error) if matches!(error.reason(), Some(Reason::NO_ERROR | Reason::CANCEL)) => {
                    return Ok(None);
                }
                Err(error) => {
                    let problem = format!("the call cannot be read: {error}");
                    return Err(Error::InvalidRequest(problem));
                }
            };
            // An error means that the call is over; the next read reports it.
            let _ = self.flow_control().release_capacity(data.len());
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn declared(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A call on which nothing comes.
    struct Silent;

    impl Source for Silent {
        async fn next(&mut self) -> Result<Option<Bytes>, Error> {
            std::future::pending().await
        }

        fn declared(&self) -> Option<u64> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_may_give_way_where_it_is_silent_and_not_while_it_waits_for_an_answer() {
        let (calls, under_way) = (Arc::<Yielding>::default(), Arc::<UnderWay>::default());
        let running = [(); 2].map(|()| under_way.begin());
        let mut silent = Silent;
        let mut silence = std::pin::pin!(silence(&mut silent, &calls, Some(&*under_way)));
        let mut after = async |time: Duration| {
            let ended = tokio::time::timeout(time, silence.as_mut()).await;
            assert!(ended.is_err(), "{ended:?}");
            calls.holders()
        };
        let long = Duration::from_secs(3600);
        assert_eq!(after(long).await, 0);
        let [first, last] = running;
        drop(first);
        assert_eq!(after(long).await, 0, "another one is under way");
        drop(last);
        assert_eq!(after(QUICK / 2).await, 0, "it has not been silent for long");
        assert_eq!(after(QUICK).await, 1);
    }
}
