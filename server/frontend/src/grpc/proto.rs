//! The messages of the gRPC services: Rust types that the build generates from `proto`.

// The comments in the definitions are the documentation; not every field has one.
#![allow(missing_docs, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/inference.rs"));

/// gRPC's own health checks.
pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}

/// gRPC's own list of services.
pub mod reflection {
    include!(concat!(env!("OUT_DIR"), "/grpc.reflection.v1.rs"));
}

/// TensorFlow's tensors and examples.
pub mod tensorflow {
    include!(concat!(env!("OUT_DIR"), "/tensorflow.rs"));

    /// Statuses inside messages.
    pub mod error {
        include!(concat!(env!("OUT_DIR"), "/tensorflow.error.rs"));
    }

    /// TensorFlow Serving's services.
    pub mod serving {
        include!(concat!(env!("OUT_DIR"), "/tensorflow.serving.rs"));
    }
}

/// The definitions as an encoded `FileDescriptorSet`.
pub const DEFINITIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/services.bin"));
