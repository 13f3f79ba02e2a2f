//! The gRPC front of a port: what every call needs, and the services that it may be of.

use std::sync::Arc;

use tokio::net::TcpStream;

use super::{connection, service::Grpc, services::Services};
use crate::{
    drain::Guard,
    net::{Accepted, Front, Served, places::Place, tls::Acceptor},
};

/// The front that serves gRPC on a port. Each I/O thread has a clone of its own.
#[derive(Clone)]
pub struct GrpcFront<S> {
    /// What every call needs.
    pub grpc: Arc<Grpc>,
    /// The services of every family of clients.
    pub services: S,
}

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
    place: &Place,
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
