//! Settings of TLS: the ports that have it, and its files.

use std::{fmt, path::PathBuf};

use configuration::{
    Flag, Sources,
    value::{self, Parse},
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("http-tls-cert", "", "PEM file of the server's certificate, and of those between it and its authority: TLS for the HTTP ports. Read again when it changes").named("FILE"),
    Flag::value("http-tls-key", "", "PEM file of the certificate's private key, without a passphrase").named("FILE"),
    Flag::value("http-tls-client-ca", "", "PEM file of authorities: only clients with a certificate of theirs are let in").named("FILE"),
    Flag::value("http-tls-ports", "http,sagemaker,vertex-ai", "Which ports have TLS, of http, sagemaker, vertex-ai and metrics. One without it answers health checks and metrics only").named("PORTS"),
];

/// A file in PEM, and the option that names it, for errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemFile {
    /// Without dashes in front: `http-tls-cert`.
    pub option: &'static str,
    /// Where it is.
    pub path: PathBuf,
}

impl fmt::Display for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{} '{}'", self.option, self.path.display())
    }
}

/// The files of a port with TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub certificate: PemFile,
    /// Its private key.
    pub key: PemFile,
    /// The authorities of client certificates; `None` where clients need none.
    pub client_ca: Option<PemFile>,
}

/// The names of the flags of the files.
pub struct TlsOptions {
    /// The flag of the certificate.
    pub certificate: &'static str,
    /// The flag of its private key.
    pub key: &'static str,
    /// The flag of the authorities of client certificates.
    pub client_ca: &'static str,
}

/// TLS of the HTTP ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpTls {
    /// The files.
    pub files: TlsFiles,
    /// Where.
    pub ports: TlsPorts,
}

/// `--http-tls-ports`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TlsPorts {
    pub http: bool,
    pub sagemaker: bool,
    pub vertex_ai: bool,
    pub metrics: bool,
}

impl TlsPorts {
    /// Has the port of this service TLS? By its name in the log: `http`, `sagemaker`, `vertex-ai` or `metrics`.
    pub fn has(self, service: &str) -> bool {
        match service {
            "http" => self.http,
            "sagemaker" => self.sagemaker,
            "vertex-ai" => self.vertex_ai,
            "metrics" => self.metrics,
            _ => false,
        }
    }
}

const HTTP: TlsOptions = TlsOptions {
    certificate: "http-tls-cert",
    key: "http-tls-key",
    client_ca: "http-tls-client-ca",
};

/// TLS of the HTTP ports; `None` without a certificate.
pub fn resolve(sources: &Sources, problems: &mut Vec<String>) -> Option<HttpTls> {
    let ports = sources.read("http-tls-ports", ports, problems);
    let default = TlsPorts { http: true, sagemaker: true, vertex_ai: true, metrics: false };
    let ports = ports.unwrap_or(default);
    Some(HttpTls { files: files(sources, &HTTP, problems)?, ports })
}

/// The files that these settings name; `None` where they name none, and, with a problem more, where one goes
/// without another.
pub fn files(
    sources: &Sources,
    options: &TlsOptions,
    problems: &mut Vec<String>,
) -> Option<TlsFiles> {
    let mut file = |option: &'static str| {
        let path = sources.read(option, value::path, problems)?;
        Some(PemFile { option, path })
    };
    let files = [options.certificate, options.key, options.client_ca].map(&mut file);
    match files {
        [None, None, None] => None,
        [Some(certificate), Some(key), client_ca] => Some(TlsFiles { certificate, key, client_ca }),
        [certificate, key, client_ca] => {
            let given = [&certificate, &key, &client_ca].into_iter().flatten().next();
            let given = given.map(ToString::to_string).unwrap_or_default();
            let lacks: Vec<String> = [(&certificate, options.certificate), (&key, options.key)]
                .iter()
                .filter(|it| it.0.is_none())
                .map(|it| format!("--{}", it.1))
                .collect();
            problems.push(format!("{given}: TLS needs {}, too", lacks.join(" and ")));
            None
        }
    }
}

fn ports(text: &str) -> Parse<TlsPorts> {
    let mut ports = TlsPorts { http: false, sagemaker: false, vertex_ai: false, metrics: false };
    for name in text.split(',').map(str::trim) {
        match name {
            "http" => ports.http = true,
            "sagemaker" => ports.sagemaker = true,
            "vertex-ai" => ports.vertex_ai = true,
            "metrics" => ports.metrics = true,
            _ => {
                return Err(
                    "http, sagemaker, vertex-ai, metrics, or several with commas".to_owned()
                );
            }
        }
    }
    Ok(ports)
}
