//! The gRPC front of a port: what every call needs, and the services that it may be of.

use std::sync::Arc;

use super::service::Grpc;

/// The front that serves gRPC on a port. Each I/O thread has a clone of its own.
#[derive(Clone)]
pub struct GrpcFront<S> {
    /// What every call needs.
    pub grpc: Arc<Grpc>,
    /// The services of every family of clients.
    pub services: S,
}
