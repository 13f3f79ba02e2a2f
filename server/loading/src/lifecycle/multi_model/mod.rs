//! Models that a platform loads under keys of its choice, each from a directory of its own: multi-model endpoints.
//!
//! A key is the name of the model that answers; those that it is made of, if it is an ensemble, lie in a namespace
//! that is called like the key. So two keys may hold models whose directories have the same names.

pub(crate) mod endpoint;
pub(crate) mod keys;
pub(crate) mod layout;
mod memory_budget;
pub(crate) mod table;
