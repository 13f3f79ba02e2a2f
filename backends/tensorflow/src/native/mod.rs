//! TensorFlow's C API as types that own what they point to. The only place with unsafe code in this crate.

mod operators;
mod session;
mod status;
mod strings;
mod table;
mod tensor;

pub(crate) use operators::load_operators;
pub(crate) use session::{Endpoint, Session};
pub(crate) use status::{CallError, Code};
pub(crate) use table::Table;
pub(crate) use tensor::from_element;
