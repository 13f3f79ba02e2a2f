//! The configuration of a model as what serves it uses it.

pub mod ensemble;
pub mod model;
pub mod raw;
pub mod sequence_batching;
pub mod server_ports;
