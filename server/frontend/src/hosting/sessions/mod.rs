//! SageMaker's stateful sessions: which are open, on which model, until when, and the requests that open, use and close
//! them.

pub mod handler;
mod open;
mod table;

pub use table::SessionTable;
