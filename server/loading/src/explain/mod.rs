//! `muster explain`: what a folder was understood to be, the configuration that does the same by hand, and what became
//! of each of its files. Nothing is served.

mod config_text;
mod model;
mod report;
mod write;

pub use model::{ExplainError, Explained, explain};
pub use report::report;
pub use write::{write, write_graph};
