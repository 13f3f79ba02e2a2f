//! A pipeline as the ensemble of steps that does the same by hand. Others use [`ensemble()`] and
//! the values that it gives.

#[cfg(feature = "pipelines")]
mod ensemble;
mod explained;
#[cfg(feature = "pipelines")]
mod files;
#[cfg(feature = "pipelines")]
mod head;
#[cfg(feature = "pipelines")]
mod source;

#[cfg(feature = "pipelines")]
pub(crate) use ensemble::ensemble;
pub use explained::{
    ExplainedEnsemble, ExplainedFile, ExplainedMember, ExplainedPort, ExplainedValue,
};
pub(crate) use explained::{file, text};
#[cfg(feature = "pipelines")]
pub(crate) use files::{AroundGraph, boxes, classes, labels_of};
