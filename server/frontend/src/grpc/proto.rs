//! The messages of the gRPC services: Rust types that are generated from `server/proto`.

// The comments in the definitions are the documentation; not every field has one.
#![allow(missing_docs, clippy::all)]

pub use textproto::tensorflow::raw::ModelServerConfig;

include!("../../../proto/generated/services/inference.rs");

/// gRPC's own health checks.
pub mod health {
    include!("../../../proto/generated/services/grpc.health.v1.rs");
}

/// gRPC's own list of services.
pub mod reflection {
    include!("../../../proto/generated/services/grpc.reflection.v1.rs");
}

/// TensorFlow's tensors and examples.
pub mod tensorflow {
    include!("../../../proto/generated/services/tensorflow.rs");

    /// Statuses inside messages.
    pub mod error {
        include!("../../../proto/generated/services/tensorflow.error.rs");
    }

    /// TensorFlow Serving's services.
    pub mod serving {
        include!("../../../proto/generated/services/tensorflow.serving.rs");
    }
}

/// The definitions as an encoded `FileDescriptorSet`.
pub const DEFINITIONS: &[u8] = include_bytes!("../../../proto/generated/services/services.bin");
