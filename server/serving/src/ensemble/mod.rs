//! Ensembles: models that are made of other models, whose tensors go from one to the next.
//!
//! [`plan`] compares the steps with the members, [`members`] finds the members of one request. `lifecycle` loads the
//! members first; `infer` runs them.

pub mod members;
pub mod path;
pub mod plan;
pub mod turns;
