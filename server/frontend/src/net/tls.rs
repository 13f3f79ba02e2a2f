//! TLS on a port: certificates and keys from files, which may change while the server runs, and the
//! handshake.

use std::{fmt, fs, io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        Error as TlsError, RootCertStore, ServerConfig,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
        server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    },
};

use crate::drain::Guard;
use crate::settings::tls::{PemFile, TlsFiles};

/// When the server closes, a handshake gets that long to end, because a request may follow it.
const LAST_CALL: Duration = Duration::from_millis(100);

/// A file of certificates or of a key that cannot be used: the option, the file, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemError {
    file: PemFile,
    problem: String,
}

impl PemError {
    fn new(file: &PemFile, problem: impl Into<String>) -> PemError {
        PemError { file: file.clone(), problem: problem.into() }
    }
}

impl fmt::Display for PemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.problem)
    }
}

impl std::error::Error for PemError {}

/// A TLS connection, on the server's side.
pub type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Makes TLS connections of TCP connections. Clones share one set of certificates.
#[derive(Clone)]
pub struct Acceptor(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    /// The protocols that are offered, the best one first.
    protocols: Vec<Vec<u8>>,
    current: ArcSwap<Current>,
}

/// The content of the files, and the configuration that was made of it.
struct Current {
    content: Content,
    config: Arc<ServerConfig>,
}

#[derive(PartialEq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Acceptor {
    /// TLS with these files. Offers these protocols (`http/1.1`, `h2`) by ALPN. With a file of authorities, clients
    /// need a certificate that one of them has signed. Blocking.
    ///
    /// # Errors
    /// The option, the file, and what is wrong with it.
    pub fn new(files: TlsFiles, protocols: &[&str]) -> Result<Acceptor, PemError> {
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        let current = ArcSwap::from_pointee(load(&files, &protocols, read(&files)?)?);
        Ok(Acceptor(Arc::new(Shared { files, protocols, current })))
    }

    /// Reads the files again. True when they have changed; new connections then use the new content. Blocking.
    ///
    /// # Errors
    /// As [`Acceptor::new`]; the last good content stays in use.
    pub fn refresh(&self) -> Result<bool, PemError> {
        let Shared { files, protocols, current } = &*self.0;
        let content = read(files)?;
        if content == current.load().content {
            return Ok(false);
        }
        current.store(Arc::new(load(files, protocols, content)?));
        Ok(true)
    }

    /// Does the handshake, in at most `longest`, and soon after the server has begun to close.
    ///
    /// # Errors
    /// When the peer does not speak TLS, lacks a required certificate, leaves, or is too slow.
    pub async fn accept(
        &self,
        stream: TcpStream,
        longest: Duration,
        guard: &mut Guard,
    ) -> io::Result<TlsStream> {
        let acceptor = TlsAcceptor::from(self.0.current.load().config.clone());
        let handshake = tokio::time::timeout(longest, acceptor.accept(stream));
        let last_call = async {
            guard.closing().await;
            tokio::time::sleep(LAST_CALL).await;
        };
        tokio::select! {
            accepted = handshake => accepted.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
            () = last_call => Err(io::Error::other("the server closes")),
        }
    }
}

fn read(files: &TlsFiles) -> Result<Content, PemError> {
    let read = |file: &PemFile| {
        fs::read(&file.path)
            .map_err(|error| PemError::new(file, format!("the file cannot be read: {error}")))
    };
    Ok(Content {
        certificate: read(&files.certificate)?,
        key: read(&files.key)?,
        client_ca: files.client_ca.as_ref().map(read).transpose()?,
    })
}

fn load(files: &TlsFiles, protocols: &[Vec<u8>], content: Content) -> Result<Current, PemError> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(&files.certificate, &content.certificate)?;
    let key = private_key(&files.key, &content.key)?;
    // The certificate is parsed by itself first, so that an error names the right file.
    provider
        .key_provider
        .load_private_key(key.clone_key())
        .map_err(|error| PemError::new(&files.key, format!("the key cannot be used: {error}")))?;
    let clients = match (&files.client_ca, &content.client_ca) {
        (Some(file), Some(content)) => verifier(file, content, &provider)?,
        _ => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PemError::new(&files.certificate, error.to_string()))?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            TlsError::InconsistentKeys(_) => {
                let certificate = &files.certificate;
                let problem = format!("the key is not that of the certificate in {certificate}");
                PemError::new(&files.key, problem)
            }
            error => {
                let problem = format!("the certificate cannot be used: {error}");
                PemError::new(&files.certificate, problem)
            }
        })?;
    config.alpn_protocols = protocols.to_vec();
    Ok(Current { content, config: Arc::new(config) })
}

fn certificates(file: &PemFile, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(content)
        .collect::<Result<_, _>>()
        .map_err(|error| PemError::new(file, format!("expected certificates in PEM: {error}")))?;
    match certificates.is_empty() {
        true => Err(PemError::new(
            file,
            "there is no certificate in it (expected PEM, '-----BEGIN CERTIFICATE-----')",
        )),
        false => Ok(certificates),
    }
}

fn private_key(file: &PemFile, content: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    PrivateKeyDer::from_pem_slice(content).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            let sealed = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
            match content.windows(sealed.len()).any(|it| it == sealed) {
                true => {
                    PemError::new(file, "the key is encrypted; expected one without a passphrase")
                }
                false => PemError::new(
                    file,
                    "there is no private key in it (expected PEM, '-----BEGIN PRIVATE KEY-----')",
                ),
            }
        }
        error => PemError::new(file, format!("expected a private key in PEM: {error}")),
    })
}

/// Accepts clients with a certificate that one of the authorities in the file has signed.
fn verifier(
    file: &PemFile,
    content: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, PemError> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(file, content)? {
        authorities.add(certificate).map_err(|error| {
            PemError::new(file, format!("a certificate cannot be used: {error}"))
        })?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider.clone());
    verifier.build().map_err(|error| PemError::new(file, error.to_string()))
}
