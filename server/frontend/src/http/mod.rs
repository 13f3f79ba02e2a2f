//! The HTTP front: connections, routes, handlers, the table of statuses.

pub(crate) mod answer;
pub(crate) mod body;
mod compress;
mod connection;
mod dispatch;
mod encoding;
mod handlers;
pub(crate) mod inference;
pub(crate) mod respond;
pub(crate) mod router;
pub(crate) mod service;
mod shared_forms;
pub(crate) mod status;
mod timeouts;
pub(crate) mod websocket;

use std::sync::Arc;

pub use service::{HttpSettings, Listener, Service};
pub use timeouts::Timeouts;

use crate::net::{Accepted, Front, Served};

/// The front that serves HTTP on a port.
impl Front for Service {
    fn fork(&self) -> Arc<dyn Front> {
        Arc::new(self.clone())
    }

    fn serve(self: Arc<Self>, accepted: Accepted) -> Served {
        Box::pin(connection::serve(accepted, self))
    }

    fn refuse(self: Arc<Self>, stream: std::net::TcpStream) -> Served {
        Box::pin(connection::refuse(stream, self))
    }
}
