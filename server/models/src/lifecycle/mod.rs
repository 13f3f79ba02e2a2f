//! Which models are loaded: at the start, by request, when the repository changes, when somebody asks for one.
//!
//! A model is brought to what its directory says by one function ([`converge`]), whoever asks for it; for each model
//! one at a time. What serves changes in one step, when everything new is loaded and warm; what is old goes when
//! its last request is answered ([`reaper`]). So no request meets a model that is closed.

pub(crate) mod control;
pub(crate) mod converge;
pub(crate) mod decide;
pub(crate) mod load_override;
pub(crate) mod load_slots;
pub(crate) mod members;
pub(crate) mod multi_model;
pub(crate) mod on_demand;
pub(crate) mod poll;
pub(crate) mod reaper;
pub(crate) mod reload_config;
pub(crate) mod select;
pub(crate) mod start;
pub(crate) mod unload;
