//! SageMaker's stateful sessions: the table of open sessions, and the requests that open, use and close them.

pub mod handler;
mod open;
mod table;

pub use table::SessionTable;
