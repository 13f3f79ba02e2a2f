//! Bodies of HTTP: the source of a request's body, and a reply's body in segments.

use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::exchange::intake::Source;
use inference::{
    error::Error,
    limits::Permit,
    timings::Spent,
    trace::{Sending, Trace},
};

/// A reply up to that size is joined into one piece, because a copy costs less than several writes. It is not counted
/// while it is being written, as the buffers of a connection are not.
const SMALL: usize = 4 << 10;

/// Most bytes of a refused body that are read and dropped.
const MOST_DISCARDED: usize = 1 << 20;

/// Longest time for reading a refused body.
const LONGEST_DISCARD: Duration = Duration::from_secs(5);

/// The body of a request over HTTP.
impl Source for Incoming {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.frame().await {
            let frame = frame.map_err(|error| {
                Error::InvalidRequest(format!("the body cannot be read: {error}"))
            })?;
            // The server has no use for trailers.
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn declared(&self) -> Option<u64> {
        self.size_hint().exact()
    }
}

/// Reads and drops a refused request's body, so that the client gets to read the reply: most clients lose the reply
/// when the connection closes while they are still sending. Large and slow bodies are not worth it.
pub async fn discard(mut body: Incoming) {
    let all = async {
        let mut length = 0;
        while let Ok(Some(data)) = body.next().await {
            length += data.len();
            if MOST_DISCARDED < length {
                break;
            }
        }
    };
    // After the timeout the connection closes.
    let _ = tokio::time::timeout(LONGEST_DISCARD, all).await;
}

/// The body of a reply: segments that are written one by one, without being joined.
#[derive(Debug, Default)]
pub struct Segments {
    bytes: VecDeque<Bytes>,
    /// A part that is made while it is sent, behind the segments; its length is not known.
    coming: Option<Coming>,
    /// Messages of a WebSocket behind the one that the segments are.
    messages: Option<FurtherMessages>,
    /// Notes in the trace when the last byte has left.
    sending: Option<Sending>,
    /// Dropped then.
    kept: Option<Box<dyn Any + Send>>,
    /// Where the time of its request went.
    spent: Option<Spent>,
    /// Sent in chunks, so that the client does not learn the length?
    is_stream: bool,
}

impl Segments {
    /// Keeps `permit`, which covers this body, until the last byte is written. With a slow reader that is long after
    /// the request is done.
    pub fn hold(&mut self, mut permit: Permit) {
        let length = self.length();
        if length <= SMALL {
            return;
        }
        permit.cover(length);
        if let Some(bytes) = self.bytes.pop_back() {
            self.bytes.push_back(Bytes::from_owner(Held { bytes, _permit: permit }));
        }
    }

    /// A body that is made while it is sent.
    pub fn coming(body: impl Body<Data = Bytes, Error = BrokenOff> + Send + 'static) -> Segments {
        Segments { coming: Some(Coming::new(body)), ..Segments::default() }
    }

    /// The same body, and behind it one that is made while it is sent. Its client learns no length.
    #[must_use]
    pub fn followed_by(
        self,
        body: impl Body<Data = Bytes, Error = BrokenOff> + Send + 'static,
    ) -> Segments {
        Segments { coming: Some(Coming::new(body)), ..self }
    }

    /// The same as the first message of a WebSocket, and further messages behind it.
    #[must_use]
    pub fn with_messages(self, messages: impl Messages + 'static) -> Segments {
        Segments { messages: Some(FurtherMessages(Box::new(messages))), ..self }
    }

    /// Are there messages behind this one?
    pub fn has_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// The next message behind this one; `None` behind the last.
    ///
    /// # Errors
    /// The message that says why there is no further one.
    pub fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Segments, Segments>>> {
        match &mut self.messages {
            Some(messages) => messages.0.poll_next(context),
            None => Poll::Ready(None),
        }
    }

    /// Is a part of it made while it is sent?
    pub fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// Keeps a value until that part has ended, or is given up.
    pub fn keep_while_coming(&mut self, value: impl Any + Send) {
        if let Some(coming) = &mut self.coming {
            coming.kept = Some(Box::new(value));
        }
    }

    /// Takes the segments that are not written yet.
    pub fn take_pieces(&mut self) -> VecDeque<Bytes> {
        std::mem::take(&mut self.bytes)
    }

    /// Keeps a value until this body has left, or is given up.
    pub fn keep(&mut self, value: impl Any + Send) {
        self.kept = Some(Box::new(value));
    }

    /// The segments that are not written yet.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.bytes.iter()
    }

    /// Bytes that are not written yet.
    pub fn length(&self) -> usize {
        self.bytes.iter().map(Bytes::len).sum()
    }

    /// Sends the body in chunks, as a stream: the client then handles each part when it comes, and expects further
    /// ones.
    pub fn stream(&mut self) {
        self.is_stream = true;
    }

