//! The HTTP front: connections, the way of every request to its protocol, and what protocols share.

pub mod address;
pub mod answer;
pub mod body;
pub mod captures;
mod compress;
mod connection;
mod cors;
pub mod encoding;
pub mod examples;
pub mod failed;
pub mod framing;
mod front;
pub mod in_parts;
pub mod inference;
pub mod listing;
mod marks;
pub mod metrics;
pub mod other_names;
pub mod parts;
mod progress;
pub mod protocol;
mod refusal;
pub mod respond;
pub mod routes;
pub mod schemas;
mod self_wakes;
mod server_timing;
pub mod service;
mod timeouts;
mod unread_heads;
pub mod websocket;

use std::sync::Arc;

pub use front::HttpFront;
pub use service::{HttpSettings, Listener, Service};

use crate::net::{Accepted, Front, Served};
use protocol::Protocol;

/// The front that serves HTTP on a port.
impl<P: Protocol> Front for HttpFront<P> {
    fn fork(&self) -> Arc<dyn Front> {
        Arc::new(self.clone())
    }

    fn serve(self: Arc<Self>, accepted: Accepted) -> Served {
        Box::pin(connection::serve(accepted, self))
    }

    fn refuse(self: Arc<Self>, stream: std::net::TcpStream, open: usize) -> Served {
        Box::pin(refusal::refuse(stream, self, open))
    }
}
