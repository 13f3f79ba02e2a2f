//! The part of ONNX Runtime's C table that this engine uses, as Rust types that own what they point to.
//!
//! `ort` opens the library and makes its environment. From there on its safe layer is left: it refuses strings with a
//! NUL, and panics at types of graph inputs that a model file is free to have. At each run it allocates and asks for
//! more than the run of a small model costs.

mod arena;
mod idle;
mod metadata;
mod provider;
mod session;
mod session_arena;
mod session_options;
mod table;
mod value;

pub(crate) use provider::probe;
pub(crate) use session::{Kind, Port, Session};
pub(crate) use session_arena::Keeping;
pub(crate) use session_options::{Source, WEIGHTS};
pub(crate) use table::{Native, Result};
pub(crate) use value::Value;
