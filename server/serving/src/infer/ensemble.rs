//! A request to an ensemble: its steps run as soon as their tensors are there, side by side where they can, all on
//! the calling task. Tensors pass from one to the next without a copy.
//!
//! An ensemble is no scheduler. Each step is run by the same function as a request of a client, so members batch, count
//! and refuse as ever. A failure, or a client that leaves, drops all steps that run. The futures of steps are polled
//! together by hand, since an ensemble has few.
//!
//! Behind a decoupled member the steps run once for each of its responses, one response after the other. What does not
//! depend on it has run before, and is read each time.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Instant,
};

use backend::{CallAnswer, NamedTensor, PartSender, Shape, Tensor};

use crate::{
    ensemble::{
        plan::{Edge, Plan},
        turns::Turn,
    },
    infer::{Answer, Inference, next::next},
    served::{Dispatch, Member, Members, Resolved, ServedModel},
};
use inference::{
    error::{Error, Kind},
    request::InferenceRequest,
    timings::Timings,
    trace::Trace,
};
use schedule::{SemaphorePermit, work::Work};
use telemetry::metrics::{BatchReason, FailureReason, ModelMetrics};

/// A step that has started: its number, its request, and its turn.
type Started = (usize, InferenceRequest, Option<Arc<Turn>>);

/// A step that runs.
type Step<'a> = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send + 'a>>;

/// Counts a request that ends without an answer: as a failure of a member, or as one whose client has left.
struct Unanswered<'a> {
    metrics: Option<&'a ModelMetrics>,
    started: Instant,
}

impl Unanswered<'_> {
    fn failed(mut self, reason: FailureReason) {
        if let Some(metrics) = self.metrics.take() {
            metrics.failure_after(reason, self.started.elapsed());
        }
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.metrics.take() {
            metrics.failure_after(FailureReason::Canceled, self.started.elapsed());
        }
    }
}

impl Inference {
    /// Runs an ensemble.
    pub(super) async fn ensemble(
        &self,
        model: &Arc<ServedModel>,
        ensemble: &dyn Members,
        found: Option<&Resolved>,
        work: Work,
        request: &InferenceRequest,
        trace: Option<&Trace>,
    ) -> Result<Answer, Error> {
        let started = Instant::now();
        let fresh;
        let resolved = match found {
            Some(found) => found,
            None => {
                fresh = members(model, ensemble)?;
                &fresh
            }
        };
        let mut unanswered = Unanswered { metrics: Some(&model.metrics), started };
        let name = &model.signature.model;
        let run = Run::new(name, self, ensemble, resolved, request, trace, &work);
        let complete = run.complete(work, started, request.parts.as_ref());
        match complete.await {
            Ok(answer) => {
                unanswered.metrics = None;
                model.metrics.execution(&answer.timings, BatchReason::Alone);
                Ok(answer)
            }
            Err(error) => {
                unanswered.failed(reason(&error));
                Err(error)
            }
        }
    }
}

/// How an ensemble counts a failure: a deadline was its own request's, whatever step it passed in; what a member has is
/// counted by its reason there, and is something else here.
fn reason(error: &Error) -> FailureReason {
    match error.kind() {
        Kind::DeadlineExceeded => FailureReason::Canceled,
        _ => FailureReason::Other,
    }
}

/// The members that serve now. Where they are missing or do not fit, the request is counted as failed.
pub(super) fn members(model: &ServedModel, ensemble: &dyn Members) -> Result<Resolved, Error> {
    ensemble.resolve().map_err(|reason| {
        model.metrics.failure(FailureReason::Other);
        model.not_ready(reason.to_string())
    })
}

/// One request, and how far it is.
#[derive(Clone)]
struct Run<'a> {
    /// Of the ensemble.
    name: &'a str,
    inference: &'a Inference,
    ensemble: &'a dyn Members,
    resolved: &'a Resolved,
    plan: &'a Plan,
    request: &'a InferenceRequest,
    trace: Option<&'a Trace>,
    /// The wanted outputs, in the wanted order.
    wanted: Vec<&'a Edge>,
    /// By number of the step.
    steps: Vec<StepState>,
    /// By number of the tensor.
    tensors: Vec<TensorState>,
    /// Of a request of a sequence: its places before the steps that keep sequences apart and have not started. One that
    /// runs several times has it for the first.
    turns: Vec<(usize, Arc<Turn>)>,
}

/// How far a step is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepState {
    /// None of what is wanted needs it.
    Unneeded,
    /// It starts once its tensors are there.
    Waits,
    Started,
}

