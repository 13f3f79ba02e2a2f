//! gRPC: connections, calls, their messages, the status table. HTTP/2 is hyper's; what gRPC adds to it is little
//! and is here, so that a call costs no more than its work: no layers, nothing boxed on the way of an inference.

mod body;
mod call;
mod compress;
mod connection;
mod contents;
mod failure;
mod handlers;
mod layout;
mod message;
mod metadata;
mod method;
mod parameters;
pub mod proto;
mod reply;
mod request;
mod status;
mod tfs;
mod watch;
mod wire;

use std::sync::Arc;

use tokio::net::TcpStream;

use crate::{
    exchange::intake::Limits,
    net::{Accepted, Front, Served, tls::Acceptor},
    serving::Serving,
};
use inference::access::{Access, Forwarding};

/// Settings of the gRPC front.
#[derive(Clone)]
pub struct GrpcSettings {
    /// What the operator said of gRPC.
    pub grpc: configuration::Grpc,
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
    serving: Serving,
    settings: GrpcSettings,
}

impl Grpc {
    /// A front over these models.
    pub fn new(serving: Serving, settings: GrpcSettings) -> Grpc {
        Grpc { serving, settings }
    }
}

/// What speaks gRPC on a port.
impl Front for Grpc {
    fn fork(&self) -> Arc<dyn Front> {
        Arc::new(self.clone())
    }

    fn serve(self: Arc<Self>, accepted: Accepted) -> Served {
        Box::pin(async move {
            let Accepted { stream, permit, mut guard } = accepted;
            let stream = match TcpStream::from_std(stream) {
                Ok(stream) => stream,
                Err(error) => {
                    return tracing::debug!(%error, "lost a connection before it was served");
                }
            };
            // A reply is written whole, or its rest as soon as there is room: there is nothing to wait for.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "cannot set TCP_NODELAY");
            }
            match self.settings.tls.clone() {
                None => connection::serve(stream, self, guard).await,
                Some(acceptor) => {
                    let longest = self.settings.patience.greeting;
                    match acceptor.accept(stream, longest, &mut guard).await {
                        Ok(stream) => connection::serve(stream, self, guard).await,
                        Err(error) => {
                            tracing::debug!(%error, "a connection did not become one of TLS");
                        }
                    }
                }
            }
            drop(permit);
        })
    }

    /// HTTP/2 has no word for it before the connection has cost what it was to save.
    fn refuse(self: Arc<Self>, stream: std::net::TcpStream) -> Served {
        Box::pin(async move { drop(stream) })
    }
}
