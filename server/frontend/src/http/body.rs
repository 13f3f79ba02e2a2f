//! Bodies: a request's is read into one buffer under limits, a reply's is written in segments.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::emf::Invocation;
use configuration::BodyPace;
use inference::{
    aligned::AlignedBuffer,
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
    trace::{Sending, Trace},
};

/// A reply up to that size is joined into one piece: to copy it costs less than to write it in pieces. It is
/// not counted while it is being written, as little as the buffers of a connection are.
const SMALL: usize = 4 << 10;

/// Bytes of a refused body that are read all the same.
const MOST_DISCARDED: usize = 1 << 20;

/// How long that may take.
const LONGEST_DISCARD: Duration = Duration::from_secs(5);

/// A request's body and the permit for the memory that it takes.
#[derive(Debug)]
pub struct Received {
    /// All of it.
    pub bytes: Bytes,
    /// To be held for as long as the bytes are.
    pub permit: Permit,
}

/// The body of a request that is to be run.
pub enum Payload<'a> {
    /// It comes over the connection of its request.
    Coming(&'a mut Incoming),
    /// It is here already: part of something larger, or from a file.
    Here(Received),
}

impl<'a> From<&'a mut Incoming> for Payload<'a> {
    fn from(body: &'a mut Incoming) -> Payload<'a> {
        Payload::Coming(body)
    }
}

impl Payload<'_> {
    /// All of it. So many bytes of JSON may lie before raw tensors, `None` for nothing but one document.
    ///
    /// # Errors
    /// Those of [`read`].
    pub async fn receive(
        self,
        json_length: Option<usize>,
        limits: &BodyLimits,
    ) -> Result<Received, Error> {
        match (self, json_length) {
            (Payload::Here(received), _) => Ok(received),
            (Payload::Coming(body), Some(length @ 1..)) => {
                read_with_tensors(length, body, limits).await
            }
            (Payload::Coming(body), _) => read(body, 0, limits).await,
        }
    }
}

/// What a body may take.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Most bytes of one body, raw tensors behind JSON not counted.
    pub limit: u64,
    /// Most bytes of one body with those.
    pub whole: u64,
    /// How slowly it may come.
    pub pace: BodyPace,
    /// Bytes of all bodies together.
    pub budget: Arc<Budget>,
}

/// Reads a body whole. `aligned_at` is the offset whose byte should lie at an aligned address: the start of
/// the tensors behind a JSON header.
///
/// # Errors
/// [`Error::BodyTooLarge`] before anything is read where the length is declared; [`Error::OutOfBudget`];
/// [`Error::BodyTimeout`]; [`Error::InvalidRequest`] when the connection breaks or the framing is wrong.
pub async fn read(
    body: &mut Incoming,
    aligned_at: usize,
    limits: &BodyLimits,
) -> Result<Received, Error> {
    read_up_to(limits.limit, body, aligned_at, limits).await
}

/// The same for a body that begins with so much JSON, to which alone the limit applies: raw tensors behind it may take
/// what there is.
///
/// # Errors
/// Those of [`read`].
pub async fn read_with_tensors(
    json_length: usize,
    body: &mut Incoming,
    limits: &BodyLimits,
) -> Result<Received, Error> {
    let (given, limit) = (json_length as u64, limits.limit);
    // What is said to be longer than the body is a mistake of another kind, for the codec to tell.
    let is_inside = body.size_hint().exact().is_none_or(|it| given <= it);
    if limit < given && is_inside {
        return Err(Error::BodyTooLarge { given, limit });
    }
    read_up_to(limits.whole.max(limit), body, json_length, limits).await
}

async fn read_up_to(
    limit: u64,
    body: &mut Incoming,
    aligned_at: usize,
    limits: &BodyLimits,
) -> Result<Received, Error> {
    let BodyLimits { pace, budget, .. } = limits;
    let mut started = None;
    let declared = body.size_hint().exact();
    let too_large = |given| Error::BodyTooLarge { given, limit };
    if let Some(given) = declared.filter(|&it| limit < it) {
        return Err(too_large(given));
    }
    let expected = usize::try_from(declared.unwrap_or(0)).unwrap_or(usize::MAX);
    let mut permit = budget.take(expected).ok_or_else(|| out_of_bytes(budget))?;

    let Some(first) = in_time(next_data(body), &mut started, 0, pace).await? else {
        return Ok(Received { bytes: Bytes::new(), permit });
    };
    if declared == Some(first.len() as u64) {
        // A small body lies in one piece in the connection's read buffer; no copy is needed.
        return Ok(Received { bytes: first, permit });
    }
    let mut buffer = AlignedBuffer::new(expected.max(first.len()), aligned_at);
    let mut data = Some(first);
    while let Some(chunk) = data {
        let length = buffer.len().saturating_add(chunk.len());
        if limit < length as u64 {
            return Err(too_large(length as u64));
        }
        if !permit.grow_to(length) {
            return Err(out_of_bytes(budget));
        }
        buffer.extend(&chunk);
        data = in_time(next_data(body), &mut started, length as u64, pace).await?;
    }
    Ok(Received { bytes: buffer.finish(), permit })
}

