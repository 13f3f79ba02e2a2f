//! Whether bytes have arrived on a connection that nobody has read yet, and whether they are the last.

use std::{
    future::Future,
    mem::MaybeUninit,
    pin::pin,
    task::{Context, Poll, Waker},
};

use socket2::SockRef;
use tokio::{io::Interest, net::TcpStream};

use super::tls::TlsStream;

/// A stream that knows whether bytes have arrived that were not read yet.
pub trait Arrival {
    /// Asks the kernel, which knows it before the runtime does.
    fn has_arrived(&self) -> bool;
}

impl Arrival for TcpStream {
    fn has_arrived(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        SockRef::from(self).peek(&mut byte).is_ok_and(|it| 0 < it)
    }
}

impl Arrival for TlsStream {
    fn has_arrived(&self) -> bool {
        self.get_ref().0.has_arrived()
    }
}

/// Has the kernel been told that the peer has sent its last byte? That stands behind bytes which are not read yet.
pub fn is_read_closed(stream: &TcpStream) -> bool {
    let ready = pin!(stream.ready(Interest::READABLE));
    let now = ready.poll(&mut Context::from_waker(Waker::noop()));
    matches!(now, Poll::Ready(Ok(ready)) if ready.is_read_closed())
}
