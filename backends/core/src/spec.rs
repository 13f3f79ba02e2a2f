//! What a model is made from, and what it says about itself.

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf, sync::Arc};

use crate::DataType;

/// Where an instance runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Device {
    /// The host's processors.
    Cpu,
    /// The GPU of that number, counted from zero among the visible ones.
    Gpu(u32),
}

/// One input or output as the engine sees it, batch dimension included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// The name in the graph.
    pub name: Arc<str>,
    /// Element type.
    pub dtype: DataType,
    /// One entry per dimension; `None` where the model takes any size. Empty for a scalar.
    pub dims: Vec<Option<usize>>,
    /// An input that may be left out, because the graph holds a default for it.
    pub optional: bool,
}

/// The inputs and outputs of a model, in the order of its file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelSpec {
    /// What it takes.
    pub inputs: Vec<TensorSpec>,
    /// What it gives.
    pub outputs: Vec<TensorSpec>,
}

/// All that an engine is told when it loads one model version.
#[derive(Debug, Clone)]
pub struct ModelSource {
    /// The model's name, for error texts and logs.
    pub name: String,
    /// The model file, or the folder that holds it. It may not exist; saying so is the engine's task.
    pub path: PathBuf,
    /// Engine settings under the names of Triton's `parameters`, for example `intra_op_thread_count`.
    pub options: BTreeMap<String, String>,
    /// Threads for one run where `options` do not say: this instance's share of the processors.
    pub default_threads: NonZeroUsize,
    /// Most instances that will be made of it. An engine whose instances share something sizes it by this.
    pub instances: NonZeroUsize,
}
