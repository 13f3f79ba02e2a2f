//! TLS to a server: streams that block and that do not.

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::TcpStream as BlockingStream,
    sync::Arc,
};

use mio::net::TcpStream;
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use crate::{Error, trust::Trust};

/// How TLS is spoken to a server.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

/// Makes TLS of connections to one server.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// With these authorities. Reads files.
    ///
    /// # Errors
    /// When the file of authorities cannot be read or holds none.
    pub(crate) fn new(trust: &Trust) -> Result<Tls, Error> {
        trust.config().map(|it| Tls(Arc::new(it)))
    }

    /// To the server of that name, for this protocol (`http/1.1`, `h2`).
    pub(crate) fn dialer(&self, host: &str, protocol: &str) -> Result<Dialer, Error> {
        let mut config = ClientConfig::clone(&self.0);
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::Url {
            given: host.to_owned(),
            problem: "expected a name or an address that a certificate can have",
        })?;
        Ok(Dialer { config: Arc::new(config), name })
    }
}

impl Dialer {
    fn session(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(self.config.clone(), self.name.clone()).map_err(io::Error::other)
    }

    /// Makes TLS of a connection. Does not block: the handshake goes on with reads and writes.
    pub(crate) fn over(&self, socket: TcpStream) -> io::Result<TlsStream> {
        Ok(TlsStream { socket, session: self.session()? })
    }

    /// The same with the handshake, which blocks.
    pub(crate) fn shake(&self, socket: BlockingStream) -> io::Result<Blocking> {
        let mut stream = StreamOwned::new(self.session()?, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Blocking(stream))
    }
}

/// A connection that blocks.
pub(crate) struct Blocking(StreamOwned<ClientConnection, BlockingStream>);

impl Blocking {
    /// The same, not blocking from now on.
    pub(crate) fn unblocked(self) -> io::Result<TlsStream> {
        let (session, socket) = self.0.into_parts();
        socket.set_nonblocking(true)?;
        Ok(TlsStream { socket: TcpStream::from_std(socket), session })
    }
}

impl Read for Blocking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        until_end(self.0.read(buffer))
    }
}

impl Write for Blocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Many servers close the connection without a word of TLS. Where that cuts a reply, HTTP says so.
fn until_end(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
        read => read,
    }
}

/// A connection that does not block. It has read all there is only when it says so: a short read says nothing.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub(crate) socket: TcpStream,
    session: ClientConnection,
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match until_end(self.session.reader().read(buffer)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            self.session.read_tls(&mut self.socket)?;
            let processed = self.session.process_new_packets();
            // The handshake goes on, what has waited for its end leaves, or the peer learns what is wrong. Where it
            // takes nothing any more, what it said before is read all the same; a write says what is wrong.
            let _ = self.flush();
            processed.map_err(|it| io::Error::new(ErrorKind::InvalidData, it))?;
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let count = self.session.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            flushed => flushed?,
        }
        // Until the handshake is over there is room for some bytes only.
        if count == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut self.socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}
