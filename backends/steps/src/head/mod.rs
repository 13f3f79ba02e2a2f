//! What is made of a graph's outputs: arithmetic on slices, one file for each task.

#[cfg(feature = "pipelines")]
pub(crate) mod answer;
#[cfg(feature = "pipelines")]
pub(crate) mod classify;
#[cfg(feature = "pipelines")]
pub(crate) mod ctc;
#[cfg(feature = "pipelines")]
pub(crate) mod dense;
#[cfg(feature = "pipelines")]
pub(crate) mod embed;
#[cfg(feature = "pipelines")]
pub(crate) mod entail;
#[cfg(feature = "pipelines")]
pub(crate) mod entities;
pub(crate) mod function;
#[cfg(feature = "pipelines")]
pub(crate) mod mask;
#[cfg(feature = "pipelines")]
pub(crate) mod pool;
#[cfg(feature = "pipelines")]
pub(crate) mod rank;
pub(crate) mod reduced;
#[cfg(feature = "pipelines")]
pub(crate) mod similarity;
#[cfg(feature = "pipelines")]
pub(crate) mod splade;
