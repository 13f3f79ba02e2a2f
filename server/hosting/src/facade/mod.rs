//! A local SageMaker runtime: the addresses that clients of AWS call, in front of `/invocations`.

mod accept;
mod address;
mod endpoint;
mod exception;
mod headers;
pub mod runtime;
mod state;

pub use state::Facade;
