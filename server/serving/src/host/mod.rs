//! What a model's own code may ask of the server: requests to other models, their loading, metrics of its own.
//!
//! A request of a model's code is one as of a client: it is admitted, counted, queued, merged and traced, and its bytes
//! are taken of the same budget. It runs on the one thread of `asks`, which waits most of the time. A request that
//! would wait for itself is refused before it waits (`lineage`).

mod asks;
mod lineage;
mod refusal;
mod rest;

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    time::{Duration, Instant},
};

use backend::{
    Ask, CallAnswer, CallCode, CallError, Control as Verb, Host, HostHandle, MetricChange,
    NamedTensor, NotSent, Parameter, PartSender, SequenceFlags,
};

use crate::{
    control::{Control, LoadOverride},
    infer::Inference,
    lock::lock,
    manager::ModelManager,
    model_id::ModelId,
    served::ServedModel,
};
use asks::Asks;
use inference::{
    error::Error,
    limits::{Budget, Permit},
    messages,
    request::{InferenceRequest, InferenceResponse, Sequence, SequenceId},
    trace::{Tracing, Transport},
};
pub use rest::{Rest, RestRequest};
use telemetry::metrics::{Metrics, OwnMetrics};
use tokio::sync::Notify;

/// What a [`Hosts`] answers with.
pub struct HostParts {
    /// Where models are found.
    pub models: Arc<ModelManager>,
    /// Runs requests.
    pub inference: Inference,
    /// Which requests are traced.
    pub tracing: Arc<Tracing>,
    /// Of which inputs and outputs take their bytes.
    pub bytes: Arc<Budget>,
    /// Where metrics are shown.
    pub metrics: Metrics,
    /// Longest time of a request; `None` for any time.
    pub request_timeout: Option<Duration>,
    /// Reads and writes bodies of TensorFlow Serving's REST; `None` where the build has none.
    pub rest: Option<Arc<dyn Rest>>,
}

/// The server, as the code of all models sees it. Clones are the same server.
#[derive(Clone)]
pub struct Hosts(Arc<Shared>);

struct Shared {
    parts: HostParts,
    /// What loads and unloads, once it is there. Weak: it holds what loads, which holds this.
    control: OnceLock<Weak<dyn Control>>,
    asks: Asks,
}

impl Hosts {
    /// A server that runs requests. Nothing is started before the first of them.
    pub fn new(parts: HostParts) -> Hosts {
        Hosts(Arc::new(Shared { parts, control: OnceLock::new(), asks: Asks::default() }))
    }

    /// From now on models may load others by that control.
    pub fn controlled_by(&self, control: Weak<dyn Control>) {
        // It is said once.
        let _ = self.0.control.set(control);
    }

    /// The server, as the code of that model sees it. Models in the namespace `own` go before others of their name.
    pub fn of(&self, caller: ModelId, own: Arc<str>) -> HostHandle {
        let metrics = self.0.parts.metrics.of_own_code();
        HostHandle(Some(Arc::new(HostOfModel { shared: self.0.clone(), caller, own, metrics })))
    }
}

/// The server, as the code of one model sees it.
struct HostOfModel {
    shared: Arc<Shared>,
    caller: ModelId,
    own: Arc<str>,
    /// Its metrics, which go with it.
    metrics: OwnMetrics,
}

impl HostOfModel {
    fn id(&self, model: &str) -> ModelId {
        let own = ModelId { name: model.into(), namespace: self.own.clone() };
        let has_own = || self.shared.parts.models.snapshot().find(&own, None).is_some();
        match self.own == self.caller.namespace || has_own() {
            true => own,
            false => ModelId { namespace: self.caller.namespace.clone(), ..own },
        }
    }

    fn control_here(&self) -> Result<Arc<dyn Control>, Error> {
        self.shared.control.get().and_then(Weak::upgrade).ok_or(Error::ShuttingDown)
    }

    fn load_or_unload(&self, verb: Verb) -> Result<(), Error> {
        let control = self.control_here()?;
        match verb {
            Verb::Load { model, config, files } => {
                if self.shared.parts.models.serving(&self.caller).is_empty()
                    && *model == *self.caller.name
                {
                    return Err(Error::InvalidRequest(format!(
                        "model '{model}' cannot load itself while it is being loaded"
                    )));
                }
                let config = (!config.is_empty()).then_some(config);
                let file = |(path, content): (String, Vec<u8>)| match path.strip_prefix("file:") {
                    Some(path) => Ok((path.to_owned(), content.into())),
                    None => Err(Error::InvalidRequest(format!(
                        "file '{}': expected a path as file:1/model.onnx",
                        path.chars().take(100).flat_map(char::escape_debug).collect::<String>()
                    ))),
                };
                let files = files.into_iter().map(file).collect::<Result<_, Error>>()?;
                control.load(&model, LoadOverride { config, files })
            }
            Verb::Unload { model, dependents } => control.unload(&model, dependents),
        }
    }
}

