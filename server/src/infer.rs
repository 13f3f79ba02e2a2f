//! One inference from a decoded request to its response: the straight line through the server.

use std::{sync::Arc, time::Instant};

use crate::{
    error::Error,
    metrics::Sample,
    models::{self, Engine, ServedModel},
    request::{InferenceRequest, InferenceResponse},
    schedule::{Submission, run},
    trace::{Run, Trace},
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
        let trace = request.trace.take();
        let answer = answer(model, request, trace.as_deref()).await;
        if let Some(trace) = trace {
            trace.ended(answer.as_ref().err());
        }
        answer
    }
}

async fn answer(
    model: &Arc<ServedModel>,
    mut request: InferenceRequest,
    trace: Option<&Trace>,
) -> Result<InferenceResponse, Error> {
    let accepted = Instant::now();
    if let Some(trace) = trace {
        trace.accepted(accepted, request.id.as_ref(), &request.inputs);
    }
    let prepared = models::prepare(&mut request, &model.signature, &model.config)?;
    let rows = prepared.work.rows.max(1);
    if let Some(trace) = trace {
        trace.queued(&prepared.work.inputs);
    }
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
    if let Some(trace) = trace {
        let run::RunTime { started, gather, execute, scatter, rows: batch_rows } = done.times;
        let (input, infer, output) = (gather, execute, scatter);
        trace.ran(&Run { started, input, infer, output, rows, batch_rows }, &done.outputs);
    }
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
