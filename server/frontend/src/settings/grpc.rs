//! The settings of the gRPC front beside its port.

use std::{num::NonZeroU32, time::Duration};

use super::tls::{PemFile, TlsFiles};
use configuration::{Flag, Notice, Sources, value};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::value("grpc-infer-response-compression-level", "none", "How hard responses to inference are compressed for clients that accept gzip or deflate: none, low, medium or high").named("LEVEL"),
    Flag::value("grpc-max-concurrent-streams", "256", "Calls at the same time on one connection").named("COUNT"),
    Flag::value("grpc-stream-requests", "16", "Requests at the same time in one call of ModelStreamInfer; more are not read until one is answered").named("COUNT"),
    Flag::value("grpc-keepalive-time", "7200000", "Milliseconds after which a connection on which nothing came is asked whether it still lives").named("MILLISECONDS"),
    Flag::value("grpc-keepalive-timeout", "20000", "Milliseconds that the answer to that may take").named("MILLISECONDS"),
    Flag::value("grpc-max-connection-age", "", "Milliseconds after which a client is asked to connect anew. Default: never").named("MILLISECONDS"),
    Flag::value("grpc-max-connection-age-grace", "", "Milliseconds that its calls may take from then on. Default: any time").named("MILLISECONDS"),
    Flag::boolean("grpc-use-ssl", "false", "Serve TLS on the gRPC port"),
    Flag::boolean("grpc-use-ssl-mutual", "false", "The same, and every client shows a certificate"),
    Flag::value("grpc-server-cert", "", "PEM file of the gRPC port's certificate").named("FILE"),
    Flag::value("grpc-server-key", "", "PEM file of its private key").named("FILE"),
    Flag::value("grpc-root-cert", "", "PEM file of those whose signature on a client's certificate counts").named("FILE"),
];

/// How gRPC is served.
#[derive(Debug, Clone, PartialEq)]
pub struct GrpcOptions {
    /// `--grpc-infer-response-compression-level`.
    pub compression: Compression,
    /// `--grpc-max-concurrent-streams`: calls at the same time on one connection.
    pub max_streams: NonZeroU32,
    /// `--grpc-stream-requests`: requests at the same time in one streaming call.
    pub stream_requests: NonZeroU32,
    /// When a silent peer is pinged, and how long its answer may take.
    pub keepalive: Keepalive,
    /// How old a connection may become; `None` for any age.
    pub age: Option<ConnectionAge>,
    /// The files of TLS, `--grpc-server-cert`, `--grpc-server-key`, and with `--grpc-use-ssl-mutual`
    /// `--grpc-root-cert`; `None` for plain text.
    pub tls: Option<TlsFiles>,
}

/// How hard responses are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// Fast.
    Low,
    /// Between the two.
    Medium,
    /// Small.
    High,
}

/// When a silent peer is pinged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// `--grpc-keepalive-time`: after so much silence.
    pub time: Duration,
    /// `--grpc-keepalive-timeout`: how long the answer may take.
    pub timeout: Duration,
}

/// How old a connection may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionAge {
    /// `--grpc-max-connection-age`: then its client is asked to connect anew.
    pub most: Duration,
    /// `--grpc-max-connection-age-grace`: how long its calls may then take; `None` for any time.
    pub grace: Option<Duration>,
}

/// Reads the settings.
pub fn resolve(sources: &mut Sources, problems: &mut Vec<String>) -> GrpcOptions {
    let compression = sources.read("grpc-infer-response-compression-level", compression, problems);
    let keepalive = Keepalive {
        time: sources
            .read("grpc-keepalive-time", value::milliseconds, problems)
            .filter(|it| !it.is_zero())
            .unwrap_or(Duration::from_secs(7200)),
        timeout: sources
            .read("grpc-keepalive-timeout", value::milliseconds, problems)
            .unwrap_or(Duration::from_secs(20)),
    };
    let most = sources.read("grpc-max-connection-age", age, problems).flatten();
    let grace = sources.read("grpc-max-connection-age-grace", age, problems).flatten();
    let streams = sources.read("grpc-max-concurrent-streams", number, problems);
    let requests = sources.read("grpc-stream-requests", number, problems);
    GrpcOptions {
        compression: compression.unwrap_or(Compression::None),
        max_streams: streams.or(NonZeroU32::new(256)).unwrap_or(NonZeroU32::MIN),
        stream_requests: requests.or(NonZeroU32::new(16)).unwrap_or(NonZeroU32::MIN),
        keepalive,
        age: most.map(|most| ConnectionAge { most, grace }),
        tls: tls(sources, problems),
    }
}

fn tls(sources: &mut Sources, problems: &mut Vec<String>) -> Option<TlsFiles> {
    let mut on = |name| sources.read(name, value::boolean, problems).unwrap_or(false);
    let (plain, mutual) = (on("grpc-use-ssl"), on("grpc-use-ssl-mutual"));
    let mut file = |option| {
        let path = sources.read(option, value::path, problems)?;
        Some(PemFile { option, path })
    };
    let files = [file("grpc-server-cert"), file("grpc-server-key"), file("grpc-root-cert")];
    if !plain && !mutual {
        if files.iter().any(Option::is_some) {
            let text = "the files of --grpc-server-cert, --grpc-server-key and --grpc-root-cert are not used: \
                        the gRPC port has no TLS without --grpc-use-ssl=true";
            sources.notices.push(Notice::warning(text.to_owned()));
        }
        return None;
    }
    let [cert, key, root] = files;
    let flag = if mutual { "grpc-use-ssl-mutual" } else { "grpc-use-ssl" };
    let mut needed = |name: &str, file: Option<PemFile>| {
        if file.is_none() {
            problems.push(format!("--{flag} needs --{name}=<PEM file>"));
        }
        file
    };
    let (cert, key) = (needed("grpc-server-cert", cert), needed("grpc-server-key", key));
    let client_ca = if mutual { needed("grpc-root-cert", root) } else { None };
    Some(TlsFiles { certificate: cert?, key: key?, client_ca })
}

fn compression(text: &str) -> value::Parse<Compression> {
    match &*text.to_ascii_lowercase() {
        "none" => Ok(Compression::None),
        "low" => Ok(Compression::Low),
        "medium" => Ok(Compression::Medium),
        "high" => Ok(Compression::High),
        _ => Err("none, low, medium or high".to_owned()),
    }
}

/// Milliseconds; 0 and what is beyond a year, which Triton's users write for "never", are no limit.
fn age(text: &str) -> value::Parse<Option<Duration>> {
    match text.parse::<u64>() {
        Ok(_) => Ok(value::milliseconds(text).ok().filter(|it| !it.is_zero())),
        Err(_) => Err("a whole number of milliseconds, 0 for any time".to_owned()),
    }
}

fn number(text: &str) -> value::Parse<NonZeroU32> {
    let number = text.parse().ok().filter(|it: &NonZeroU32| it.get() <= 1 << 16);
    number.ok_or_else(|| "a whole number from 1 to 65536".to_owned())
}
