//! What every execution of one model needs to know.

use std::sync::{Arc, atomic::AtomicBool};

use super::{padding::Padding, ragged::Ragged};

/// What every execution of one model needs to know.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Is the first dimension of every tensor the batch?
    pub batches: bool,
    /// Names of all outputs of the model.
    pub outputs: Vec<Arc<str>>,
    /// May the rows of a request be run apart? Only of a model whose rows are known to be independent.
    pub splits: Arc<AtomicBool>,
    /// How batches are put together whose requests differ in shape; `None` where they do not.
    pub ragged: Option<Arc<Ragged>>,
    /// How rows of unequal length are filled up; `None` where they do not run together.
    pub padding: Option<Arc<Padding>>,
}
