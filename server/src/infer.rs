//! One inference from a decoded request to its response: the straight line through the server.

use std::time::Instant;

use crate::{
    error::Error,
    metrics::Sample,
    models::{self, ServedModel},
    request::{InferenceRequest, InferenceResponse},
    schedule::Submission,
};

/// Runs one request on one model.
///
/// # Errors
/// When the request does not fit the model, or is not answered in time, or its run fails.
///
/// # Cancel safety
/// Dropping the future withdraws the request, see [`crate::schedule::Scheduler::submit`].
pub async fn run(
    model: &ServedModel,
    mut request: InferenceRequest,
) -> Result<InferenceResponse, Error> {
    let accepted = Instant::now();
    let prepared = models::prepare(&mut request, &model.signature, &model.config)?;
    let rows = prepared.work.rows.max(1);
    let done = model
        .scheduler
        .submit(Submission {
            work: prepared.work,
            accepted,
            shape_key: prepared.shape_key,
            priority: request.priority,
            queue_timeout: request.queue_timeout,
            deadline: request.deadline,
        })
        .await?;
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
