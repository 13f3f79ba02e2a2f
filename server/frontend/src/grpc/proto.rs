//! The messages of the services: types generated from the definitions in `proto`.

// The comments of the definitions are the documentation; not every field needs one.
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

    /// How something ended.
    pub mod error {
        include!(concat!(env!("OUT_DIR"), "/tensorflow.error.rs"));
    }

    /// TensorFlow Serving's services.
    pub mod serving {
        include!(concat!(env!("OUT_DIR"), "/tensorflow.serving.rs"));
    }
}

/// The definitions themselves, as an encoded `FileDescriptorSet`.
pub const DEFINITIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/services.bin"));
