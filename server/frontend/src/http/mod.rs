//! The HTTP front: connections, routes, handlers, error replies.

pub mod answer;
pub mod body;
pub mod captures;
mod compress;
mod connection;
pub mod dispatch;
pub mod encoding;
pub mod framing;
mod handlers;
pub mod inference;
pub mod other_names;
mod pipelines;
pub mod platform;
mod progress;
mod refusal;
mod reply_forms;
pub mod respond;
pub mod router;
pub mod service;
mod timeouts;
mod unread_heads;
pub mod websocket;

use std::sync::Arc;

pub use service::{HttpSettings, Listener, Service};

use crate::net::{Accepted, Front, Served};
use platform::Platform;

/// The front that serves HTTP on a port.
impl<P: Platform> Front for P {
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
