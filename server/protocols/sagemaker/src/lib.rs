//! SageMaker: `/ping`, `/invocations` in every format and dialect of its containers, with sessions, multi-model verbs,
//! event streams and asynchronous invocations, and the local runtime in front of them.
#![forbid(unsafe_code)]

mod async_invocations;
mod bidirectional;
pub mod codec;
pub mod emf;
mod event_stream;
mod facade;
mod front;
mod in_parts;
mod invocations;
mod invoke;
mod listed;
mod message;
mod multi_model;
mod observed;
pub mod operation;
mod platform;
pub mod route;
mod script;
mod sessions;
pub mod settings;
mod state;

pub use async_invocations::Runner;
pub use facade::{Asked, Facade, NoReply, operations};
pub use front::SageMaker;
pub use sessions::SessionTable;
