//! A run that is kept, to be made once more in another worker: it warms that up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{BackendError, Batch, NamedTensor, Stop};

use crate::open::Open;

/// Inputs of a run that are kept: no more than these bytes.
const KEPT: usize = 1 << 20;

/// A run that warms a worker up and lasts longer is given up.
const LONGEST_RUN: Duration = Duration::from_secs(900);

/// A run, to be made once more.
pub(crate) struct Sample {
    inputs: Vec<NamedTensor>,
    outputs: Vec<Arc<str>>,
    rows: usize,
    signature: usize,
}

impl Sample {
    /// The run, unless it is large: its inputs are held beyond the requests that they came with.
    pub(crate) fn of(batch: &Batch<'_>) -> Option<Sample> {
        let bytes =
            batch.inputs.iter().map(|it| it.tensor.byte_len()).fold(0, usize::saturating_add);
        (bytes <= KEPT).then(|| Sample {
            inputs: batch.inputs.to_vec(),
            outputs: batch.outputs.to_vec(),
            rows: batch.rows,
            signature: batch.signature,
        })
    }

    /// Makes it there. One that lasts too long ends the worker. Blocking.
    ///
    /// # Errors
    /// Those of [`Open::run_once`].
    pub(crate) fn run(&self, open: &mut Open) -> Result<(), BackendError> {
        let stop = Stop::new();
        stop.end_by(Instant::now().checked_add(LONGEST_RUN));
        let Sample { inputs, outputs, rows, signature } = self;
        let (rows, signature) = (*rows, *signature);
        open.run_once(&Batch { inputs, outputs, rows, signature, stop: &stop })
    }
}
