//! What is made of a graph's outputs: arithmetic on slices, one file for each task.

pub(crate) mod answer;
pub(crate) mod classify;
pub(crate) mod ctc;
pub(crate) mod dense;
pub(crate) mod embed;
pub(crate) mod entail;
pub(crate) mod entities;
pub(crate) mod function;
pub(crate) mod mask;
pub(crate) mod pool;
pub(crate) mod rank;
pub(crate) mod reduced;
pub(crate) mod similarity;
pub(crate) mod splade;
