//! What the operator wants of the ports: each file has the settings of one part, its flags, and how they are read.

pub mod aws;

pub use aws::{AsyncInvocations, AwsFacade, ObjectsAt};
