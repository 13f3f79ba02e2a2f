//! Whether bytes have arrived on a connection that nobody has read yet.

use std::mem::MaybeUninit;

use socket2::SockRef;
use tokio::net::TcpStream;

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