/// What is known of a tensor.
#[derive(Clone)]
struct TensorState {
    /// Is it there, or known to be left out?
    is_decided: bool,
    /// `None` where it was left out, is not there yet, or has been read for the last time.
    value: Option<Tensor>,
    /// How often it will still be read.
    readers: usize,
}

impl<'a> Run<'a> {
    fn new(
        name: &'a str,
        inference: &'a Inference,
        ensemble: &'a dyn Members,
        resolved: &'a Resolved,
        request: &'a InferenceRequest,
        trace: Option<&'a Trace>,
        work: &Work,
    ) -> Run<'a> {
        let plan = &*resolved.plan;
        let port = |name: &Arc<str>| plan.outputs.iter().find(|it| it.name == *name);
        let wanted: Vec<&Edge> = work.outputs.iter().filter_map(port).collect();
        let steps = match wanted.len() == plan.outputs.len() {
            true => vec![StepState::Waits; plan.steps.len()],
            false => {
                let needed = plan.needed_steps(wanted.iter().map(|it| it.tensor));
                let state = |it| if it { StepState::Waits } else { StepState::Unneeded };
                needed.into_iter().map(state).collect()
            }
        };
        let tensor =
            |readers: &usize| TensorState { is_decided: false, value: None, readers: *readers };
        let mut tensors: Vec<TensorState> = plan.readers.iter().map(tensor).collect();
        for (at, edge) in wanted.iter().enumerate() {
            // An output may be asked for twice.
            if wanted.iter().take(at).any(|it| it.tensor == edge.tensor)
                && let Some(tensor) = tensors.get_mut(edge.tensor)
            {
                tensor.readers += 1;
            }
        }
        let turns = match &request.sequence {
            Some(sequence) => {
                let steps = steps.iter().zip(&resolved.members).enumerate();
                let ordered = steps.filter(|(_, (state, member))| {
                    **state == StepState::Waits && keeps_sequences(member)
                });
                ordered
                    .map(|(at, _)| (at, Arc::new(ensemble.turns().enter(&sequence.id, at))))
                    .collect()
            }
            None => Vec::new(),
        };
        Run {
            name,
            inference,
            ensemble,
            resolved,
            plan,
            request,
            trace,
            wanted,
            steps,
            tensors,
            turns,
        }
    }

    /// Runs all steps that are needed. With `sender`, what comes out goes there, any number of times, and the answer is
    /// empty.
    async fn complete(
        mut self,
        work: Work,
        started: Instant,
        sender: Option<&PartSender>,
    ) -> Result<Answer, Error> {
        let batch_rows = work.rows.max(1);
        let mut timings = Timings { batch_rows, ..Timings::starting_at(started) };
        let mut given = work.inputs;
        for (name, tensor) in &self.plan.inputs {
            let at = given.iter().position(|it| it.name == *name);
            self.decide(*tensor, at.map(|it| given.swap_remove(it).tensor));
        }
        let outputs = match sender {
            Some(sender) => {
                self.flow(&mut timings, sender).await?;
                sender.end(Ok(()));
                Vec::new()
            }
            None => {
                self.settle(&mut timings, |_| true).await?;
                self.outputs()?
            }
        };
        Ok(Answer { outputs, parameters: Vec::new(), timings, rows: batch_rows })
    }

    /// Runs the steps whose tensors are there, and those that can run then, but for those that are not `taken`.
    async fn settle(
        &mut self,
        timings: &mut Timings,
        taken: impl Fn(&Member) -> bool,
    ) -> Result<(), Error> {
        let mut running: Vec<(usize, Step<'a>)> = Vec::new();
        self.start_ready(&mut running, &taken)?;
        while !running.is_empty() {
            let (step, answer) = next(&mut running).await;
            let answer = answer.map_err(|it| self.failed(step, it))?;
            timings.add(&answer.timings);
            self.take_in(step, answer.outputs);
            self.start_ready(&mut running, &taken)?;
        }
        Ok(())
    }

    /// Runs what is left, the steps behind a decoupled member once for each of its responses. What comes out is sent.
    fn flow<'s>(
        mut self,
        timings: &'s mut Timings,
        sender: &'s PartSender,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 's>>
    where
        'a: 's,
    {
        Box::pin(async move {
            self.settle(timings, |it| !it.model.is_decoupled).await?;
            let next = self.start_next(|it| it.model.is_decoupled)?;
            let Some((at, request, mut turn)) = next else {
                let outputs = self.outputs()?;
                sender.read().await;
                // Who has left drops this future, too.
                let _ = sender.send(CallAnswer { outputs, ..CallAnswer::default() });
                return Ok(());
            };
            let Some(member) = self.resolved.members.get(at) else { return Ok(()) };
            let _permit =
                self.inference.enter(self.ensemble, at, member, &request, turn.as_deref()).await?;
            let responses = self.inference.stream(&member.model, request);
            let mut responses = responses.map_err(|it| self.failed(at, it))?;
            while let Some(response) = responses.next().await {
                let response = response.map_err(|it| self.failed(at, it))?;
                // The next request of a sequence may follow.
                drop(turn.take());
                let mut behind = self.clone();
                behind.take_in(at, response.outputs);
                behind.leave_out(at);
                self.turns.clear();
                behind.flow(timings, sender).await?;
            }
            if let Some(own) = responses.timings() {
                timings.add(own);
            }
            Ok(())
        })
    }

    /// What the client wants, as far as it is there.
    fn outputs(&mut self) -> Result<Vec<NamedTensor>, Error> {
        let wanted = std::mem::take(&mut self.wanted);
        let outputs = wanted.iter().map(|edge| {
            let missing = || Error::Internal(format!("output '{}' was not made", edge.name));
            let tensor = self.fetch(edge)?.ok_or_else(missing)?;
            Ok(NamedTensor { name: edge.name.clone(), tensor })
        });
        outputs.collect()
    }

    /// Starts every step that is needed, taken, and whose tensors are there.
    fn start_ready(
        &mut self,
        running: &mut Vec<(usize, Step<'a>)>,
        taken: impl Fn(&Member) -> bool,
    ) -> Result<(), Error> {
        while let Some((at, request, turn)) = self.start_next(&taken)? {
            let Some(member) = self.resolved.members.get(at) else { continue };
            running.push((at, self.inference.step(self.ensemble, at, member, request, turn)));
        }
        Ok(())
    }

    /// The next step that is needed, taken, and whose tensors are there, with its request. It has started then.
    fn start_next(&mut self, taken: impl Fn(&Member) -> bool) -> Result<Option<Started>, Error> {
        let (plan, resolved) = (self.plan, self.resolved);
        let is_decided = |it: &Edge| self.tensors.get(it.tensor).is_some_and(|it| it.is_decided);
        let found = plan.steps.iter().zip(&resolved.members).zip(&self.steps).position(
            |((step, member), state)| {
                *state == StepState::Waits && taken(member) && step.inputs.iter().all(is_decided)
            },
        );
        let found = found.and_then(|at| Some((at, plan.steps.get(at)?, resolved.members.get(at)?)));
        let Some((at, step, member)) = found else { return Ok(None) };
        if let Some(state) = self.steps.get_mut(at) {
            *state = StepState::Started;
        }
        let mut inputs = Vec::with_capacity(step.inputs.len());
        for edge in &step.inputs {
            let tensor = self.fetch(edge).map_err(|it| self.failed(at, it))?;
            inputs.extend(tensor.map(|it| NamedTensor { name: edge.name.clone(), tensor: it }));
        }
        // What no step reads and the client does not want need not be fetched from the engine.
        let read = |tensor: usize| {
            self.wanted.iter().any(|it| it.tensor == tensor)
                || plan.steps.iter().zip(&self.steps).any(|(step, state)| {
                    *state != StepState::Unneeded
                        && step.inputs.iter().any(|it| it.tensor == tensor)
                })
        };
        let outputs = step.outputs.iter().filter(|it| read(it.tensor));
        let request = InferenceRequest {
            parts: None,
            signature: 0,
            id: self.request.id.clone(),
            inputs,
            outputs: outputs.map(|it| it.name.clone()).collect(),
            task: None,
            deadline: self.request.deadline,
            priority: self.request.priority,
            queue_timeout: self.request.queue_timeout,
            sequence: self.request.sequence.clone(),
            parameters: self.request.parameters.clone(),
            leaves_shapes_to_graph: false,
            lineage: self.request.lineage.clone(),
            trace: self.trace.and_then(|it| {
                let signature = &member.model.signature;
                let tracing = self.inference.tracing.as_ref()?;
                tracing.child(it, &signature.model, signature.version)
            }),
        };
        let turn = self.turns.iter().position(|(step, _)| *step == at);
        let turn = turn.map(|it| self.turns.swap_remove(it).1);
        Ok(Some((at, request, turn)))
    }

    /// The outputs of a step become tensors.
    fn take_in(&mut self, step: usize, outputs: Vec<NamedTensor>) {
        let Some(step) = self.plan.steps.get(step) else { return };
        for NamedTensor { name, tensor } in outputs {
            if let Some(it) = step.outputs.iter().find(|it| it.name == name) {
                self.decide(it.tensor, Some(tensor));
            }
        }
    }

    /// What a step has not made is left out.
    fn leave_out(&mut self, step: usize) {
        let Some(step) = self.plan.steps.get(step) else { return };
        for source in &step.outputs {
            if self.tensors.get(source.tensor).is_some_and(|it| !it.is_decided) {
                self.decide(source.tensor, None);
            }
        }
    }

    fn decide(&mut self, number: usize, tensor: Option<Tensor>) {
        if let Some(state) = self.tensors.get_mut(number) {
            (state.value, state.is_decided) = (tensor, true);
        }
    }

    /// The tensor as its reader takes it; `None` where it was left out. The last reader takes it away, so that no
    /// tensor stays longer than it is needed.
    fn fetch(&mut self, edge: &Edge) -> Result<Option<Tensor>, Error> {
        let Some(state) = self.tensors.get_mut(edge.tensor) else { return Ok(None) };
        state.readers = state.readers.saturating_sub(1);
        let tensor = if state.readers == 0 { state.value.take() } else { state.value.clone() };
        tensor.map(|it| fit_rank(it, edge)).transpose()
    }

    fn failed(&self, step: usize, error: Error) -> Error {
        let model = self.resolved.members.get(step).map(|it| &it.model.signature.model);
        let model = model.map_or("", |it| it).to_owned();
        Error::Step { ensemble: self.name.to_owned(), step, model, error: Box::new(error) }
    }
}

impl Inference {
    /// Waits for the turn of a step's request, and for a place in the step where these are bounded.
    async fn enter<'a>(
        &self,
        ensemble: &'a dyn Members,
        step: usize,
        member: &Member,
        request: &InferenceRequest,
        turn: Option<&Turn>,
    ) -> Result<Option<SemaphorePermit<'a>>, Error> {
        // Before there is a permit: who holds one must not wait for who needs one.
        if let Some(turn) = turn {
            first_in_time(turn, request.deadline, member).await?;
        }
        let Some(limit) = ensemble.step_limit(step) else { return Ok(None) };
        match limit.acquire(request.deadline).await {
            Some(permit) => Ok(Some(permit)),
            None => {
                let model = member.model.signature.model.to_string();
                Err(Error::DeadlineExceeded { model })
            }
        }
    }

    /// One step, as its member runs it.
    fn step<'a>(
        &'a self,
        ensemble: &'a dyn Members,
        step: usize,
        member: &'a Member,
        request: InferenceRequest,
        turn: Option<Arc<Turn>>,
    ) -> Step<'a> {
        Box::pin(async move {
            let _permit = self.enter(ensemble, step, member, &request, turn.as_deref()).await?;
            let mut answer =
                pin!(self.answer(&member.model, member.nested.as_deref(), request.into()));
            if turn.is_some() {
                // Polled once, it stands in the queue of the member, and the next request may follow.
                let begun = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
                drop(turn);
                if let Poll::Ready(answer) = begun {
                    return answer.map(|(_, answer)| answer);
                }
            }
            answer.await.map(|(_, answer)| answer)
        })
    }
}

