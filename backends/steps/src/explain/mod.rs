//! A pipeline as the ensemble of steps that does the same by hand. Others use [`ensemble()`] and
//! the values that it gives.

mod ensemble;
mod explained;
mod files;
mod head;
mod source;

pub(crate) use ensemble::ensemble;
pub use explained::{
    ExplainedEnsemble, ExplainedFile, ExplainedMember, ExplainedPort, ExplainedValue,
};
pub(crate) use explained::{file, text};
pub(crate) use files::{AroundGraph, boxes, classes, labels_of};
