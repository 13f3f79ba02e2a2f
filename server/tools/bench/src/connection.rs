//! One connection: opens its socket, writes a prebuilt request, reads the reply. It knows nothing of
//! schedules or counts; each call says what has come of the request so far.

use std::{
    fmt,
    io::{self, ErrorKind},
    net::SocketAddr,
};

use mio::{Interest, Registry, Token, net::TcpStream};

use crate::{
    Request, Target,
    check::BodyHash,
    failures::NoReply,
    grpc,
    http2::{Broken, Session},
    reply::{Fed, Parser, ReplyHead},
    stream::Stream,
    tally::beginning,
    tls::Dialer,
};

/// As many bytes of a body are kept, so that the first error of a status can be shown: 300 characters in any language.
const BEGINNING: usize = 1200;

/// Bytes that are shown of what is not HTTP.
const SHOWN: usize = 60;
/// What went wrong where the system has no words for it.
const CLOSED: &str = "the connection was closed before the reply was complete";
const BROKEN: &str = "the stream or the connection was ended, or what came is not HTTP/2";
const MIXED: &str = "a request of HTTP/1.1 over a connection of gRPC";

/// What has come of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Wait for the socket.
    Pending,
    /// The reply is complete; `bytes` of it were read, head and body.
    Replied { status: u16, bytes: u64 },
    /// There will be no reply. The connection is closed.
    Failed(NoReply),
}

/// A request as it is written.
#[derive(Debug)]
pub(crate) enum Wire {
    /// HTTP/1.1: head and body.
    Http1(Vec<u8>),
    /// gRPC over HTTP/2: a header block and a message, which are cut into frames for each connection.
    Grpc { head: Vec<u8>, message: Vec<u8> },
}

impl Wire {
    pub(crate) fn new(request: &Request, target: &Target) -> Wire {
        let authority = &target.authority();
        match request.is_grpc() {
            true => {
                let (head, message) = request.call(target.scheme(), authority);
                Wire::Grpc { head, message }
            }
            false => Wire::Http1(request.encode(authority)),
        }
    }

    /// Bytes of the request; of a gRPC call those that its frames carry.
    pub(crate) fn len(&self) -> usize {
        match self {
            Wire::Http1(wire) => wire.len(),
            Wire::Grpc { head, message } => head.len() + message.len(),
        }
    }
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
    dialer: Option<Dialer>,
    token: Token,
    socket: Socket,
    speech: Speech,
    /// Bytes of the reply so far.
    read: u64,
    /// Is a request on its way?
    busy: bool,
    /// The server has sent all it will send: what is in the socket is the rest.
    peer_closed: bool,
    /// The first bytes of the reply's body.
    pub(crate) beginning: Vec<u8>,
    /// What is kept of the reply's body; to be set before a request and taken after it.
    pub(crate) capture: Capture,
    /// What went wrong with the last request that failed.
    problem: String,
    /// The content type of the last reply whose status was not 2xx, where HTTP/1.1 says it.
    content_type: String,
}

/// What is spoken over the socket, and how far.
#[derive(Debug)]
enum Speech {
    Http1 {
        parser: Parser,
        /// Bytes of the request that the socket has taken.
        written: usize,
    },
    Http2(Session),
}

impl Speech {
    /// At the beginning of a connection.
    fn new(is_grpc: bool) -> Speech {
        match is_grpc {
            true => Speech::Http2(Session::new()),
            false => Speech::Http1 { parser: Parser::new(), written: 0 },
        }
    }

    /// What is to be written next of this request.
    fn unwritten<'a>(&'a self, wire: &'a Wire) -> &'a [u8] {
        match (self, wire) {
            (Speech::Http1 { written, .. }, Wire::Http1(wire)) => {
                wire.get(*written..).unwrap_or_default()
            }
            (Speech::Http2(session), _) => session.unwritten(),
            (Speech::Http1 { .. }, Wire::Grpc { .. }) => &[],
        }
    }

    fn wrote(&mut self, count: usize) {
        match self {
            Speech::Http1 { written, .. } => *written += count,
            Speech::Http2(session) => session.wrote(count),
        }
    }
}

#[derive(Debug)]
enum Socket {
    Closed,
    Opening(TcpStream),
    Open(Stream),
}

impl Connection {
    /// A connection that its first request opens.
    pub(crate) fn closed(
        address: SocketAddr,
        dialer: Option<Dialer>,
        token: Token,
        is_grpc: bool,
    ) -> Connection {
        Connection {
            address,
            dialer,
            token,
            socket: Socket::Closed,
            speech: Speech::new(is_grpc),
            read: 0,
            busy: false,
            peer_closed: false,
            beginning: Vec::with_capacity(BEGINNING),
            capture: Capture::Nothing,
            problem: String::new(),
            content_type: String::new(),
        }
    }

