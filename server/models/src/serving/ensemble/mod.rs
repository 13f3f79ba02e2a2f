//! Ensembles: models that are made of other models, whose tensors go from one to the next.
//!
//! [`plan`] compares the steps with the members, [`members`] finds the members of one request. `lifecycle` loads the
//! members first; `infer` runs them.

pub(crate) mod members;
pub(crate) mod path;
pub(crate) mod plan;
pub(crate) mod turns;
