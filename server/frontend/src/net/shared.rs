//! A TCP connection that one task reads and writes while another part of it watches whether the peer has left.
//!
//! A peer that has sent all that it will send may still wait for its answer: the end of its bytes does not tell. The
//! kernel of a peer that has closed the connection answers further bytes with a reset, and HTTP/1.1 has bytes that may
//! be sent before any reply: those of an interim one.

use std::{
    io::{self, IoSlice},
    net::Shutdown,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::sleep,
};

use super::arrival::Arrival;

/// A reply that announces another one. Every client of HTTP/1.1 must take it, whether it asked for it or not.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// First and longest pause between two looks at a connection.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A TCP connection that is watched.
pub struct SharedStream {
    /// Reads know from a short read that no more is there, and spare a call of the system.
    read: OwnedReadHalf,
    write: Arc<OwnedWriteHalf>,
}

impl SharedStream {
    /// Splits a connection from what watches it.
    pub fn new(stream: TcpStream) -> (SharedStream, Watched) {
        let (read, write) = stream.into_split();
        let write = Arc::new(write);
        let watched = Watched(write.clone());
        (SharedStream { read, write }, watched)
    }
}

/// What watches a connection.
pub struct Watched(Arc<OwnedWriteHalf>);

impl Watched {
    fn stream(&self) -> &TcpStream {
        (*self.0).as_ref()
    }

    /// Returns when the peer has sent its last byte.
    pub async fn end_of_bytes(&self) {
        loop {
            match self.stream().peek(&mut [0]).await {
                Ok(0) | Err(_) => return,
                // A part of a body, or the next request, which is not read yet.
                Ok(_) => sleep(LONGEST_PAUSE).await,
            }
        }
    }

    /// Returns when the peer, which has sent its last byte, has left. Sends an interim reply to find that out:
    /// `may_ask` is false where none may be sent at present.
    pub async fn left(&self, may_ask: impl Fn() -> bool) {
        let (mut pause, mut rest) = (FIRST_LOOK, INTERIM);
        loop {
            if !rest.is_empty() && (rest.len() < INTERIM.len() || may_ask()) {
                match self.stream().try_write(rest) {
                    Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
            sleep(pause).await;
            if !matches!(self.stream().take_error(), Ok(None)) {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Arrival for SharedStream {
    fn has_arrived(&self) -> bool {
        self.read.as_ref().has_arrived()
    }
}

impl AsyncRead for SharedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(context, buffer)
    }
}

impl SharedStream {
    fn poll_with(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let stream = (*self.write).as_ref();
        loop {
            ready!(stream.poll_write_ready(context))?;
            match write(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, |stream| stream.try_write(data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(context, |stream| stream.try_write_vectored(data))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream: &TcpStream = (*self.write).as_ref();
        Poll::Ready(SockRef::from(stream).shutdown(Shutdown::Write))
    }
}
