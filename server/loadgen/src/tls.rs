//! TLS to a server: which authorities are believed, and a stream that does not block.

use std::{
    fmt, fs,
    io::{self, ErrorKind, Read, Write},
    net::TcpStream as BlockingStream,
    path::PathBuf,
    sync::Arc,
};

use mio::net::TcpStream;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use crate::Error;

/// Whose certificates are believed.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Trust {
    /// Believe certificates of https:// servers that the authorities in this file have signed, in PEM. Without it those
    /// that this machine believes, and those of Mozilla's list
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Believe any certificate of https:// servers
    #[arg(long, short = 'k')]
    insecure: bool,
}

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
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|it| Error::plan("TLS", it.to_string()))?;
        let config = match (&trust.cacert, trust.insecure) {
            (_, true) => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
                .with_no_client_auth(),
            (Some(file), false) => {
                config.with_root_certificates(authorities(file)?).with_no_client_auth()
            }
            (None, false) => config.with_root_certificates(everybodys()).with_no_client_auth(),
        };
        Ok(Tls(Arc::new(config)))
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

impl Trust {
    /// Is a file of authorities named?
    pub(crate) fn names_authorities(&self) -> bool {
        self.cacert.is_some()
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

/// TLS over `stream` to a server of that name, whatever its certificate: for whoever only asks whether it answers.
/// Nothing is sent yet.
///
/// # Errors
/// When `host` is neither a name nor an address.
pub fn unverified<S: Read + Write>(stream: S, host: &str) -> io::Result<impl Read + Write> {
    let tls = Tls::new(&Trust { cacert: None, insecure: true });
    let dialer = tls.and_then(|it| it.dialer(host, "http/1.1")).map_err(io::Error::other)?;
    Ok(StreamOwned::new(dialer.session()?, stream))
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

/// The authorities of a file.
fn authorities(file: &PathBuf) -> Result<RootCertStore, Error> {
    let pem = fs::read(file).map_err(|source| Error::File { path: file.clone(), source })?;
    let mut roots = RootCertStore::empty();
    let wrong = |problem: String| {
        let path = file.display();
        Error::plan("--cacert", format!("{path}: expected certificates in PEM: {problem}"))
    };
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|it| wrong(it.to_string()))?;
        roots.add(certificate).map_err(|it| wrong(it.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("there is none".to_owned())),
        false => Ok(roots),
    }
}

/// The authorities that this machine believes, and Mozilla's list: a container may have none.
fn everybodys() -> RootCertStore {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Believes every certificate. What it signs must be signed by its key all the same.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
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
