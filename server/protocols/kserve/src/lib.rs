//! KServe v2 with Triton's extensions: over HTTP, over gRPC, and on the port of Vertex AI, which leads to it.
#![forbid(unsafe_code)]

pub mod grpc;
mod http;
pub mod settings;

pub use grpc::KServeServices;
pub use http::{KServe, vertex::VertexAiPort};
