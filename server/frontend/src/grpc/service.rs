//! The state that gRPC calls share: the models, the limits, the settings.

use std::sync::Arc;

use crate::{
    exchange::intake::Limits, net::tls::Acceptor, serving::Serving, settings::limits::Timeouts,
};
use inference::access::{Access, Forwarding};

/// Settings of the gRPC front.
#[derive(Clone)]
pub struct GrpcSettings {
    /// The operator's settings of gRPC.
    pub grpc: crate::settings::grpc::GrpcOptions,
    /// Limits of a message.
    pub messages: Limits,
    /// How slow a peer may be.
    pub timeouts: Timeouts,
    /// The tokens of clients, and the access that each gives.
    pub access: Access,
    /// Metadata that become parameters of inferences; `None` for none.
    pub forwarding: Option<Arc<Forwarding>>,
    /// TLS; `None` for plain text.
    pub tls: Option<Acceptor>,
}

/// Most bytes of a message that has neither inputs nor files. A configuration of some thousand models has as many.
const LONGEST_CONTROL: u64 = 1 << 20;

/// Everything that a call needs. Each I/O thread has a clone of its own.
#[derive(Clone)]
pub struct Grpc {
    /// The part that all protocols share.
    pub serving: Serving,
    /// The settings of gRPC.
    pub settings: GrpcSettings,
    /// Limits of a message that has neither inputs nor files.
    pub control: Limits,
}

impl Grpc {
    /// A front for these models.
    pub fn new(serving: Serving, settings: GrpcSettings) -> Grpc {
        let messages = settings.messages.clone();
        let control = match LONGEST_CONTROL < messages.limit {
            true => Limits {
                limit: LONGEST_CONTROL,
                whole: LONGEST_CONTROL,
                setting: "of messages of calls other than inference and RepositoryModelLoad",
                ..messages
            },
            false => messages,
        };
        Grpc { serving, settings, control }
    }
}
