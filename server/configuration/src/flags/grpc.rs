//! The gRPC port: settings.

use super::{Setting, value};

const SECTION: &str = "gRPC";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "allow-grpc", "", "Serve gRPC. Default: true, but false where a hosting platform starts `serve`, unless --grpc-port is given"),
    value(SECTION, "grpc-address", "", "Address of the gRPC port. Default: the HTTP address"),
    value(SECTION, "grpc-port", "8001", "The gRPC port; 0 takes any free one"),
    value(SECTION, "reuse-grpc-port", "false", "Let several processes share the gRPC port"),
    value(SECTION, "allow-tfs-grpc", "", "Serve gRPC on TensorFlow Serving's port, too. Default: false, unless --tfs-grpc-port is given"),
    value(SECTION, "tfs-grpc-address", "", "Address of that port. Default: the gRPC address"),
    value(SECTION, "tfs-grpc-port", "", "TensorFlow Serving's gRPC port, which this opens; 0 takes any free one. What else is said of gRPC holds there, too. Default: 8500"),
    value(SECTION, "grpc-infer-response-compression-level", "none", "How hard responses to inference are compressed for clients that accept gzip or deflate: none, low, medium or high"),
    value(SECTION, "grpc-max-concurrent-streams", "256", "Calls at the same time on one connection"),
    value(SECTION, "grpc-stream-requests", "16", "Requests at the same time in one call of ModelStreamInfer; more are not read until one is answered"),
    value(SECTION, "grpc-keepalive-time", "7200000", "Milliseconds after which a connection on which nothing came is asked whether it still lives"),
    value(SECTION, "grpc-keepalive-timeout", "20000", "Milliseconds that the answer to that may take"),
    value(SECTION, "grpc-max-connection-age", "", "Milliseconds after which a client is asked to connect anew. Default: never"),
    value(SECTION, "grpc-max-connection-age-grace", "", "Milliseconds that its calls may take from then on. Default: any time"),
    value(SECTION, "grpc-use-ssl", "false", "Serve TLS on the gRPC port"),
    value(SECTION, "grpc-use-ssl-mutual", "false", "The same, and every client shows a certificate"),
    value(SECTION, "grpc-server-cert", "", "PEM file of the gRPC port's certificate"),
    value(SECTION, "grpc-server-key", "", "PEM file of its private key"),
    value(SECTION, "grpc-root-cert", "", "PEM file of those whose signature on a client's certificate counts"),
];
