//! The server's ports: HTTP/1.1 and gRPC, and the way of a request from its first byte to the last one of its answer.
#![forbid(unsafe_code)]

pub mod drain;
pub mod either;
pub mod exchange;
pub mod grpc;
pub mod http;
pub mod memory;
pub mod net;
mod seldom;
pub mod serving;
pub mod settings;
