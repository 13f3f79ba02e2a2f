//! What every execution of one model needs to know.

use std::sync::{Arc, atomic::AtomicBool};

use backend::RerunPolicy;

use super::{padding::Padding, ragged::Ragged, work::Work};

/// What every execution of one model needs to know.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Is the first dimension of every tensor the batch?
    pub batches: bool,
    /// Names of all outputs of the model.
    pub outputs: Vec<Arc<str>>,
    /// May requests be run again?
    pub rerun: RerunPolicy,
    /// May the rows of a request be run apart? Only of a model whose rows are known to be independent.
    pub splits: Arc<AtomicBool>,
    /// How batches are put together whose requests differ in shape; `None` where they do not.
    pub ragged: Option<Arc<Ragged>>,
    /// How rows of unequal length are filled up; `None` where they do not run together.
    pub padding: Option<Arc<Padding>>,
    /// The model's signatures beside the default one.
    pub others: Vec<OtherSignature>,
    /// Is each request of a run answered by itself?
    pub answers_calls: bool,
}

/// What an execution of a signature needs to know that is not the default one.
#[derive(Debug, Clone)]
pub struct OtherSignature {
    /// Is the first dimension of every tensor the batch?
    pub batches: bool,
    /// Names of all its outputs.
    pub outputs: Vec<Arc<str>>,
}

impl RunContext {
    /// Is the first dimension of every tensor of these jobs, which are for one signature, the batch?
    pub(super) fn batches(&self, jobs: &[&Work]) -> bool {
        self.other(jobs).map_or(self.batches, |it| it.batches)
    }

    /// Names of all outputs of the signature that these jobs are for.
    pub(super) fn outputs(&self, jobs: &[&Work]) -> &[Arc<str>] {
        self.other(jobs).map_or(&self.outputs, |it| &it.outputs)
    }

    fn other(&self, jobs: &[&Work]) -> Option<&OtherSignature> {
        self.others.get(jobs.first()?.signature.checked_sub(1)?)
    }
}
