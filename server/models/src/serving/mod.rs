//! The models that serve: looked up by every request.

pub(crate) mod content_hash;
pub(crate) mod ensemble;
mod known_models;
pub(crate) mod label_table;
pub(crate) mod labels;
pub(crate) mod made_tensors;
pub(crate) mod manager;
pub(crate) mod readiness;
pub(crate) mod run_room;
pub(crate) mod served;
pub(crate) mod state;
pub(crate) mod validate;
