//! Which models are loaded: at the start, by request, when the repository changes, when a request asks for one.
//!
//! One function brings a model to what its directory says ([`converge`]), whatever the cause; for each model one call
//! at a time ([`model_table`]). What serves changes in one step, when everything new is loaded and warm ([`publish`]);
//! what is old goes when its last request is answered ([`reaper`]). So no request meets a model that is closed.

pub(crate) mod adapt;
pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod converge;
pub(crate) mod decide;
pub(crate) mod eviction;
pub(crate) mod find;
pub(crate) mod load_many;
pub(crate) mod load_override;
pub(crate) mod load_slots;
pub(crate) mod members;
pub(crate) mod model_table;
pub(crate) mod multi_model;
pub(crate) mod named_models;
pub(crate) mod on_demand;
pub(crate) mod optional;
pub(crate) mod poll;
pub(crate) mod publish;
pub(crate) mod reaper;
pub(crate) mod select;
pub(crate) mod start;
pub(crate) mod unload;
