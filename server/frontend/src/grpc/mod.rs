//! The gRPC front: connections, calls, their messages, the ends of calls. h2 speaks HTTP/2; this module adds the
//! little that gRPC needs. No layers, and nothing boxed on the way of an inference, so that a call costs no more than
//! its work.
//!
//! gRPC adds five bytes before a message and a status behind it. A framework would add a boxed future, a boxed body and
//! layers for each call, and would hold a whole message before it could be refused. Here messages take room in the
//! budget as they arrive, and tensors are slices of them. The connection's task answers at once the calls that it can,
//! and spawns a task only for a call that has to wait.
//!
//! Which services there are, and the codecs of their messages, is said by protocols. The types that are generated for
//! messages are here, in `proto`.

pub mod body;
mod call;
mod compress;
mod connection;
pub mod context;
pub mod exchanged;
pub mod failure;
mod front;
mod heard;
pub mod layout;
pub mod message;
pub mod messages;
pub mod metadata;
pub mod pieces;
pub mod proto;
mod room;
pub mod service;
pub mod services;
pub mod status;
mod watch;
pub mod wire;

use std::sync::Arc;

use tokio::net::TcpStream;

use crate::{
    drain::Guard,
    net::{Accepted, Front, Served, places::ConnectionPlace, tls::Acceptor},
};
pub use front::GrpcFront;
pub use message::PREFIX;
pub use service::{Grpc, GrpcSettings};
use services::Services;

impl<S: Services> Front for GrpcFront<S> {
    fn fork(&self) -> Arc<dyn Front> {
        let grpc = Arc::new(Grpc::clone(&self.grpc));
        Arc::new(GrpcFront { grpc, services: self.services.clone() })
    }

    fn serve(self: Arc<Self>, accepted: Accepted) -> Served {
        Box::pin(async move {
            let Accepted { stream, place, guard } = accepted;
            let stream = match TcpStream::from_std(stream) {
                Ok(stream) => stream,
                Err(error) => {
                    return tracing::debug!(%error, "lost a connection before it was served");
                }
            };
            // Nagle's algorithm would only delay: a reply is written whole, or as soon as there is room for its rest.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "cannot set TCP_NODELAY");
            }
            // Boxed: neither kind of connection carries the other.
            match self.grpc.settings.tls.clone() {
                None => Box::pin(connection::serve(stream, self, guard, &place)).await,
                Some(acceptor) => {
                    Box::pin(encrypted(acceptor, stream, self, guard, &place)).await;
                }
            }
            drop(place);
        })
    }

    /// The connection is closed without an answer: HTTP/2 could refuse it only after the handshake that the refusal
    /// is to save.
    fn refuse(self: Arc<Self>, stream: std::net::TcpStream, _: usize) -> Served {
        Box::pin(async move { drop(stream) })
    }
}

/// Serves a connection of TLS to its end.
async fn encrypted<S: Services>(
    acceptor: Acceptor,
    stream: TcpStream,
    front: Arc<GrpcFront<S>>,
    mut guard: Guard,
    place: &ConnectionPlace,
) {
    let longest = front.grpc.settings.timeouts.head;
    let accepted = tokio::select! {
        accepted = acceptor.accept(stream, longest, &mut guard) => accepted,
        () = place.seat().evicted() => return,
    };
    match accepted {
        Ok(stream) => connection::serve(stream, front, guard, place).await,
        Err(error) => tracing::debug!(%error, "a connection did not become one of TLS"),
    }
}
