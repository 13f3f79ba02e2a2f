//! Models that take texts where their graph takes tensors: what clients see of them, and how their inputs and answers
//! become those of the steps around the graph.
//!
//! What a folder is, and the arithmetic, are in crate `backend-steps`; `infer/pipeline` runs a request.

pub mod elsewhere;
pub mod face;
pub mod inputs;
pub mod open;
pub mod outputs;
pub mod pace;
pub mod parameters;
pub mod pipeline_settings;
pub mod row_error;
pub mod row_runs;
pub mod text_model;
