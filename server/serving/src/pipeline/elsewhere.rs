//! Where work on the inputs and answers of a pipeline is done: short work at once, long work on a thread for such, so
//! that the other clients of an I/O thread do not wait for it.

use std::time::Instant;

use crate::pipeline::open::ServedPipeline;
use inference::error::Error;
use schedule::prepare::{CancelToken, PrepareFor, PreparePool};

/// How long some work takes, by prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// No longer than a hand-off to another thread.
    Short,
    /// Other clients of this thread would wait.
    Long,
}

impl Effort {
    /// Short where that holds.
    pub fn short_if(is_short: bool) -> Effort {
        match is_short {
            true => Effort::Short,
            false => Effort::Long,
        }
    }
}

impl ServedPipeline {
    /// Does work for a request at the place that its effort asks for. It is given up after `deadline`, or when the
    /// future is dropped.
    ///
    /// # Errors
    /// Those of the work, and [`Error::DeadlineExceeded`].
    ///
    /// # Cancel safety
    /// As of [`PreparePool::run`].
    pub async fn work<T: Send + 'static>(
        &self,
        effort: Effort,
        deadline: Option<Instant>,
        work: impl FnOnce(&CancelToken) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let request = PrepareFor { model: self.graph.model.clone(), deadline };
        match effort {
            Effort::Short => PreparePool::run_here(&request, work),
            Effort::Long => self.pool.run(&request, work).await,
        }
    }
}
