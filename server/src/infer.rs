//! One inference from a decoded request to its response: the straight line through the server.

use std::{sync::Arc, time::Instant};

use crate::{
    error::Error,
    metrics::Sample,
    models::{self, Engine, ServedModel},
    request::{InferenceRequest, InferenceResponse},
    schedule::Submission,
};

/// What running a request takes beside its model.
#[derive(Clone, Default)]
pub struct Inference {}

impl Inference {
    /// Runs one request on one model.
    ///
    /// # Errors
    /// When the request does not fit the model, or is not answered in time, or its run fails.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request, see [`crate::schedule::Scheduler::submit`].
    pub async fn run(
        &self,
        model: &Arc<ServedModel>,
        mut request: InferenceRequest,
    ) -> Result<InferenceResponse, Error> {
        let accepted = Instant::now();
        let prepared = models::prepare(&mut request, &model.signature, &model.config)?;
        let rows = prepared.work.rows.max(1);
        let submission = Submission {
            work: prepared.work,
            accepted,
            shape_key: prepared.shape_key,
            priority: request.priority,
            queue_timeout: request.queue_timeout,
            deadline: request.deadline,
        };
        let done = match &model.engine {
            Engine::Instances(scheduler) => scheduler.submit(submission).await?,
        };
        let mut outputs = done.outputs;
        for output in &mut outputs {
            models::present(&model.config, output);
        }
        model.metrics.success(Sample {
            rows,
            total: accepted.elapsed(),
            queue: done.times.started.saturating_duration_since(accepted),
            compute_input: done.times.gather,
            compute_infer: done.times.execute,
            compute_output: done.times.scatter,
        });
        Ok(InferenceResponse {
            model: model.signature.model.clone(),
            version: model.signature.version,
            id: request.id,
            outputs,
        })
    }
}
