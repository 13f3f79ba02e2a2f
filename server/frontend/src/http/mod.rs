//! HTTP: connections, routes, handlers, the status table.

mod body;
mod compress;
mod connection;
mod encoding;
mod events;
mod facade;
mod handlers;
mod later;
mod respond;
mod router;
mod service;
mod sessions;
mod status;
mod timeouts;
mod websocket;

use std::sync::Arc;

pub use facade::Facade;
pub use later::Waiting;
pub use service::{Door, Hosted, HttpSettings, Service};
pub use sessions::SessionTable;
pub use timeouts::Timeouts;

use crate::net::{Accepted, Front, Served};

/// What speaks HTTP on a port.
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
