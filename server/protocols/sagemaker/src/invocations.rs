//! SageMaker's `/invocations`: one request in any of its formats, on the model that it is for.

use std::sync::Arc;

use backend::BackendError;
use bytes::Bytes;
use hyper::{
    HeaderMap, Response, StatusCode,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE},
};

use crate::{
    codec::invocations::{self, Attributes, Dialect, Invocation, ModelSays, Options, ReplyFormat},
    front::Hosting,
    in_parts,
    observed::Observed,
    script,
};
use formats::{EncodedReply, negotiate::wants_lines_early};
use frontend::{
    exchange::{Decoded, Failure, payload::Payload},
    http::{
        answer::Answer,
        body::Segments,
        captures::CUSTOM_ATTRIBUTES,
        inference::{HttpCodec, Work, inference},
        parts::Parts,
        respond,
        service::text,
    },
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceResponse, Sequence},
    signature::Signature,
};
use serving::{LAYOUT, ServedModel, TF_SERVING};
use telemetry::capture::Captured;

/// The head of a request, parsed. Its content type may still be wrong.
///
/// # Errors
/// [`Error::InvalidRequest`] where its attributes are wrong.
pub fn parse(headers: &HeaderMap) -> Result<Invocation, Error> {
    let header = |name| text(headers, name);
    Invocation::read(header(&CONTENT_TYPE), header(&ACCEPT), header(&CUSTOM_ATTRIBUTES))
}

/// The model that a request's headers choose.
pub async fn chosen(
    hosting: &Hosting<'_>,
    headers: &HeaderMap,
    attributes: &Attributes,
) -> Result<Arc<ServedModel>, Error> {
    match &attributes.model {
        Some(name) => {
            let deadline = || hosting.http.deadline(headers);
            let model = hosting.http.serving.model(name, attributes.version, deadline).await?;
            hosting.through_script(model, headers).await
        }
        None => hosting.invoked(headers, attributes.version).await,
    }
}

/// Runs a body in any format on a model. `sequence` is the one of its session.
pub async fn infer(
    hosting: &Hosting<'_>,
    model: Arc<ServedModel>,
    parts: &Parts,
    invocation: Invocation,
    mut body: Payload<'_, Incoming>,
    sequence: Option<&Sequence>,
) -> Answer {
    if script::is_script(&model) {
        // Boxed: the futures of other requests stay small.
        let answer = Box::pin(script::infer(hosting, model, parts, body, sequence)).await;
        return answer.map(|it| with_attributes(hosting, parts, it));
    }
    let json_length = invocation.declared.json_length();
    let work = match (invocation.declared.may_be_sparse(), json_length) {
        (true, _) => Work::SparseBody,
        (false, Some(length)) => Work::Bytes(length),
        (false, None) => Work::Body,
    };
    let mut invocation = invocation;
    let is_in_parts = model.is_decoupled || wants_lines_early(invocation.accept.as_deref());
    if model.is_decoupled {
        invocation.accept = invocation.accept.as_deref().and_then(in_parts::accepted);
    }
    let says = ModelSays::of(|it| model.config.parameters.get(it).map(String::as_str));
    let is_multi_model = hosting.http.serving.control.multi_model().is_ok();
    let invocation = Box::new(Invocation { model: says, is_multi_model, ..invocation });
    let options = options_for(hosting, &model);
    let is_xgboost = invocations::speaks_xgboost(&options, &invocation);
    let blames_the_body = is_xgboost || options.dialect == Some(Dialect::HuggingFace);
    if is_xgboost && body.length().is_none() {
        // A body of unknown length shows only at its end whether it is empty.
        body.admit(|| model.admit())?;
        let arrived = Box::pin(body.receive(json_length, &hosting.http.settings.body)).await?;
        body = Payload::Admitted(arrived);
    }
    if is_xgboost && body.length() == Some(0) {
        // XGBoost's container answers an empty body with 204.
        return Ok(respond::empty(StatusCode::NO_CONTENT));
    }
    let observed = Observed::begin(hosting, &model, parts);
    let captured = observed.captured();
    let codec = InvocationCodec { invocation, options, captured, work };
    let mut answer = match is_in_parts {
        // Boxed: the futures of other requests stay small.
        true => Box::pin(in_parts::infer(hosting.http, model, parts, body, codec, sequence)).await,
        false => inference(hosting.http, model, parts, body, codec, sequence).await,
    };
    if blames_the_body {
        answer = answer.map_err(blame_the_body);
    }
    observed.end(&mut answer);
    answer.map(|it| with_attributes(hosting, parts, it))
}

/// The platform passes the attributes of a request on to the client only if the container repeats them. What a model
/// has said itself stays.
fn with_attributes(
    hosting: &Hosting<'_>,
    parts: &Parts,
    mut response: Response<Segments>,
) -> Response<Segments> {
    if let Some(attributes) = parts.headers.get(&CUSTOM_ATTRIBUTES)
        && hosting.answers.echo_attributes
    {
        let headers = response.headers_mut();
        headers.entry(CUSTOM_ATTRIBUTES.clone()).or_insert_with(|| attributes.clone());
    }
    response
}

/// The codec of a body in any format.
struct InvocationCodec {
    invocation: Box<Invocation>,
    options: Arc<Options>,
    captured: Option<Arc<Captured>>,
    work: Work,
}

impl HttpCodec for InvocationCodec {
    type Format = ReplyFormat;

    fn header_length(&self) -> Option<usize> {
        self.invocation.declared.json_length()
    }

    fn work(&self) -> Work {
        self.work
    }

    fn decode(
        self,
        signature: &Signature,
        body: Bytes,
        grant: &Grant,
    ) -> Result<Decoded<ReplyFormat>, Failure> {
        let InvocationCodec { invocation, options, captured, .. } = self;
        if let Some(captured) = captured {
            captured.input(&body);
        }
        let (request, mut format) =
            invocations::decode(signature, &invocation, &options, body, grant)?;
        let shared = format.take_shared();
        Ok(Decoded { request, format, shared })
    }

    fn encode(
        format: &ReplyFormat,
        signature: &Signature,
        response: &InferenceResponse,
        grant: &Grant,
    ) -> Result<EncodedReply, Error> {
        invocations::encode(format, signature, response, grant)
    }
}

/// What decoding and encoding go by. Where neither the operator nor the environment says whose container this one takes
/// the place of, the layout of the model's folder does.
fn options_for(hosting: &Hosting<'_>, model: &ServedModel) -> Arc<Options> {
    let options = &hosting.options;
    let is_open = options.dialect.is_none() && options.vendor.is_none();
    let layout = model.config.parameters.get(LAYOUT).filter(|_| is_open);
    match layout.map(String::as_str) {
        Some(TF_SERVING) => {
            Arc::new(Options { vendor: Some(Dialect::Tfs), ..Options::clone(options) })
        }
        _ => options.clone(),
    }
}

/// The containers of XGBoost and Hugging Face blame a failed run on the body, with 400, and their clients look for that
/// status. The second one does so only where an operator asks for its dialect: 400 tells others not to try again.
fn blame_the_body(failure: Failure) -> Failure {
    match &failure.error {
        Error::Backend(BackendError::Execute(problem)) => {
            let error = Error::InvalidRequest(problem.clone());
            failure.with_error(error)
        }
        _ => failure,
    }
}
