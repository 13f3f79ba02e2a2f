//! A connection that one task reads and writes while another part of it watches whether the peer has left.
//!
//! A peer that has sent all that it will send may still wait for its answer: the end of its bytes does not tell. The
//! kernel of a peer that has closed the connection answers further bytes with a reset, and HTTP/1.1 has bytes that may
//! be sent before any reply: those of an interim one; and some that may be sent between the chunks of a reply. HTTP/1.0
//! has none, so its peers get their answer in any case.

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

use super::{
    arrival::{Arrival, is_read_closed},
    shared_tls::SharedTls,
};

/// In front of a reply: one that announces another one. Every client of HTTP/1.1 must take it, whether it asked for it
/// or not.
pub const BEFORE_A_REPLY: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Between two chunks of a reply: the length of the next one may begin with zeros, and the last one's is nothing else.
pub const BETWEEN_CHUNKS: &[u8] = b"0";

/// First and longest pause between two looks at a connection.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The kernel takes bytes of an answer in parts while so many are not under way. It would hold megabytes for each peer
/// that reads slowly, and all models would wait while parts for them are made.
const MOST_UNSENT: u32 = 32 << 10;

/// A TCP connection that is watched.
pub struct SharedStream {
    /// Reads know from a short read that no more is there, and spare a call of the system.
    read: OwnedReadHalf,
    write: Arc<OwnedWriteHalf>,
}

impl SharedStream {
    /// Splits a connection from what watches it.
    pub fn new(stream: TcpStream) -> (SharedStream, WatchedStream) {
        let (read, write) = stream.into_split();
        let write = Arc::new(write);
        let watched = WatchedStream::Plain(write.clone());
        (SharedStream { read, write }, watched)
    }
}

/// What watches a connection.
pub enum WatchedStream {
    /// One without TLS.
    Plain(Arc<OwnedWriteHalf>),
    /// One with TLS.
    Tls(SharedTls),
}

impl WatchedStream {
    /// Returns when the peer has left. One that has only sent its last byte has not. Where `may_ask`, `question` may be
    /// sent to find out which of the two it is: bytes that mean nothing there. Else a peer counts as present until its
    /// kernel says otherwise.
    pub async fn departed(&self, question: &'static [u8], may_ask: impl Fn() -> bool) {
        if self.end_of_bytes().await.is_err() {
            return;
        }
        let (mut pause, mut rest) = (FIRST_LOOK, question);
        loop {
            if !rest.is_empty() && (rest.len() < question.len() || may_ask()) {
                match self.try_write(rest).await {
                    Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                    Err(_) => return,
                }
            }
            sleep(pause).await;
            if self.has_failed() {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns when the peer has sent its last byte, whether or not all are read; an error where nothing can reach it
    /// any more.
    async fn end_of_bytes(&self) -> io::Result<()> {
        loop {
            let has_more = match self {
                WatchedStream::Plain(stream) => (**stream).as_ref().peek(&mut [0]).await? != 0,
                WatchedStream::Tls(stream) => stream.has_more().await?,
            };
            if !has_more || self.is_read_closed() {
                return Ok(());
            }
            // A part of a body, or the next request, which is not read yet.
            sleep(LONGEST_PAUSE).await;
        }
    }

    fn is_read_closed(&self) -> bool {
        match self {
            WatchedStream::Plain(stream) => is_read_closed((**stream).as_ref()),
            WatchedStream::Tls(stream) => stream.is_read_closed(),
        }
    }

    /// Writes what there is room for, and how much that was.
    async fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            WatchedStream::Plain(stream) => match stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                written => written,
            },
            WatchedStream::Tls(stream) => stream.try_write(bytes).await,
        }
    }

    /// From now on the kernel keeps little of what the peer has no room for.
    pub fn keep_little_unsent(&self) {
        let kept = match self {
            WatchedStream::Plain(stream) => {
                SockRef::from((**stream).as_ref()).set_tcp_notsent_lowat(MOST_UNSENT)
            }
            WatchedStream::Tls(stream) => stream.keep_unsent(MOST_UNSENT),
        };
        if let Err(error) = kept {
            tracing::debug!(%error, "cannot set TCP_NOTSENT_LOWAT");
        }
    }

    fn has_failed(&self) -> bool {
        match self {
            WatchedStream::Plain(stream) => !matches!((**stream).as_ref().take_error(), Ok(None)),
            WatchedStream::Tls(stream) => stream.has_failed(),
        }
    }
}

impl Arrival for SharedStream {
    fn has_arrived(&self) -> bool {
        self.read.as_ref().has_arrived()
    }

    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.read.as_ref().poll_read_ready(context).map(drop)
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Both ends of a connection, of which the first has sent a byte that the other has not read.
    async fn pair() -> (TcpStream, WatchedStream, SharedStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(b"G").await.unwrap();
        let (shared, watched) = SharedStream::new(listener.accept().await.unwrap().0);
        (client, watched, shared)
    }

    #[tokio::test]
    async fn a_peer_that_leaves_behind_bytes_that_are_not_read_has_left() {
        let (client, watched, _shared) = pair().await;
        drop(client);
        tokio::time::timeout(Duration::from_secs(60), watched.departed(BEFORE_A_REPLY, || true))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_has_only_sent_its_last_byte_is_asked_and_has_not_left() {
        let (mut client, watched, _shared) = pair().await;
        client.shutdown().await.unwrap();
        let mut asked = [0; BEFORE_A_REPLY.len()];
        tokio::select! {
            () = watched.departed(BEFORE_A_REPLY, || true) => panic!("it is there"),
            read = client.read_exact(&mut asked) => drop(read.unwrap()),
        }
        assert_eq!(asked, BEFORE_A_REPLY);
    }

    #[tokio::test]
    async fn the_kernel_takes_little_of_an_answer_in_parts_that_its_peer_does_not_read() {
        for is_bounded in [false, true] {
            let (client, watched, mut shared) = pair().await;
            if is_bounded {
                watched.keep_little_unsent();
            }
            let (part, mut taken) = ([0; 4096], 0);
            while let Ok(written) =
                tokio::time::timeout(Duration::from_millis(50), shared.write(&part)).await
            {
                taken += written.unwrap();
            }
            // What the peer's kernel takes is its own choice.
            let unread = rustix::io::ioctl_fionread(&client).unwrap();
            let unsent = taken as u64 - unread;
            assert_eq!(unsent <= u64::from(2 * MOST_UNSENT), is_bounded, "{unsent} bytes");
        }
    }
}