/// Does the order of a sequence's requests matter to the member?
fn keeps_sequences(member: &Member) -> bool {
    match &member.model.dispatch {
        Dispatch::Sequences(_) | Dispatch::Ensemble(_) => true,
        Dispatch::Batches(_) => false,
    }
}

/// Waits for the request's turn, and no longer than it may.
async fn first_in_time(
    turn: &Turn,
    deadline: Option<Instant>,
    member: &Member,
) -> Result<(), Error> {
    let Some(deadline) = deadline else {
        turn.first().await;
        return Ok(());
    };
    let late = || Error::DeadlineExceeded { model: member.model.signature.model.to_string() };
    tokio::time::timeout_at(deadline.into(), turn.first()).await.map_err(|_| late())
}

/// The tensor with as many dimensions as its reader has: a batch of one row may lose its batch dimension, and what has
/// none may become such a batch.
fn fit_rank(tensor: Tensor, edge: &Edge) -> Result<Tensor, Error> {
    let Some(rank) = edge.rank else { return Ok(tensor) };
    let dims = tensor.shape().dims();
    let fitted = match dims {
        _ if dims.len() == rank => return Ok(tensor),
        _ if dims.len() + 1 == rank => {
            tensor.reshape(std::iter::once(1).chain(dims.iter().copied()).collect())
        }
        [1, rest @ ..] if rest.len() == rank => tensor.reshape(Shape::new(rest)),
        _ => None,
    };
    fitted.ok_or_else(|| {
        Error::InvalidRequest(format!(
            "'{}' takes {} dimensions, the tensor for it has the shape {}; only a batch of one row can lose its \
             batch dimension",
            edge.name,
            rank,
            tensor.shape()
        ))
    })
}
