//! TensorFlow Serving's `Predict`, `Classify`, `Regress` and `MultiInference`: the exchange, with the codec of these
//! messages.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use h2::RecvStream;

use super::replies::Replies;
use crate::grpc::{
    Method,
    messages::{self, Form, Request, Spec, Version},
};
use frontend::{
    exchange::{
        self, Arrived, Codec, Decoded, Failure,
        intake::Received,
        payload::{Nowhere, Payload},
    },
    grpc::{
        context::{Answered, Context},
        exchanged::{Times, call, named_twice},
    },
    serving::Serving,
};
use inference::{
    error::Error, grant::Grant, limits::out_of_bytes, request::InferenceResponse,
    signature::Signature,
};
use serving::ServedModel;

/// Answers one of these calls.
pub(super) async fn unary(
    method: Method,
    context: &Context,
    body: RecvStream,
) -> Result<Answered, Failure> {
    let front = &context.front;
    let times = Times::now(context);
    let mut message = context.messages(body).only_arrived().await?;
    let named = match &message {
        Arrived::Whole(_) => None,
        Arrived::Start(inflation) => {
            Request::start(method, inflation.plain()).map(Bytes::copy_from_slice)
        }
    };
    let model = match &named {
        // A long compressed message is inflated and decoded on the pool at once.
        Some(spec) => find(&front.serving, &Spec::checked(spec)?, times).await?,
        None => {
            let received = message.whole().await?;
            let bytes = received.bytes.clone();
            let request = Request::of(method, &bytes)?;
            let tasks = request.signature_names();
            if tasks.iter().any(|it| Some(it) != tasks.first()) {
                let tasks: Vec<String> = tasks.iter().map(|it| (*it).to_owned()).collect();
                let model = find(&front.serving, request.spec(), times).await?;
                drop(request);
                return Box::pin(several(method, context, model, tasks, received, times)).await;
            }
            message = received.into();
            find(&front.serving, request.spec(), times).await?
        }
    };
    let (call, body) = (call(context, times, None), Payload::<Nowhere>::from(message));
    let (limits, codec) = (&front.settings.messages, Predict::new(method, named));
    let answer = exchange::infer(&front.serving, limits, model, &call, body, codec).await?;
    Ok(Answered::One(answer.into(), context.reply_encoding()))
}

/// Answers a `MultiInference` whose tasks are for several signatures: one run for each of these.
async fn several(
    method: Method,
    context: &Context,
    model: Arc<ServedModel>,
    tasks: Vec<String>,
    received: Received,
    times: Times,
) -> Result<Answered, Failure> {
    let front = &context.front;
    // Each signature counts once, however many tasks are for it.
    let mut names: Vec<&String> = tasks.iter().collect();
    names.sort_unstable();
    names.dedup();
    // Before the first run: none is made in vain.
    for name in &names {
        model.signature.of_name(name).map_err(|it| Error::InvalidRequest(it.to_string()))?;
    }
    let limits = &front.settings.messages;
    let mut replies = Replies::default();
    for name in names {
        let permit = received.permit.budget().take(0);
        let permit = permit.ok_or_else(|| out_of_bytes(&limits.budget))?;
        let part = Received { bytes: received.bytes.clone(), permit };
        let call = exchange::Call { compression: None, ..call(context, times, None) };
        let codec = Predict { only: Some(name.clone()), ..Predict::new(method, None) };
        let body = Payload::<Nowhere>::Here(part);
        let answer =
            exchange::infer(&front.serving, limits, model.clone(), &call, body, codec).await?;
        replies.add(name.clone(), answer);
    }
    drop(received);
    let answer = replies.join(tasks).await?;
    Ok(Answered::One(answer.into(), context.reply_encoding()))
}

/// The codec of these messages.
struct Predict {
    method: Method,
    /// The model at the start of the message, where it was looked up by that alone.
    named: Option<Bytes>,
    /// Of the tasks those for the signature of that name; `None` for all.
    only: Option<String>,
}

impl Predict {
    fn new(method: Method, named: Option<Bytes>) -> Predict {
        Predict { method, named, only: None }
    }
}

impl Codec for Predict {
    type Parsed<'b> = Request<'b>;
    type Format = Form;
    type Reply = VecDeque<Bytes>;

    const SMALLER: &'static str = "expected tensor_content, or fewer elements";
    const SMALLER_REPLY: &'static str = "ask for fewer elements";

    fn parse<'b>(&self, body: &'b Bytes) -> Result<Request<'b>, Error> {
        let request = Request::of(self.method, body)?;
        let request = match &self.only {
            Some(name) => request.only(name),
            None => request,
        };
        match &self.named {
            Some(spec) if Spec::checked(spec)? != *request.spec() => Err(named_twice()),
            Some(_) | None => Ok(request),
        }
    }

    fn signature<'s>(
        &self,
        default: &'s Signature,
        request: &Request<'_>,
    ) -> Result<&'s Signature, Error> {
        let refused = match self.method {
            Method::Predict => Error::NoSuchSignature,
            _ => Error::InvalidRequest,
        };
        default.of_name(request.signature_name()).map_err(|it| refused(it.to_string()))
    }

    fn decode_work(&self, signature: &Signature, request: &Request<'_>) -> usize {
        request.work(signature)
    }

    fn decode(
        self,
        signature: &Signature,
        request: Request<'_>,
        grant: &Grant,
    ) -> Result<Decoded<Form>, Failure> {
        let (request, format) = request.decode(signature, grant)?;
        Ok(Decoded { request, format, shared: None })
    }

    fn encode_work(form: &Form, response: &InferenceResponse) -> usize {
        messages::work(form, response)
    }

    fn encode(
        form: &Form,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<VecDeque<Bytes>, Error> {
        messages::encode(form, signature, response, grant)
    }
}

/// The model of that name and version. Where models are loaded on demand, it is loaded for this.
pub(super) async fn find(
    serving: &Serving,
    spec: &Spec<'_>,
    times: Times,
) -> Result<Arc<ServedModel>, Error> {
    serving.model(spec.name, version(serving, spec)?, || Ok(times.deadline)).await
}

/// The number of the version, where one is named.
pub(super) fn version(serving: &Serving, spec: &Spec<'_>) -> Result<Option<u64>, Error> {
    match spec.version {
        Version::Any => Ok(None),
        Version::Number(number) => u64::try_from(number).map(Some).map_err(|_| {
            Error::InvalidRequest(format!(
                "model_spec.version: expected a number >= 0, given {number}"
            ))
        }),
        Version::Label(label) => serving.models.labelled(spec.name, label).map(Some),
    }
}
