//! What a connection is spoken through: a socket as it is, or TLS over it. Neither blocks.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;

use crate::tls::TlsStream;

/// What is spoken through.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    /// Hands on what was written, as far as the socket takes it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => match stream.flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
                flushed => flushed,
            },
        }
    }

    /// Has a read that does not fill its buffer taken all there is?
    pub(crate) fn is_emptied_by_short_reads(&self) -> bool {
        matches!(self, Stream::Plain(_))
    }

    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => &mut stream.socket,
        }
    }
}
