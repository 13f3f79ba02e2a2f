//! The addresses of hosting platforms around inference: SageMaker's `/invocations` with its sessions, multi-model
//! verbs, event streams and asynchronous invocations, the local runtime in front of them, and Vertex AI's port.
#![forbid(unsafe_code)]

mod async_invocations;
mod bidirectional;
pub mod emf;
mod event_stream;
mod facade;
mod front;
mod invocations;
mod invoke;
mod message;
mod multi_model;
mod observed;
mod platform;
mod sessions;
pub mod settings;
mod state;
mod vertex;

pub use async_invocations::Runner;
pub use facade::{Asked, Facade, operations};
pub use front::Hosting;
pub use sessions::SessionTable;
