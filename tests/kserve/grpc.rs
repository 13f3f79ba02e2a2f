//! The gRPC port: every call, what can be wrong with it, and peers that do not behave. The client is tonic's over the
//! same messages, which the server does not use itself.

mod access;
mod calls;
pub mod frames;
mod infer;
mod memory;
pub mod peers;
mod stream;
