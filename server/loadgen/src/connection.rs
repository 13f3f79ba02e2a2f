//! One connection: opens its socket, writes a prebuilt request, reads the reply. It knows nothing of
//! schedules or counts; each call says what has come of the request so far.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::SocketAddr,
};

use mio::{Interest, Registry, Token, net::TcpStream};

use crate::{
    check::BodyHash,
    reply::{Fed, Head, Parser},
    tally::Failure,
};

/// What has come of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Wait for the socket.
    Pending,
    /// The reply is complete; `bytes` of it were read, head and body.
    Replied { status: u16, bytes: u64 },
    /// There will be no reply. The connection is closed.
    Failed(Failure),
}

/// What is done with the body of a reply.
#[derive(Debug)]
pub(crate) enum Capture {
    Nothing,
    Hash(BodyHash),
    Body(Vec<u8>),
}

/// A connection, open or not, with at most one request on its way.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    token: Token,
    socket: Socket,
    parser: Parser,
    /// Bytes of the request that the socket has taken.
    written: usize,
    /// Bytes of the reply so far.
    read: u64,
    /// Is a request on its way?
    busy: bool,
    /// The server has sent all it will send: what is in the socket is the rest.
    peer_closed: bool,
    /// What is kept of the reply's body; to be set before a request and taken after it.
    pub(crate) capture: Capture,
}

#[derive(Debug)]
enum Socket {
    Closed,
    Opening(TcpStream),
    Open(TcpStream),
}

impl Connection {
    /// A connection over a socket that is open already.
    pub(crate) fn open(
        stream: std::net::TcpStream,
        address: SocketAddr,
        token: Token,
        registry: &Registry,
    ) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Connection {
            address,
            token,
            socket: Socket::Open(stream),
            parser: Parser::new(),
            written: 0,
            read: 0,
            busy: false,
            peer_closed: false,
            capture: Capture::Nothing,
        })
    }

    /// Would a request have to open a socket first?
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.socket, Socket::Closed)
    }

    /// Begins a request. The connection has none on its way.
    pub(crate) fn start(&mut self, wire: &[u8], registry: &Registry) -> Outcome {
        self.busy = true;
        self.written = 0;
        self.read = 0;
        if self.is_closed() {
            self.peer_closed = false;
            let Ok(stream) = self.begin_connect(registry) else {
                return self.fail(Failure::Connect);
            };
            self.socket = Socket::Opening(stream);
            return Outcome::Pending;
        }
        match self.write(wire) {
            Ok(()) => Outcome::Pending,
            Err(_) => self.fail(Failure::Reset),
        }
    }

    /// Goes on after an event. `closing` says that the server sends no more. `buffer` is scratch space.
    pub(crate) fn advance(&mut self, wire: &[u8], buffer: &mut [u8], closing: bool) -> Outcome {
        self.peer_closed |= closing;
        if let Socket::Opening(stream) = &self.socket {
            match opened(stream) {
                Ok(false) => return Outcome::Pending,
                Ok(true) => self.set_open(),
                Err(_) => return self.fail(Failure::Connect),
            }
        }
        if !self.busy {
            // Nothing may come on an idle connection but its end.
            if self.peer_closed {
                self.close();
            }
            return Outcome::Pending;
        }
        // A server that refuses a large body may answer and close before it has read all of it. Its
        // reply counts, so that a failure to write is looked at only when there is none.
        let sent = self.write(wire);
        match self.read(wire.len(), buffer) {
            Outcome::Pending if sent.is_err() => self.fail(Failure::Reset),
            outcome => outcome,
        }
    }

    /// Gives up on the request and closes the connection.
    pub(crate) fn abandon(&mut self) {
        self.busy = false;
        self.close();
    }

    fn begin_connect(&self, registry: &Registry) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        registry.register(&mut stream, self.token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(stream)
    }

    fn set_open(&mut self) {
        if let Socket::Opening(stream) = std::mem::replace(&mut self.socket, Socket::Closed) {
            // Without it the request is still sent, only later.
            let _ = stream.set_nodelay(true);
            self.socket = Socket::Open(stream);
        }
    }

    fn write(&mut self, wire: &[u8]) -> io::Result<()> {
        let Socket::Open(stream) = &mut self.socket else { return Ok(()) };
        while let Some(rest) = wire.get(self.written..).filter(|it| !it.is_empty()) {
            match stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, wire_len: usize, buffer: &mut [u8]) -> Outcome {
        loop {
            let Socket::Open(stream) = &mut self.socket else { return Outcome::Pending };
            let count = match stream.read(buffer) {
                Ok(0) => {
                    return match self.parser.end_of_stream() {
                        Some(head) => self.finish(head, wire_len),
                        None => self.fail(Failure::Reset),
                    };
                }
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Outcome::Pending,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.fail(Failure::Reset),
            };
            let piece = buffer.get(..count).unwrap_or_default();
            self.read += count as u64;
            let capture = &mut self.capture;
            let fed = self.parser.feed(piece, &mut |body| match capture {
                Capture::Nothing => {}
                Capture::Hash(hash) => hash.update(body),
                Capture::Body(kept) => kept.extend_from_slice(body),
            });
            match fed {
                // One request, one reply: bytes behind it belong to nothing that was asked.
                Ok(Fed::Done { used, .. }) if used < count => return self.fail(Failure::Malformed),
                Ok(Fed::Done { head, .. }) => return self.finish(head, wire_len),
                Err(_) => return self.fail(Failure::Malformed),
                // A short read has emptied the socket; the next bytes make a new event. The end of the
                // stream does not where it came with this one.
                Ok(Fed::More) if count < buffer.len() && !self.peer_closed => {
                    return Outcome::Pending;
                }
                Ok(Fed::More) => {}
            }
        }
    }

    fn finish(&mut self, head: Head, wire_len: usize) -> Outcome {
        self.busy = false;
        if !head.keep_alive || self.peer_closed || self.written < wire_len {
            self.close();
        }
        Outcome::Replied { status: head.status, bytes: self.read }
    }

    fn fail(&mut self, failure: Failure) -> Outcome {
        self.abandon();
        Outcome::Failed(failure)
    }

    fn close(&mut self) {
        self.socket = Socket::Closed;
        self.parser.reset();
    }
}

/// Is the connection open? An error where it never will be.
fn opened(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}