impl Host for HostOfModel {
    fn infer(&self, mut ask: Ask, answer: PartSender) {
        let (shared, id, sender) = (self.shared.clone(), self.id(&ask.model), answer.clone());
        if id.namespace != self.caller.namespace {
            // A member of its own may have its name, and does not wait for it.
            ask.model = format!("{}/{}", id.namespace, id.name).into();
        }
        let work = async move {
            let end = shared.run(&id, ask, &sender).await;
            sender.end(end);
        };
        match self.shared.asks.spawn(work) {
            // Whoever asks may not wait any more: then nothing of it goes on.
            Ok(task) => answer.on_left(move || task.abort()),
            Err(error) => answer.end(Err(refusal::of(&Error::Internal(error.to_string())))),
        }
    }

    fn is_ready(&self, model: &str, version: Option<u64>) -> bool {
        let found = self.shared.find_served(&self.id(model), version);
        found.is_ok_and(|it| it.check_ready().is_ok())
    }

    fn control(&self, control: Verb) -> Result<(), CallError> {
        self.load_or_unload(control).map_err(|it| refusal::of(&it))
    }

    fn metric(&self, change: MetricChange) -> Result<f64, CallError> {
        let refused = |it: telemetry::metrics::CustomMetricError| CallError {
            code: it.code(),
            text: it.to_string(),
        };
        self.metrics.change(&change).map_err(refused)
    }
}

impl Shared {
    /// Runs one request to its end.
    async fn run(&self, id: &ModelId, ask: Ask, answer: &PartSender) -> Result<(), CallError> {
        let own = (ask.timeout_us != 0).then(|| Duration::from_micros(ask.timeout_us));
        let limit = |it: Duration| Instant::now().checked_add(it);
        let outer = [ask.deadline, self.parts.request_timeout.and_then(limit)];
        let outer = outer.into_iter().flatten().min();
        let own_end = own.and_then(limit);
        let deadline = own_end.into_iter().chain(outer).min();
        let is_own = own_end.is_some() && deadline == own_end;
        let (model, is_rest) = (ask.model.clone(), ask.rest.is_some());
        let mut ran = self.run_until(id, ask, deadline, answer).await;
        if let (Err(error), Some(rest), true) = (&ran, &self.parts.rest, is_rest) {
            // It is answered, as over a wire. Nobody may wait any more.
            ran = rest::failed(&**rest, error).map(|it| {
                let _ = answer.send(it);
            });
        }
        ran.map_err(|error| match (&error, own) {
            (Error::DeadlineExceeded { .. }, Some(timeout)) if is_own => CallError {
                code: CallCode::Unavailable,
                text: format!(
                    "{}: the request to model '{model}' was not answered within its {} us",
                    messages::QUEUE_TIMEOUT,
                    timeout.as_micros()
                ),
            },
            _ => refusal::of(&error),
        })
    }

    async fn run_until(
        &self,
        id: &ModelId,
        ask: Ask,
        deadline: Option<Instant>,
        answer: &PartSender,
    ) -> Result<(), Error> {
        lineage::check_name(&ask.lineage, &ask.model)?;
        let model = self.find(id, ask.version, deadline).await?;
        lineage::check_members(&ask.lineage, &model)?;
        model.admit()?;
        let mut permit = Permit::nothing(&self.parts.bytes);
        permit.make_room(bytes_of(&ask.inputs))?;
        if let Some(method) = ask.rest.clone() {
            return self.run_rest(&model, method, ask, deadline, permit, answer).await;
        }
        let is_decoupled = ask.is_decoupled;
        let request = self.request(ask, &model, deadline)?;
        if is_decoupled && model.streams {
            return self.stream(&model, request, permit, answer).await;
        }
        let response = self.parts.inference.run(&model, request).await?;
        permit.cover(bytes_of(&response.outputs));
        send(answer, part_of(response), permit);
        Ok(())
    }

    /// The same for a request whose inputs are a body of TensorFlow Serving's REST.
    async fn run_rest(
        &self,
        model: &Arc<ServedModel>,
        method: Arc<str>,
        ask: Ask,
        deadline: Option<Instant>,
        permit: Permit,
        answer: &PartSender,
    ) -> Result<(), Error> {
        let Some(rest) = &self.parts.rest else {
            let text = "this build has no TensorFlow Serving; build muster with --features tensorflow_serving";
            return Err(Error::Unimplemented(text.to_owned()));
        };
        let read = rest::read(rest, method, &ask, model, permit).await?;
        let rest::Read { request, write, mut permit } = read;
        let InferenceRequest { trace, id, deadline, queue_timeout, lineage, .. } =
            self.request(ask, model, deadline)?;
        let request = InferenceRequest { trace, id, deadline, queue_timeout, lineage, ..request };
        let named = request.signature;
        let response = self.parts.inference.run(model, request).await?;
        permit.cover(bytes_of(&response.outputs));
        let (part, permit) = rest::written(write, model, named, response, permit).await?;
        send(answer, part, permit);
        Ok(())
    }

