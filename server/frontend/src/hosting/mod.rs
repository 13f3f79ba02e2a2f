//! The addresses of hosting platforms around inference: SageMaker's `/invocations` with its sessions, multi-model
//! verbs, event streams and asynchronous invocations, the local runtime in front of them, and Vertex AI's port.

pub(crate) mod async_invocations;
pub(crate) mod bidirectional;
pub mod emf;
pub(crate) mod event_stream;
pub(crate) mod facade;
pub(crate) mod invocations;
pub(crate) mod invoke;
pub(crate) mod message;
pub(crate) mod multi_model;
pub(crate) mod observed;
pub(crate) mod sessions;
pub(crate) mod vertex;

pub use async_invocations::Runner;
pub use facade::Facade;
pub use sessions::SessionTable;
