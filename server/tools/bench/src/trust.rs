//! Whose certificates of servers are believed, as the command line says.

use std::{fs, path::PathBuf, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use unverified_tls::Anybody;

use crate::Error;

/// What is said of a certificate that is an authority's and that a server shows as its own. That it is valid at this
/// time was looked at before.
const IS_AUTHORITY: &str = "CaUsedAsEndEntity";

/// Whose certificates are believed.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Trust {
    /// PEM file of authorities and self-signed certificates: servers of https:// must have a certificate that is in it
    /// or signed by one of them. Default: the authorities that this machine believes, and Mozilla's list
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Believe any certificate of https:// servers
    #[arg(long, short = 'k')]
    insecure: bool,
}

impl Trust {
    /// Is a file of authorities named?
    pub(crate) fn names_authorities(&self) -> bool {
        self.cacert.is_some()
    }

    /// What connections are made by. Reads files.
    pub(crate) fn config(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(ring::default_provider());
        let failed = |it: &dyn ToString| Error::plan("TLS", it.to_string());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|it| failed(&it))?;
        let config = match (&self.cacert, self.insecure) {
            (_, true) => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Anybody::new(provider))),
            (Some(file), false) => {
                let (named, roots) = certificates(file)?;
                let usual = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
                let usual = usual.build().map_err(|it| failed(&it))?;
                config
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(Named { named, usual }))
            }
            (None, false) => config.with_root_certificates(everybodys()),
        };
        Ok(config.with_no_client_auth())
    }
}

/// The certificates of a file, and the same as authorities.
fn certificates(file: &PathBuf) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), Error> {
    let pem = fs::read(file).map_err(|source| Error::File { path: file.clone(), source })?;
    let (mut named, mut roots) = (Vec::new(), RootCertStore::empty());
    let wrong = |problem: String| {
        let path = file.display();
        Error::plan("--cacert", format!("{path}: expected certificates in PEM: {problem}"))
    };
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|it| wrong(it.to_string()))?;
        named.push(certificate.clone());
        roots.add(certificate).map_err(|it| wrong(it.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("there is none".to_owned())),
        false => Ok((named, roots)),
    }
}

/// The authorities that this machine believes, and Mozilla's list: a container may have none.
fn everybodys() -> RootCertStore {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Believes what certain authorities have signed, and the certificate of one of them as a server's, where that server
/// is what it is for at this time: so are those made that servers sign themselves.
#[derive(Debug)]
struct Named {
    named: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        revoked: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let verified = self.usual.verify_server_cert(certificate, between, server, revoked, now);
        match verified {
            Err(TlsError::InvalidCertificate(CertificateError::Other(it)))
                if it.0.to_string() == IS_AUTHORITY && self.named.contains(certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, server)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
