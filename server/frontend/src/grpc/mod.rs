//! gRPC: connections, calls, their messages, the status table. HTTP/2 is hyper's; what gRPC adds to it is little
//! and is here, so that a call costs no more than its work: no layers, nothing boxed on the way of an inference.

mod body;
mod call;
mod compress;
mod connection;
mod contents;
mod context;
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
mod service;
mod status;
mod tfs;
mod watch;
mod wire;

use std::sync::Arc;

use tokio::net::TcpStream;

use crate::net::{Accepted, Front, Served};
pub use service::{Grpc, GrpcSettings, Patience};

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