/// The next part of a body of which `received` bytes have come since `started`, the first time that one had
/// to wait for it; unless it comes too slowly.
async fn in_time<T>(
    next: impl Future<Output = Result<T, Error>>,
    started: &mut Option<Instant>,
    received: u64,
    pace: &BodyPace,
) -> Result<T, Error> {
    let mut next = std::pin::pin!(next);
    // A small body has come with its head: it needs neither clock nor timer.
    if let Poll::Ready(there) = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await {
        return there;
    }
    let Some(allowed) = pace.allowed(received) else { return next.await };
    let until = *started.get_or_insert_with(Instant::now) + allowed;
    let late = |_| Error::BodyTimeout(allowed);
    tokio::time::timeout_at(until.into(), next).await.map_err(late)?
}

/// Reads a refused request's body to no purpose but that its sender comes to read the reply: closing the
/// connection under a client that is still sending hides the reply from most of them. Large and slow bodies
/// are not worth it.
pub async fn discard(mut body: Incoming) {
    let all = async {
        let mut length = 0;
        while let Ok(Some(data)) = next_data(&mut body).await {
            length += data.len();
            if MOST_DISCARDED < length {
                break;
            }
        }
    };
    // Too slow: the connection closes.
    let _ = tokio::time::timeout(LONGEST_DISCARD, all).await;
}

async fn next_data(body: &mut Incoming) -> Result<Option<Bytes>, Error> {
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| Error::InvalidRequest(format!("the body cannot be read: {error}")))?;
        // Trailers are not data; there is nothing in them that we need.
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// The body of a reply: segments that are written as they are, without being joined.
#[derive(Debug, Default)]
pub struct Segments {
    bytes: VecDeque<Bytes>,
    /// What comes behind them, as it comes; its length is not known.
    coming: Option<Coming>,
    /// Notes when the last of them has gone.
    sending: Option<Sending>,
    /// Is counted until then.
    invocation: Option<Invocation>,
    /// Is the reader not to know how long it is?
    is_stream: bool,
}

impl Segments {
    /// Keeps `permit`, which covers this body from now on, until the last byte is written: with a client
    /// that reads slowly, that is long after the server is done with the request.
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
    pub fn coming(body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static) -> Segments {
        Segments { coming: Some(Coming(Box::pin(body))), ..Segments::default() }
    }

    /// Has an invocation counted until this body has gone.
    pub fn count(&mut self, invocation: Invocation) {
        self.invocation = Some(invocation);
    }

    /// The pieces that have not been written, all of them where nothing has.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.bytes.iter()
    }

    /// Bytes that have not been written.
    pub fn length(&self) -> usize {
        self.bytes.iter().map(Bytes::len).sum()
    }

    /// Is written in chunks, as a stream: its reader is to take each part when it comes, and to expect another one.
    pub fn stream(&mut self) {
        self.is_stream = true;
    }

    /// Notes in `trace` when this body has gone.
    pub fn trace(&mut self, trace: Arc<Trace>) {
        self.sending = Some(trace.sending());
    }
}

/// A body that is made while it is sent.
struct Coming(Pin<Box<dyn Body<Data = Bytes, Error = Infallible> + Send>>);

impl std::fmt::Debug for Coming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Coming")
    }
}

/// The end of a body, and the permit for all of it.
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
        if 1 < segments.len() && segments.iter().map(Bytes::len).sum::<usize>() <= SMALL {
            return Segments::from(Bytes::from(segments.concat()));
        }
        let bytes = segments.into_iter().filter(|it| !it.is_empty()).collect();
        Segments { bytes, ..Segments::default() }
    }
}

impl From<Bytes> for Segments {
    fn from(bytes: Bytes) -> Segments {
        let bytes = Some(bytes).filter(|it| !it.is_empty()).into_iter().collect();
        Segments { bytes, ..Segments::default() }
    }
}

impl Body for Segments {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match (self.bytes.pop_front(), &mut self.coming) {
            (None, Some(coming)) => coming.0.as_mut().poll_frame(context),
            (bytes, _) => Poll::Ready(bytes.map(|it| Ok(Frame::data(it)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.coming.as_ref().is_none_or(|it| it.0.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self.is_stream || self.coming.is_some() {
            true => SizeHint::default(),
            false => SizeHint::with_exact(self.length() as u64),
        }
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
        // Nothing large was copied.
        assert_eq!(body.bytes[0].as_ptr(), large.as_ptr());
        assert!(Segments::from(Bytes::new()).is_end_stream());
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