    /// Where the time of its request went; `None` where that is not known.
    pub fn spent(&self) -> Option<Spent> {
        self.spent
    }

    /// Says where the time of its request went.
    pub fn set_spent(&mut self, spent: Option<Spent>) {
        self.spent = spent;
    }

    /// Notes in `trace` when this body has left.
    pub fn trace(&mut self, trace: Arc<Trace>) {
        self.sending = Some(trace.sending());
    }
}

/// Messages of a WebSocket that are made while others are sent.
pub trait Messages: Send {
    /// The next one; `None` behind the last.
    ///
    /// # Errors
    /// The message that says why there is no further one.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Segments, Segments>>>;
}

/// The rest of a body does not come: it ends without its end, so that nobody takes a part for all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenOff {
    /// Why.
    pub text: String,
    /// Was it the time that was over?
    pub is_late: bool,
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for BrokenOff {}

/// A body that is made while it is sent.
struct Coming {
    body: Pin<Box<dyn Body<Data = Bytes, Error = BrokenOff> + Send>>,
    /// Dropped behind it.
    kept: Option<Box<dyn Any + Send>>,
}

impl Coming {
    fn new(body: impl Body<Data = Bytes, Error = BrokenOff> + Send + 'static) -> Coming {
        Coming { body: Box::pin(body), kept: None }
    }
}

impl std::fmt::Debug for Coming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Coming")
    }
}

/// Messages behind the first.
struct FurtherMessages(Box<dyn Messages>);

impl std::fmt::Debug for FurtherMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FurtherMessages")
    }
}

/// The last piece of a body, and the permit for all of it.
struct Held {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<Bytes>> for Segments {
    fn from(segments: Vec<Bytes>) -> Segments {
        if let [only] = &segments[..]
            && !only.is_empty()
        {
            return Segments { bytes: segments.into(), ..Segments::default() };
        }
        if segments.iter().map(Bytes::len).sum::<usize>() <= SMALL {
            return Segments::from(Bytes::from(segments.concat()));
        }
        // The list itself is kept.
        let mut bytes = VecDeque::from(segments);
        bytes.retain(|it| !it.is_empty());
        Segments { bytes, ..Segments::default() }
    }
}

impl From<Bytes> for Segments {
    fn from(bytes: Bytes) -> Segments {
        let bytes = Some(bytes).filter(|it| !it.is_empty()).into_iter().collect();
        Segments { bytes, ..Segments::default() }
    }
}

impl Segments {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// Where the rest does not come.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        match (self.bytes.pop_front(), &mut self.coming) {
            (None, Some(coming)) => {
                let frame = ready!(coming.body.as_mut().poll_frame(context));
                if !matches!(frame, Some(Ok(_))) {
                    coming.kept = None;
                }
                Poll::Ready(frame.map(|it| it.map(|it| it.into_data().unwrap_or_default())))
            }
            (bytes, _) => Poll::Ready(bytes.map(Ok)),
        }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// Where the rest does not come.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Is there no further piece?
    pub fn is_end(&self) -> bool {
        self.bytes.is_empty() && self.coming.as_ref().is_none_or(|it| it.body.is_end_stream())
    }

    /// The length, where the client is to know it.
    pub fn size_hint(&self) -> SizeHint {
        match self.is_stream || self.coming.is_some() {
            true => SizeHint::default(),
            false => SizeHint::with_exact(self.length() as u64),
        }
    }

    /// As a part of another body, see [`Segments::coming`].
    pub fn into_part(self) -> impl Body<Data = Bytes, Error = BrokenOff> + Unpin + Send {
        Inner(self)
    }
}

/// A body inside another one.
struct Inner(Segments);

impl Body for Inner {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.0.poll_next(context).map(|it| it.map(|it| it.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_knows_its_length_and_skips_empty_segments() {
        let large = Bytes::from(vec![0; SMALL]);
        let body = Segments::from(vec![large.clone(), Bytes::new(), Bytes::from_static(b"ab")]);
        assert_eq!(body.size_hint().exact(), Some(SMALL as u64 + 2));
        assert_eq!(body.bytes.len(), 2);
        // The large segment was not copied.
        assert_eq!(body.bytes[0].as_ptr(), large.as_ptr());
        assert!(Segments::from(Bytes::new()).is_end());
    }

    #[test]
    fn a_stream_keeps_its_length_to_itself() {
        let mut body = Segments::from(Bytes::from_static(b"data: 1"));
        body.stream();
        assert_eq!((body.size_hint().exact(), body.length()), (None, 7));
    }

    #[test]
    fn a_small_reply_is_one_piece() {
        let pieces = ["ab", "", "cd"].map(|it| Bytes::from_static(it.as_bytes()));
        assert_eq!(Segments::from(pieces.to_vec()).bytes, ["abcd"]);
    }
}
