//! Models that take texts where their graph takes tensors: what clients see of them, and how their inputs and answers
//! become those of the steps around the graph.
//!
//! What a folder is, and the arithmetic, are in crate `backend-steps`; `infer/pipeline` runs a request.

pub(crate) mod elsewhere;
pub(crate) mod face;
pub(crate) mod inputs;
pub(crate) mod open;
pub(crate) mod outputs;
pub(crate) mod pace;
pub(crate) mod parameters;
pub(crate) mod row_error;
pub(crate) mod row_runs;
pub(crate) mod text_model;
