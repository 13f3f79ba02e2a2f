//! What one request brings to a batch, and what it gets out of it.

use std::sync::Arc;

use backend::NamedTensor;

use inference::timings::Timings;

/// What one request brings to a batch.
#[derive(Debug, Clone)]
pub struct Work {
    /// Inputs in the order of the model's signature, in the engine's shapes. Jobs of one batch bring the
    /// same ones.
    pub inputs: Vec<NamedTensor>,
    /// Wanted outputs, in the order of the reply; never empty.
    pub outputs: Vec<Arc<str>>,
    /// Rows in the first dimension of every input; 1 without a batch dimension.
    pub rows: usize,
}

impl Work {
    /// The same with `rows` of its rows, from that one on. `None` where it has not so many, or no rows at all. Copies
    /// no tensor.
    pub fn cut(&self, from: usize, rows: usize) -> Option<Work> {
        let input = |it: &NamedTensor| {
            let tensor = it.tensor.slice_rows(from, rows)?;
            Some(NamedTensor { name: it.name.clone(), tensor })
        };
        let inputs = self.inputs.iter().map(input).collect::<Option<_>>()?;
        Some(Work { inputs, outputs: self.outputs.clone(), rows })
    }
}

/// A request's share of what came out.
#[derive(Debug)]
pub struct Done {
    /// The wanted outputs, in the wanted order.
    pub outputs: Vec<NamedTensor>,
    /// Where the time of the execution went.
    pub timings: Timings,
}
