//! The gRPC front: connections, calls, their messages, the ends of calls. h2 speaks HTTP/2; this module adds the
//! little that gRPC needs. No layers, and nothing boxed on the way of an inference, so that a call costs no more than
//! its work.
//!
//! gRPC adds five bytes before a message and a status behind it. A framework would add a boxed future, a boxed body and
//! layers for each call, and would hold a whole message before it could be refused. Here messages take room in the
//! budget as they arrive, and tensors are slices of them. The connection's task answers at once the calls that it can,
//! and spawns a task only for a call that has to wait.
//!
//! Which services there are, and the codecs of their messages, is said by protocols. The types that are generated for
//! messages are here, in `proto`.

pub mod body;
mod call;
mod compress;
mod connection;
pub mod context;
pub mod exchanged;
pub mod failure;
mod front;
mod heard;
pub mod layout;
pub mod message;
pub mod messages;
pub mod metadata;
pub mod pieces;
pub mod proto;
mod room;
pub mod service;
pub mod services;
pub mod status;
mod watch;
pub mod wire;

pub use front::GrpcFront;
pub use message::PREFIX;
pub use service::{Grpc, GrpcSettings};
