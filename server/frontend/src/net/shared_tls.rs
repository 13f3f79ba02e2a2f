//! The same for a connection of TLS, of which only the session knows where its peer's bytes end.
//!
//! The lock is never waited for: the connection and what watches it are polled by one task.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use socket2::SockRef;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use super::{
    arrival::{Arrival, is_read_closed},
    tls::TlsStream,
};

/// A TLS connection that is watched. Clones are the same connection.
#[derive(Clone)]
pub struct SharedTls(Arc<Mutex<TlsStream>>);

impl SharedTls {
    /// Lets a connection be watched.
    pub fn new(stream: TlsStream) -> SharedTls {
        SharedTls(Arc::new(Mutex::new(stream)))
    }

    fn stream(&self) -> MutexGuard<'_, TlsStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for bytes of the peer, and leaves them where they are; false where it has said that there are no more.
    ///
    /// # Errors
    /// Where the connection ends without that word.
    pub(super) async fn has_more(&self) -> io::Result<bool> {
        poll_fn(|context| {
            let mut stream = self.stream();
            Pin::new(&mut *stream).poll_fill_buf(context).map_ok(|bytes| !bytes.is_empty())
        })
        .await
    }

    /// Writes what there is room for, and how much that was. Does not wait.
    ///
    /// # Errors
    /// Where the connection has ended.
    pub(super) async fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|context| {
            let mut stream = self.stream();
            Poll::Ready(match Pin::new(&mut *stream).poll_write(context, bytes) {
                Poll::Pending => Ok(0),
                Poll::Ready(Err(error)) => Err(error),
                Poll::Ready(Ok(written)) => match Pin::new(&mut *stream).poll_flush(context) {
                    Poll::Ready(Err(error)) => Err(error),
                    _ => Ok(written),
                },
            })
        })
        .await
    }

    /// Has the peer sent its last byte, whether or not all are read?
    pub(super) fn is_read_closed(&self) -> bool {
        is_read_closed(self.stream().get_ref().0)
    }

    /// From now on the kernel keeps at most about so many bytes that the peer has no room for.
    ///
    /// # Errors
    /// Where the system refuses it.
    pub(super) fn keep_unsent(&self, most: u32) -> io::Result<()> {
        SockRef::from(self.stream().get_ref().0).set_tcp_notsent_lowat(most)
    }

    /// Has the connection ended?
    pub(super) fn has_failed(&self) -> bool {
        !matches!(self.stream().get_ref().0.take_error(), Ok(None))
    }
}

impl Arrival for SharedTls {
    fn has_arrived(&self) -> bool {
        self.stream().has_arrived()
    }

    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.stream().poll_arrival(context)
    }
}

impl AsyncRead for SharedTls {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_read(context, buffer)
    }
}

impl AsyncWrite for SharedTls {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write(context, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_shutdown(context)
    }
}
