//! The words of other servers: variables of the containers that muster replaces, the command lines of TensorFlow
//! Serving and of Text Embeddings Inference, and the names and defaults of Triton.

mod common;
mod container;
mod families;
pub(crate) mod foreign_flags;
mod mapping;
pub mod sagemaker;
mod spelling;
mod tensorflow;
pub mod tensorflow_command;
pub mod text_embeddings_command;
mod toolkits;
mod torchserve;
mod triton;
pub mod triton_command;
pub mod variables;

pub use container::{Container, TellingVariable};