    /// Runs a request that is answered in parts, as fast as the asking model takes them.
    async fn stream(
        &self,
        model: &Arc<ServedModel>,
        request: InferenceRequest,
        _inputs: Permit,
        answer: &PartSender,
    ) -> Result<(), Error> {
        let mut responses = self.parts.inference.stream(model, request)?;
        let taken = Arc::new(Notify::new());
        let hears = taken.clone();
        answer.on_taken(move || hears.notify_one());
        while let Some(response) = responses.next().await {
            let part = part_of(response?);
            // A clone shares the bytes. What is taken meanwhile is remembered.
            while answer.send(part.clone()) == Err(NotSent::Full) {
                taken.notified().await;
            }
        }
        // As in Triton, an end by itself is a response without outputs.
        while !responses.has_taken_last()
            && answer.send(CallAnswer::default()) == Err(NotSent::Full)
        {
            taken.notified().await;
        }
        Ok(())
    }

    fn request(
        &self,
        ask: Ask,
        model: &ServedModel,
        deadline: Option<Instant>,
    ) -> Result<InferenceRequest, Error> {
        let sequence = ask.sequence.map(sequence).transpose()?.flatten();
        let signature = &model.signature;
        let parent = || ask.trace.as_deref();
        let tracing = &self.parts.tracing;
        Ok(InferenceRequest {
            trace: tracing.begin(Transport::Inside, &signature.model, signature.version, parent),
            id: ask.id,
            inputs: ask.inputs,
            outputs: ask.outputs,
            deadline,
            queue_timeout: (ask.timeout_us != 0).then(|| Duration::from_micros(ask.timeout_us)),
            sequence,
            parameters: ask.parameters,
            lineage: ask.lineage,
            ..InferenceRequest::default()
        })
    }

    /// The model that is asked, loaded for this where models are loaded on demand.
    async fn find(
        &self,
        id: &ModelId,
        version: Option<u64>,
        deadline: Option<Instant>,
    ) -> Result<Arc<ServedModel>, Error> {
        let control = self.control.get().and_then(Weak::upgrade);
        match control.as_ref().and_then(|it| it.on_demand()) {
            Some(on_demand) if id.namespace.is_empty() => {
                on_demand.model(&id.name, version, deadline).await
            }
            Some(_) | None => self.find_served(id, version),
        }
    }

    fn find_served(&self, id: &ModelId, version: Option<u64>) -> Result<Arc<ServedModel>, Error> {
        let models = &self.parts.models;
        match &*id.namespace {
            "" => models.get(&id.name, version),
            _ => models.snapshot().find(id, version).ok_or_else(|| models.explain(id, version)),
        }
    }
}

/// Sends the only part of an answer. The permit is held until the asking model has taken it, or does not wait for it
/// any more.
fn send(answer: &PartSender, part: CallAnswer, permit: Permit) {
    let permit = Mutex::new(Some(permit));
    answer.on_taken(move || drop(lock(&permit).take()));
    // Nobody may wait any more.
    let _ = answer.send(part);
}

fn part_of(response: InferenceResponse) -> CallAnswer {
    CallAnswer { outputs: response.outputs, parameters: response.parameters, again: false }
}

fn bytes_of(tensors: &[NamedTensor]) -> usize {
    tensors.iter().map(|it| it.tensor.byte_len()).sum()
}

/// The sequence of a request; `None` for the number 0 and the empty text, which stand for none.
fn sequence((id, flags): (Parameter, SequenceFlags)) -> Result<Option<Sequence>, Error> {
    let id = match id {
        Parameter::Int(0) => None,
        Parameter::Text(text) if text.is_empty() => None,
        Parameter::Text(text) => Some(SequenceId::Text(text)),
        Parameter::Int(number) => match u64::try_from(number) {
            Ok(number) => Some(SequenceId::Number(number)),
            Err(_) => return Err(no_sequence(&number.to_string())),
        },
        Parameter::Bool(it) => return Err(no_sequence(&it.to_string())),
        Parameter::Double(it) => return Err(no_sequence(&it.to_string())),
    };
    Ok(id.map(|id| Sequence { id, start: flags.start, end: flags.end }))
}

fn no_sequence(given: &str) -> Error {
    Error::InvalidRequest(format!(
        "correlation id {given}: expected a whole number that is not negative, or a text"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(id: Parameter, expect: Result<Option<SequenceId>, &str>) {
        let flags = SequenceFlags { start: true, end: false };
        let expect = match expect {
            Ok(id) => Ok(id.map(|id| Sequence { id, start: true, end: false })),
            Err(given) => Err(no_sequence(given)),
        };
        assert_eq!(sequence((id, flags)), expect);
    }

    #[test]
    fn a_sequence_has_a_number_or_a_text_and_zero_stands_for_none() {
        check(Parameter::Int(0), Ok(None));
        check(Parameter::Text("".into()), Ok(None));
        check(Parameter::Int(7), Ok(Some(SequenceId::Number(7))));
        check(Parameter::Text("a".into()), Ok(Some(SequenceId::Text("a".into()))));
        check(Parameter::Int(-1), Err("-1"));
        check(Parameter::Bool(true), Err("true"));
        check(Parameter::Double(0.5), Err("0.5"));
    }
}
