//! A local SageMaker runtime: the addresses that clients of AWS call, in front of `/invocations`.

mod accept;
mod address;
mod asked;
mod call;
mod endpoint;
mod exception;
mod headers;
mod listed;
mod operations;
pub mod runtime;
mod state;

pub use asked::{Asked, NoReply, operations};
pub use call::Call;
pub use listed::routes as runtime_routes;
pub use state::Facade;
