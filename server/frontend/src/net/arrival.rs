//! Whether bytes have arrived on a connection that nobody has read yet, and whether they are the last.

use std::{
    future::Future,
    mem::MaybeUninit,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use socket2::SockRef;
use tokio::{
    io::{AsyncBufRead, Interest, ReadBuf},
    net::TcpStream,
};

use super::tls::TlsStream;

/// A stream that knows whether bytes have arrived that were not read yet.
pub trait Arrival {
    /// Asks the kernel, which knows it before the runtime does.
    fn has_arrived(&self) -> bool;

    /// Ready once a read may give bytes, the end or an error. Reads nothing of what the peer has to say.
    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

impl Arrival for TcpStream {
    fn has_arrived(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        SockRef::from(self).peek(&mut byte).is_ok_and(|it| 0 < it)
    }

    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // The runtime may take a stream for readable that is not; a look tells it so.
        let mut byte = [MaybeUninit::uninit()];
        self.poll_peek(context, &mut ReadBuf::uninit(&mut byte)).map(drop)
    }
}

impl Arrival for TlsStream {
    fn has_arrived(&self) -> bool {
        self.get_ref().0.has_arrived()
    }

    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // The session may have bytes that the kernel has given away, and the kernel some that are none of the peer's.
        Pin::new(self).poll_fill_buf(context).map(drop)
    }
}

/// Has the kernel been told that the peer has sent its last byte? That stands behind bytes which are not read yet.
pub fn is_read_closed(stream: &TcpStream) -> bool {
    let ready = pin!(stream.ready(Interest::READABLE));
    let now = ready.poll(&mut Context::from_waker(Waker::noop()));
    matches!(now, Poll::Ready(Ok(ready)) if ready.is_read_closed())
}
