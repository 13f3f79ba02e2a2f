//! SageMaker's operations on jobs and models, from the name of an operation and a body of JSON to a reply. It knows
//! nothing of HTTP. [`ControlPlane`] is all that others use.

mod control;
mod fault;
mod jobs;
mod line;
mod list;
mod logs;
mod models;
mod reply;
mod requests;
mod shape;
mod transitions;
mod variables;
mod worker;

pub use control::ControlPlane;
pub use reply::Reply;
pub use variables::settable;
pub use worker::ControlSettings;
