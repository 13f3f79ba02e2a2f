//! One inference from a decoded request to its response: the straight line through the server.

mod cached;
mod elsewhere;
mod ensemble;
mod next;
mod parts;
mod pipeline;
mod prepared;
mod rows;
pub mod stream;

use std::{sync::Arc, time::Instant};

use backend::{About, NamedTensor, Parameter, Parameters, SequenceFlags};

use crate::{
    cache::Cache,
    config::model::ModelConfig,
    served::{Dispatch, Members, Resolved, ServedModel},
    validate::Prepared,
};
use inference::{
    boxed::BoxFuture,
    error::Error,
    limits::Budget,
    request::{InferenceRequest, InferenceResponse, SequenceId},
    signature::Signature,
    task::{Task, takes_tensors},
    timings::Timings,
    trace::{Trace, Tracing},
};
use schedule::{Extent, ReplySlot, Submission};
use telemetry::metrics::FailureReason;

/// What running a request takes beside its model.
#[derive(Clone, Default)]
pub struct Inference {
    /// Where answers are kept; `None` where none are.
    cache: Option<Arc<Cache>>,
    /// Where requests that an ensemble makes are traced; `None` where none are.
    tracing: Option<Arc<Tracing>>,
    /// Of which decoded images and sounds, and large outputs before they are made, take their bytes; `None` where they
    /// are not counted.
    bytes: Option<Arc<Budget>>,
}

/// What came out of a model.
struct Answer {
    /// The wanted outputs, in the wanted order and in the shapes that clients see.
    outputs: Vec<NamedTensor>,
    /// What else the model says to the client.
    parameters: Parameters,
    /// Where the time went.
    timings: Timings,
    /// Rows of the request, 1 where it has none.
    rows: usize,
}

/// The id of a request, and its answer.
type Ran = Result<(Option<Arc<str>>, Answer), Error>;

/// A request on its way: what was checked and what stays of it.
struct Call<'a> {
    model: &'a Arc<ServedModel>,
    /// The members of the ensemble that the model is, where an outer ensemble has found them already.
    found: Option<&'a Resolved>,
    prepared: Prepared,
    /// The task of its form, where the model is a pipeline and the request does not go to its graph.
    task: Option<Task>,
    /// Most rows of a run for requests of its form.
    most_rows: usize,
    /// Does it share a run with no other request?
    is_alone: bool,
    /// The configuration of its signature, where it does not go through a pipeline.
    config: &'a ModelConfig,
    /// Without its inputs.
    request: &'a InferenceRequest,
    accepted: Instant,
    trace: Option<&'a Trace>,
}

impl Call<'_> {
    /// What a scheduler needs of it.
    fn submission(self) -> Submission {
        Submission {
            is_alone: self.is_alone,
            work: self.prepared.work,
            accepted: self.accepted,
            shape_key: self.prepared.shape_key,
            length: 0,
            priority: self.request.priority,
            queue_timeout: self.request.queue_timeout,
            deadline: self.request.deadline,
            extent: Extent::Whole,
        }
    }
}

impl Inference {
    /// With a cache of answers and traces of what ensembles do, or without.
    pub fn new(cache: Option<Arc<Cache>>, tracing: Option<Arc<Tracing>>) -> Inference {
        Inference { cache, tracing, bytes: None }
    }

    /// The same, whose decoded images and sounds and large outputs take their bytes of that budget.
    #[must_use]
    pub fn within(self, bytes: Arc<Budget>) -> Inference {
        Inference { bytes: Some(bytes), ..self }
    }

    /// Runs one request on one model.
    ///
    /// # Errors
    /// When the request does not fit the model, or is not answered in time, or its run fails.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request, see [`schedule::Scheduler::submit`].
    pub async fn run(
        &self,
        model: &Arc<ServedModel>,
        request: impl Into<Box<InferenceRequest>>,
    ) -> Result<InferenceResponse, Error> {
        let request = request.into();
        let rows = request.rows();
        let (id, answer) = self.answer(model, None, request).await?;
        Ok(InferenceResponse {
            model: model.signature.model.clone(),
            version: model.signature.version,
            id,
            rows,
            outputs: answer.outputs,
            parameters: answer.parameters,
            timings: Some(answer.timings),
        })
    }

