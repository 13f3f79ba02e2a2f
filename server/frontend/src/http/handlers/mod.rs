//! The handlers of KServe, TensorFlow Serving and of operators: each decodes, makes one call of the core, and
//! encodes. The handlers of hosting platforms are in `hosting`.

pub mod describe;
pub mod generate;
pub mod health;
pub mod infer;
pub mod memory;
pub mod metrics;
pub mod repository;
pub mod settings;
pub mod statistics;
pub mod tensorflow;
