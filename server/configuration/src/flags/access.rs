//! Who may do what, and TLS: settings.

use super::{Setting, many, value};

const SECTION: &str = "Access";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "http-tls-cert", "", "PEM file of the server's certificate, and of those between it and its authority: TLS for the HTTP ports. Read again when it changes"),
    value(SECTION, "http-tls-key", "", "PEM file of the certificate's private key, without a passphrase"),
    value(SECTION, "http-tls-client-ca", "", "PEM file of authorities: only clients with a certificate of theirs are let in"),
    value(SECTION, "http-tls-ports", "http,sagemaker,vertex-ai", "Which ports have TLS, of http, sagemaker, vertex-ai and metrics. One without it answers health checks and metrics only"),
    value(SECTION, "auth-tokens-file", "", "File of lines '<scope> <token>', the scope one of metrics, inference, admin: every request needs a token. Read again when it changes"),
    value(SECTION, "auth-open", "health", "Categories of requests, as --http-restricted-api has them, that need no token, with commas between them; none for no category"),
    many(SECTION, "http-restricted-api", "<category>[,<category>..]:<header>=<value>: requests of these categories need this header. Categories: health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging, metrics"),
    many(SECTION, "grpc-restricted-protocol", "The same over gRPC, where the metadata key is triton-grpc-protocol-<header>"),
    value(SECTION, "http-header-forward-pattern", "", "Regular expression: headers of inference requests in whose name it is found, in any case, become string parameters of the request"),
    value(SECTION, "grpc-header-forward-pattern", "", "The same for the metadata of gRPC"),
];

/// Settings whose text after the first `=` is a secret.
pub(super) const SECRET: &[&str] = &["http-restricted-api", "grpc-restricted-protocol"];