    /// The same for a member of an ensemble, too; the request's id, and the answer.
    fn answer<'a>(
        &'a self,
        model: &'a Arc<ServedModel>,
        found: Option<&'a Resolved>,
        mut request: Box<InferenceRequest>,
    ) -> BoxFuture<'a, Ran> {
        Box::pin(async move {
            if model.streams && request.parts.is_none() {
                return self.only_part(model, request).await;
            }
            let trace = request.trace.take();
            let answer = self.traced(model, found, request, trace.as_deref()).await;
            if let Some(trace) = trace {
                trace.ended(answer.as_ref().err());
            }
            answer
        })
    }

    async fn traced(
        &self,
        model: &Arc<ServedModel>,
        found: Option<&Resolved>,
        mut request: Box<InferenceRequest>,
        trace: Option<&Trace>,
    ) -> Ran {
        let accepted = Instant::now();
        if let Some(trace) = trace {
            trace.accepted(accepted, request.id.as_ref(), &request.inputs);
        }
        let named = model.signature.at(request.signature);
        if let (Some(trace), Some(signature)) = (trace, &named.named) {
            trace.signed(&signature.name);
        }
        let (task, face) = match request.task {
            None => named.of_request(&request.inputs, &request.outputs),
            Some(task) => {
                let face = model.signature.of_task(task, &request.inputs);
                (Some(task), face.ok_or_else(|| no_task(&model.signature, task))?)
            }
        };
        let config = match (task, &model.pipeline) {
            (Some(_), Some(pipeline)) => &pipeline.config,
            _ => model.config_of(named),
        };
        let hashes = &model.shape_hashes;
        let mut prepared = crate::validate::prepare(&mut request, face, config, hashes)?;
        prepared.shape_key ^= model.run_room.key(&prepared.work);
        if model.answers_calls {
            prepared.work.about = Some(Arc::new(about(&request)));
            prepared.work.parts = request.parts.clone().filter(|_| model.streams);
        }
        let most_rows = face.max_batch_size;
        // Texts wait once they are rows.
        if let Some(trace) = trace.filter(|_| task.is_none()) {
            trace.queued(&prepared.work.inputs);
        }
        let is_alone = model.runs_alone(face, config, &prepared.work);
        let call = Call {
            model,
            found,
            prepared,
            task,
            most_rows,
            is_alone,
            config: model.config_of(named),
            request: &request,
            accepted,
            trace,
        };
        let answer = match &self.cache {
            // In a box: what has no cache does not pay for the size of it.
            // What is sent part by part is not kept.
            Some(cache) if model.config.response_cache && request.parts.is_none() => {
                self.cached(cache, call).await?
            }
            _ => {
                let answer = self.compute(call, None).await?;
                // The end of one that is answered in parts is counted where they end.
                if request.parts.is_none() {
                    model.metrics.success(answer.rows, accepted.elapsed(), &answer.timings);
                }
                answer
            }
        };
        Ok((request.id, answer))
    }

    /// Runs the model.
    async fn compute(&self, mut call: Call<'_>, slot: Option<ReplySlot>) -> Result<Answer, Error> {
        let Call { model, config, request, accepted, trace, .. } = &call;
        let (model, config, request, accepted, trace) =
            (*model, *config, *request, *accepted, *trace);
        let rows = call.prepared.work.rows.max(1);
        let most_rows = call.most_rows;
        let fitting = match &model.dispatch {
            Dispatch::Batches(scheduler) => scheduler.memory_rows().unwrap_or(most_rows),
            Dispatch::Sequences(_) | Dispatch::Ensemble(_) => most_rows,
        };
        let fitting = fitting.min(most_rows);
        // What a pipeline makes of the outputs of its graph has types of its own.
        let is_own = call.task.is_none();
        // Rows of texts take theirs one by one, and steps of an ensemble as requests to its members.
        let outputs: &[_] = match &model.dispatch {
            Dispatch::Batches(_) | Dispatch::Sequences(_) if is_own => &config.outputs[..],
            Dispatch::Batches(_) | Dispatch::Sequences(_) | Dispatch::Ensemble(_) => &[],
        };
        let (name, work) = (&model.signature.model, &mut call.prepared.work);
        let room = model.run_room.take(name, outputs, work, self.bytes.as_ref());
        let _room = room.inspect_err(|it| {
            if matches!(it, Error::OutOfBudget(_)) {
                model.metrics.failure(FailureReason::Rejected);
            }
        })?;
        let done = match &model.dispatch {
            // In boxes, these and those below: a request to instances does not pay for the size of them.
            Dispatch::Batches(scheduler) if call.task.is_some() => {
                let no_pipeline = || Error::Internal("the model is no pipeline".to_owned());
                let found = call.task.zip(model.pipeline.as_ref());
                let (task, pipeline) = found.ok_or_else(no_pipeline)?;
                let (parameters, submission) = (&request.parameters[..], call.submission());
                let metrics = &model.metrics;
                let bytes = self.bytes.as_ref();
                let asking = pipeline::Asking {
                    task,
                    pipeline,
                    parameters,
                    submission,
                    bytes,
                    metrics,
                    trace,
                };
                pipeline::run(scheduler, asking).await?
            }
            Dispatch::Batches(scheduler) if 0 < most_rows && fitting < rows => {
                if scheduler.has_stopped_merging() {
                    return Err(too_many(model, most_rows));
                }
                let sender = request.parts.as_ref();
                parts::run(scheduler, call.submission(), fitting, slot, sender).await?
            }
            Dispatch::Batches(scheduler) => {
                scheduler.submit_with_slot(call.submission(), slot).await?
            }
            Dispatch::Sequences(scheduler) => {
                let sequence = request.sequence.as_ref();
                Box::pin(scheduler.submit(call.submission(), sequence)).await?
            }
            Dispatch::Ensemble(ensemble) => return self.members(&**ensemble, call).await,
        };
        if let Some(trace) = trace {
            trace.ran(rows, &done.timings, &done.outputs);
        }
        let mut outputs = done.outputs;
        for output in &mut outputs {
            let presented = crate::validate::present(config, output);
            if let Err(error) = presented.or_else(|it| if is_own { Err(it) } else { Ok(()) }) {
                model.metrics.failure_after(FailureReason::Backend, accepted.elapsed());
                return Err(Error::Backend(error));
            }
        }
        let queue = done.timings.started.saturating_duration_since(accepted);
        let timings = Timings { queue, ..done.timings };
        Ok(Answer { outputs, parameters: done.parameters, timings, rows })
    }

    /// Runs the members of the ensemble that the model is.
    fn members<'a>(
        &'a self,
        ensemble: &'a dyn Members,
        call: Call<'a>,
    ) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            let Call { model, found, prepared, config, request, trace, .. } = call;
            let rows = prepared.work.rows.max(1);
            let mut answer =
                self.ensemble(model, ensemble, found, prepared.work, request, trace).await?;
            if let Some(trace) = trace {
                trace.ran(rows, &answer.timings, &answer.outputs);
            }
            for output in &mut answer.outputs {
                crate::validate::present(config, output)?;
            }
            Ok(answer)
        })
    }
}

