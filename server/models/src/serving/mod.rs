//! The models that serve: looked up by every request.

pub(crate) mod labels;
pub(crate) mod manager;
pub(crate) mod open_sequences;
pub(crate) mod served;
pub(crate) mod state;
pub(crate) mod validate;