    /// What went wrong with the last request that failed.
    pub(crate) fn problem(&self) -> &str {
        &self.problem
    }

    /// The content type of the last reply whose status was not 2xx, where HTTP/1.1 says it.
    pub(crate) fn content_type(&self) -> &str {
        &self.content_type
    }

    /// Takes a socket that is open already. Blocks for the handshake of TLS, for as long as the socket's reads and
    /// writes do.
    pub(crate) fn open(
        mut self,
        stream: std::net::TcpStream,
        registry: &Registry,
    ) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        let mut stream = match &self.dialer {
            Some(dialer) => Stream::Tls(Box::new(dialer.shake(stream)?.unblocked()?)),
            None => {
                stream.set_nonblocking(true)?;
                Stream::Plain(TcpStream::from_std(stream))
            }
        };
        let interests = Interest::READABLE | Interest::WRITABLE;
        registry.register(stream.socket(), self.token, interests)?;
        self.socket = Socket::Open(stream);
        Ok(self)
    }

    /// Would a request have to open a socket first?
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.socket, Socket::Closed)
    }

    /// Begins a request. The connection has none on its way.
    pub(crate) fn start(&mut self, wire: &Wire, registry: &Registry) -> Outcome {
        self.busy = true;
        self.read = 0;
        self.beginning.clear();
        match (&mut self.speech, wire) {
            (Speech::Http2(session), Wire::Grpc { head, message }) => session.begin(head, message),
            (Speech::Http1 { written, .. }, _) => *written = 0,
            (Speech::Http2(_), Wire::Http1(_)) => return self.fail(NoReply::Malformed, &MIXED),
        }
        if self.is_closed() {
            self.peer_closed = false;
            return match self.begin_connect(registry) {
                Ok(stream) => {
                    self.socket = Socket::Opening(stream);
                    Outcome::Pending
                }
                Err(error) => self.fail(NoReply::Connect, &error),
            };
        }
        match self.write(wire) {
            Ok(()) => Outcome::Pending,
            Err(error) => self.fail(NoReply::Reset, &error),
        }
    }

    /// Goes on after an event. `closing` says that the server sends no more. `buffer` is scratch space.
    pub(crate) fn advance(
        &mut self,
        wire: Option<&Wire>,
        buffer: &mut [u8],
        closing: bool,
    ) -> Outcome {
        self.peer_closed |= closing;
        if let Socket::Opening(stream) = &self.socket {
            match opened(stream) {
                Ok(false) => return Outcome::Pending,
                Ok(true) => {
                    if let Err(error) = self.set_open() {
                        return self.fail(NoReply::Connect, &error);
                    }
                }
                Err(error) => return self.fail(NoReply::Connect, &error),
            }
        }
        let Some(wire) = wire.filter(|_| self.busy) else {
            self.idle(buffer);
            return Outcome::Pending;
        };
        // A server that refuses a large body may answer and close before it has read all of it. Its
        // reply counts, so that a failure to write is looked at only when there is none.
        let sent = self.write(wire);
        let outcome = self.read(wire, buffer);
        // What was read may have made room for more, or want an answer.
        let sent = sent.and_then(|()| self.write(wire));
        match (outcome, sent) {
            (Outcome::Pending, Err(error)) => self.fail(NoReply::Reset, &error),
            (outcome, _) => outcome,
        }
    }

    /// Nothing is on its way: in HTTP/1.1 nothing may come then but the end, in HTTP/2 what is about the connection.
    fn idle(&mut self, buffer: &mut [u8]) {
        let nothing = Wire::Grpc { head: Vec::new(), message: Vec::new() };
        if matches!(self.speech, Speech::Http2(_)) {
            self.read(&nothing, buffer);
            if self.write(&nothing).is_err() {
                self.close();
            }
        }
        if self.peer_closed {
            self.close();
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

    fn set_open(&mut self) -> io::Result<()> {
        if let Socket::Opening(stream) = std::mem::replace(&mut self.socket, Socket::Closed) {
            // Without it the request is still sent, only later.
            let _ = stream.set_nodelay(true);
            self.socket = Socket::Open(match &self.dialer {
                Some(dialer) => Stream::Tls(Box::new(dialer.over(stream)?)),
                None => Stream::Plain(stream),
            });
        }
        Ok(())
    }

    fn write(&mut self, wire: &Wire) -> io::Result<()> {
        let Socket::Open(stream) = &mut self.socket else { return Ok(()) };
        loop {
            let rest = self.speech.unwritten(wire);
            if rest.is_empty() {
                return stream.flush();
            }
            match stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.speech.wrote(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read(&mut self, wire: &Wire, buffer: &mut [u8]) -> Outcome {
        loop {
            let Socket::Open(stream) = &mut self.socket else { return Outcome::Pending };
            let is_emptied = stream.is_emptied_by_short_reads();
            let count = match stream.read(buffer) {
                Ok(0) => {
                    let ended = match &mut self.speech {
                        Speech::Http1 { parser, .. } => parser.end_of_stream(),
                        Speech::Http2(_) => None,
                    };
                    self.peer_closed = true;
                    return match ended {
                        Some(head) => self.finish(head, wire),
                        None => self.fail(NoReply::Reset, &CLOSED),
                    };
                }
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Outcome::Pending,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.fail(NoReply::Reset, &error),
            };
            let piece = buffer.get(..count).unwrap_or_default();
            self.read += count as u64;
            match self.feed(piece, wire) {
                Ok(Some(head)) => return self.finish(head, wire),
                Err(NoReply::Malformed) => {
                    let piece = beginning(piece.get(..SHOWN).unwrap_or(piece));
                    let problem = format!("what came is not HTTP/1: '{piece}'");
                    return self.fail(NoReply::Malformed, &problem);
                }
                Err(failure) => return self.fail(failure, &BROKEN),
                // A short read has emptied the socket; the next bytes make a new event. The end of the
                // stream does not where it came with this one.
                Ok(None) if is_emptied && count < buffer.len() && !self.peer_closed => {
                    return Outcome::Pending;
                }
                Ok(None) => {}
            }
        }
    }

    /// Takes a piece of the stream; the head of the reply when it is complete.
    fn feed(&mut self, piece: &[u8], wire: &Wire) -> Result<Option<ReplyHead>, NoReply> {
        let (capture, beginning) = (&mut self.capture, &mut self.beginning);
        let mut keep = |body: &[u8]| {
            let room = BEGINNING.saturating_sub(beginning.len()).min(body.len());
            beginning.extend_from_slice(body.get(..room).unwrap_or_default());
            match capture {
                Capture::Nothing => {}
                Capture::Hash(hash) => hash.update(body),
                Capture::Body(kept) => kept.extend_from_slice(body),
            }
        };
        match (&mut self.speech, wire) {
            (Speech::Http1 { parser, .. }, _) => match parser.feed(piece, &mut keep) {
                // One request, one reply: bytes behind it belong to nothing that was asked.
                Ok(Fed::Done { used, .. }) if used < piece.len() => Err(NoReply::Malformed),
                Ok(Fed::Done { head, .. }) => Ok(Some(head)),
                Ok(Fed::More) => Ok(None),
                Err(_) => Err(NoReply::Malformed),
            },
            (Speech::Http2(session), Wire::Grpc { message, .. }) => {
                match session.feed(piece, message, &mut keep) {
                    Ok(ended) => Ok(ended.map(|it| ReplyHead {
                        status: grpc::http_status(it.code),
                        keep_alive: it.keep_alive,
                    })),
                    Err(Broken) => Err(NoReply::Reset),
                }
            }
            (Speech::Http2(_), Wire::Http1(_)) => Err(NoReply::Malformed),
        }
    }

    fn finish(&mut self, head: ReplyHead, wire: &Wire) -> Outcome {
        self.busy = false;
        if !(200..300).contains(&head.status) {
            self.content_type.clear();
            if let Speech::Http1 { parser, .. } = &self.speech {
                self.content_type.push_str(parser.content_type());
            }
        }
        // Of HTTP/2 there may be a frame left that is about the connection.
        let all_sent = match self.speech {
            Speech::Http1 { .. } => self.speech.unwritten(wire).is_empty(),
            Speech::Http2(_) => true,
        };
        if !head.keep_alive || self.peer_closed || !all_sent {
            self.close();
        }
        Outcome::Replied { status: head.status, bytes: self.read }
    }

    fn fail(&mut self, failure: NoReply, problem: &dyn fmt::Display) -> Outcome {
        self.problem = problem.to_string();
        self.abandon();
        Outcome::Failed(failure)
    }

    fn close(&mut self) {
        self.socket = Socket::Closed;
        self.speech = Speech::new(matches!(self.speech, Speech::Http2(_)));
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