/// What a model's own code may ask of a request.
fn about(request: &InferenceRequest) -> About {
    let sequence = request.sequence.as_ref().map(|it| {
        let id = match &it.id {
            SequenceId::Number(number) => match i64::try_from(*number) {
                Ok(number) => Parameter::Int(number),
                Err(_) => Parameter::Text(number.to_string().into()),
            },
            SequenceId::Text(text) => Parameter::Text(text.clone()),
        };
        (id, SequenceFlags { start: it.start, end: it.end })
    });
    let timeout = request.queue_timeout.unwrap_or_default().as_micros();
    About {
        id: request.id.clone(),
        parameters: request.parameters.clone(),
        sequence,
        timeout_us: u64::try_from(timeout).unwrap_or(u64::MAX),
        lineage: request.lineage.clone(),
    }
}

/// The error of a request for a task that the model has not.
fn no_task(signature: &Signature, task: Task) -> Error {
    let (model, tasks) = (&signature.model, signature.tasks());
    let known: Vec<&str> = tasks.iter().map(|it| it.name()).collect();
    Error::InvalidRequest(match known.is_empty() {
        true => {
            let takes = takes_tensors(model, Some(task.medium()));
            format!("{takes}, so it does not do {task}")
        }
        false => format!("model '{model}' does not do {task}; it does {}", known.join(", ")),
    })
}

/// Of a model whose rows turned out to depend on each other a request cannot be cut.
fn too_many(model: &ServedModel, most: usize) -> Error {
    let model = &model.signature.model;
    Error::InvalidRequest(format!("inference request batch-size must be <= {most} for '{model}'"))
}
