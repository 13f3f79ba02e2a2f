//! What the calls work with: the models, the limits, the settings of the gRPC front.

use std::sync::Arc;

use crate::{exchange::intake::Limits, net::tls::Acceptor, serving::Serving};
use inference::access::{Access, Forwarding};

/// Settings of the gRPC front.
#[derive(Clone)]
pub struct GrpcSettings {
    /// What the operator said of gRPC.
    pub grpc: crate::settings::grpc::Grpc,
    /// What a message may take.
    pub messages: Limits,
    /// How slow a peer may be.
    pub patience: Patience,
    /// Who may do what.
    pub access: Access,
    /// Metadata that become parameters of inferences; `None` for none.
    pub forwarding: Option<Arc<Forwarding>>,
    /// TLS; `None` for plain text.
    pub tls: Option<Acceptor>,
}

/// How slow a peer may be.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// From the connection to the peer's opening words.
    pub greeting: std::time::Duration,
    /// Between two parts of a reply, without the peer taking anything.
    pub stall: std::time::Duration,
    /// Without a call.
    pub idle: std::time::Duration,
}

/// Everything that a call needs. Each I/O thread has a clone of its own.
#[derive(Clone)]
pub struct Grpc {
    /// What serves, whatever the protocol.
    pub serving: Serving,
    /// The rest.
    pub settings: GrpcSettings,
}

impl Grpc {
    /// A front over these models.
    pub fn new(serving: Serving, settings: GrpcSettings) -> Grpc {
        Grpc { serving, settings }
    }
}
