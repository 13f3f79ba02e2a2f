//! The stream of a connection of HTTP/2, which notes what its peer has sent. It reads a long frame only where there is
//! memory for it.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::{room::USUAL_BUFFER, watch::Activity};
use crate::net::{arrival::Arrival, footprint::ConnectionBytes, places::ConnectionPlace};

/// How often room is asked for that there is not.
const PAUSE: Duration = Duration::from_millis(20);

/// A frame waits for its room for so long at most. Then its connection is closed: all may wait for what the others
/// hold of their frames.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A stream that notes what its peer has sent.
pub(super) struct Heard<'p, S> {
    stream: S,
    activity: Arc<Activity>,
    place: &'p ConnectionPlace,
    /// Room for read buffers beyond the usual, which hold frames until these are complete.
    room: ConnectionBytes,
    /// Bytes that were read into usual ones since the last other one.
    usual: usize,
    wait: Option<Wait>,
}

/// A frame waits for room.
struct Wait {
    until: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<'p, S> Heard<'p, S> {
    pub(super) fn new(
        stream: S,
        activity: Arc<Activity>,
        place: &'p ConnectionPlace,
    ) -> Heard<'p, S> {
        Heard { stream, activity, place, room: place.no_room(), usual: 0, wait: None }
    }

    /// Is there memory for a read buffer of that size?
    fn has_room(&mut self, bytes: usize) -> bool {
        if bytes <= USUAL_BUFFER {
            // So many bytes later the frame is complete for which the room was taken.
            if self.room.bytes() <= self.usual {
                self.room.shrink_to(0);
            }
            return true;
        }
        self.usual = 0;
        self.room.grow_to(bytes)
    }

    /// Ready once there is memory for a read buffer of that size. Those who may give way make room until then, and the
    /// peer's bytes wait where they are.
    fn poll_room(&mut self, bytes: usize, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.has_room(bytes) {
            self.place.press(bytes);
            let now = Instant::now();
            let wait = self.wait.get_or_insert_with(|| {
                let timer = Box::pin(tokio::time::sleep_until(now + PAUSE));
                Wait { until: now + LONGEST_WAIT, timer }
            });
            if wait.until <= now {
                let text = "no memory is left for frames";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, text)));
            }
            ready!(wait.timer.as_mut().poll(context));
            wait.timer.as_mut().reset(now + PAUSE);
        }
        self.wait = None;
        Poll::Ready(Ok(()))
    }
}

impl<S: Arrival> Heard<'_, S> {
    /// Ready once the peer has sent something.
    pub(super) fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_arrival(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_room(buffer.remaining(), context))?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let length = buffer.filled().len() - before;
        self.usual += length;
        self.activity.has_read(length);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use inference::ledger::Ledger;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::net::{footprint::Footprint, places::Places};

    #[tokio::test(start_paused = true)]
    async fn a_long_frame_waits_for_its_room_and_ends_its_connection_only_after_long() {
        let footprint = Footprint::new(&Ledger::new(0, Some(0)));
        let places = Places::new(2, footprint.clone());
        let place = places.take(Ipv4Addr::LOCALHOST.into()).unwrap();
        let activity = Arc::new(Activity::new(LONGEST_WAIT, place.seat().clone()));
        let bytes = [1u8; 2 * USUAL_BUFFER];
        let mut heard = Heard::new(&bytes[..], activity, &place);
        let all = footprint.take(footprint.limit() - (64 << 10)).unwrap();
        let mut buffer = [0; 2 * USUAL_BUFFER];
        let waited = tokio::time::timeout(LONGEST_WAIT / 2, heard.read(&mut buffer)).await;
        assert!(waited.is_err() && footprint.is_short());
        // Usual buffers have room in any case.
        drop(all);
        assert_eq!(heard.read(&mut buffer).await.unwrap(), bytes.len());
        assert_eq!(heard.room.bytes(), bytes.len());
        let _all = footprint.take(footprint.limit() - (128 << 10)).unwrap();
        let (began, mut more) = (Instant::now(), vec![0; 1 << 20]);
        let error = heard.read(&mut more).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(LONGEST_WAIT <= began.elapsed());
    }
}
