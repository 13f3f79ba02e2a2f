//! The intake of bodies: bytes of every source are read under the same limits, by the same clock.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use crate::settings::limits::BodyPace;
use bytes::Bytes;

pub use super::body_buffer::Received;
use super::body_buffer::{self, BodyBuffer, first_piece};
use inference::{error::Error, limits::Budget, yielding::Holder};

/// Limits of a body.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most bytes of one body, without the raw tensors behind its header.
    pub limit: u64,
    /// Most bytes of one body with its raw tensors.
    pub whole: u64,
    /// The settings that these limits come from, for the text of an error.
    pub setting: &'static str,
    /// How slowly it may come.
    pub pace: BodyPace,
    /// Bytes of all bodies and replies together.
    pub budget: Arc<Budget>,
}

impl Limits {
    /// The error of a body of `given` bytes.
    pub fn too_large(&self, given: usize, limit: u64) -> Error {
        Error::BodyTooLarge { given: given as u64, limit, setting: self.setting }
    }
}

/// Where a body comes from, piece by piece.
pub trait Source: Send {
    /// The next piece, which is not empty; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;

    /// Bytes that are still to come, where the head declares them.
    fn declared(&self) -> Option<u64>;
}

/// Reads a body whole. The byte at offset `aligned_at` lies at an aligned address: it is the start of the tensors
/// behind a header.
///
/// # Errors
/// [`Error::BodyTooLarge`] before anything is read where the length is declared; [`Error::OutOfBudget`];
/// [`Error::BodyTimeout`]; [`Error::InvalidRequest`] when the connection breaks or the framing is wrong.
pub async fn read(
    source: &mut impl Source,
    aligned_at: usize,
    limits: &Limits,
) -> Result<Received, Error> {
    read_up_to(limits.limit, source, aligned_at, limits).await
}

/// Reads a body that begins with a header of `header_length` bytes. The limit applies to the header alone; the raw
/// tensors behind it may take what the budget has.
///
/// # Errors
/// Those of [`read`].
pub async fn read_with_tensors(
    header_length: usize,
    source: &mut impl Source,
    limits: &Limits,
) -> Result<Received, Error> {
    let limit = limits.limit;
    // A header that claims to be longer than the body is a mistake that the codec reports.
    let is_inside = source.declared().is_none_or(|it| header_length as u64 <= it);
    if limit < header_length as u64 && is_inside {
        return Err(limits.too_large(header_length, limit));
    }
    read_up_to(limits.whole.max(limit), source, header_length, limits).await
}

async fn read_up_to(
    limit: u64,
    source: &mut impl Source,
    aligned_at: usize,
    limits: &Limits,
) -> Result<Received, Error> {
    let declared = source.declared();
    if let Some(given) = declared.filter(|&it| limit < it) {
        return Err(Error::BodyTooLarge { given, limit, setting: limits.setting });
    }
    let expected = usize::try_from(declared.unwrap_or(0)).unwrap_or(usize::MAX);
    let permit = first_piece(&limits.budget, expected)?;

    let mut clock = PaceClock::new(limits);
    let Some(first) = clock.next(source).await? else {
        return Ok(Received { bytes: Bytes::new(), permit });
    };
    if declared == Some(first.len() as u64) {
        // A small body lies in one piece in the connection's read buffer; no copy is needed.
        return body_buffer::whole(first, permit);
    }
    let mut buffer = BodyBuffer::new(expected.max(first.len()), aligned_at, permit);
    let mut data = Some(first);
    while let Some(chunk) = data {
        let length = buffer.received().saturating_add(chunk.len());
        if limit < length as u64 {
            return Err(limits.too_large(length, limit));
        }
        buffer.extend(&chunk)?;
        clock.received = length as u64;
        data = clock.next(source).await?;
    }
    Ok(buffer.finish())
}

/// A body that takes longer gives way where others need its room and it is slow.
pub const QUICK: Duration = Duration::from_millis(500);

/// Measures how long a body takes to arrive. One that takes long may have to give way.
#[derive(Debug)]
pub struct PaceClock<'l> {
    limits: &'l Limits,
    /// When the body had to be waited for the first time.
    since: Option<Instant>,
    /// What it is among those who give way, once it takes long.
    holder: Option<Holder>,
    /// Bytes of the body that have arrived.
    pub received: u64,
}

impl PaceClock<'_> {
    /// A clock that starts when the body has to be waited for.
    pub fn new(limits: &Limits) -> PaceClock<'_> {
        PaceClock { limits, since: None, holder: None, received: 0 }
    }

    /// The next piece of a body, unless it comes too slowly.
    ///
    /// # Errors
    /// [`Error::BodyTimeout`]; [`Error::OutOfBudget`] where it is the slowest and others need its room; and those of
    /// the source.
    pub async fn next(&mut self, source: &mut impl Source) -> Result<Option<Bytes>, Error> {
        let mut next = std::pin::pin!(source.next());
        // Bytes that came with the head need neither clock nor timer.
        if let Poll::Ready(there) =
            poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await
        {
            return there;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let allowed = self.limits.pace.allowed(self.received);
        let until = allowed.map(|it| since + it);
        let quick = since + QUICK;
        if self.holder.is_none() {
            let soon = until.map_or(quick, |it| it.min(quick));
            if let Ok(there) = tokio::time::timeout_at(soon.into(), next.as_mut()).await {
                return there;
            }
        }
        let holder = self.holder.get_or_insert_with(|| self.limits.budget.yielding().enter());
        holder.note(self.received, self.received);
        let next = poll_fn(|context| match next.as_mut().poll(context) {
            Poll::Ready(there) => Poll::Ready(there),
            Poll::Pending => holder.poll_asked(context).map(|()| Err(gave_way())),
        });
        match (until, allowed) {
            (Some(until), Some(allowed)) => {
                let late = |_| Error::BodyTimeout(allowed);
                tokio::time::timeout_at(until.into(), next).await.map_err(late)?
            }
            _ => next.await,
        }
    }
}

/// The error of a body that was the slowest of all when there was no room for others.
pub fn gave_way() -> Error {
    Error::OutOfBudget(
        "there is no memory for more requests, and this one came too slowly: it gave way to others"
            .to_owned(),
    )
}
