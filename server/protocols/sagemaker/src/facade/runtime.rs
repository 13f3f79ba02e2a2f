//! The calls of a local SageMaker runtime: `/invocations` with the platform's headers and exceptions around it, and
//! operations on jobs. Signatures are not checked.

use std::time::Duration;

use hyper::{
    Response,
    body::Incoming,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};

use super::{
    Facade, accept,
    address::{self, Endpoint, Operation},
    call::Call,
    endpoint::{model_of, of_model},
    exception::{self, Exception, Refusal},
    headers::{INNER_CONTENT_TYPE, TARGET_VARIANT, check_headers, take_inner_types},
    operations::{self, is_operation},
};
use crate::{
    codec::eventstream::{self, Broken},
    event_stream::EventStream,
    front::{Hosting, SageMaker},
    invocations::parse,
    invoke, operation,
};
use frontend::{
    exchange::{intake::Received, payload::Payload, rendering::Rendering},
    http::{
        address::RequestHead,
        answer::failed,
        body::{BrokenOff, Segments},
        failed::Failed,
        parts::Parts,
    },
};
use inference::{error::Kind, identifier::new_uuid};

/// The platform's name for a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// The header that names the variant that answered.
const INVOKED_VARIANT: HeaderName = HeaderName::from_static("x-amzn-invoked-production-variant");

/// The variant where the client named none.
const ONLY_VARIANT: HeaderValue = HeaderValue::from_static("AllTraffic");

/// Most bytes of a failure's text that are repeated.
const LONGEST: usize = 16 << 10;

/// What a request asks of the local runtime, where it is on and the request is for it.
pub fn asked<'a>(
    sagemaker: &SageMaker,
    head: &RequestHead<'_>,
) -> Option<operation::Operation<'a>> {
    let facade = sagemaker.facade.as_ref()?;
    let call = match () {
        () if head.path.starts_with(address::PREFIX) => Call::Endpoint,
        () if is_operation(head) => Call::Job,
        () => return None,
    };
    Some(operation::Operation::Runtime(facade.clone(), call))
}

/// Answers a request that is for the local runtime.
pub async fn answer(
    hosting: &Hosting<'_>,
    facade: &Facade,
    call: Call,
    parts: &Parts,
    body: &mut Incoming,
) -> Response<Segments> {
    let outcome = match call {
        Call::Job => operations::answer(hosting, facade.operations.as_ref(), parts, body)
            .await
            .map_err(Refusal::from),
        Call::Endpoint => endpoint(hosting, facade, parts.clone(), body).await,
    };
    let response = outcome.unwrap_or_else(|refusal| {
        let (failure, exception) = refusal.into_parts();
        // As without the runtime, the failure gets its line in the log.
        failed(hosting.http, parts, &failure, |failed| {
            rendered(hosting.sagemaker, call, exception, failed)
        })
    });
    identified(response)
}

/// The reply to a client that may not make this call.
pub fn refused(sagemaker: &SageMaker, call: Call, failed: &Failed<'_>) -> Response<Segments> {
    let exception = Exception::of(failed.error.kind());
    identified(rendered(sagemaker, call, Some(exception), failed))
}

/// The reply to a call that failed: with the platform's exception, or as one of the model's container.
fn rendered(
    sagemaker: &SageMaker,
    call: Call,
    exception: Option<Exception>,
    failed: &Failed<'_>,
) -> Response<Segments> {
    let plain = sagemaker.invocation_failure(failed);
    match (call, exception) {
        (Call::Job, exception) => operations::refusal(exception, plain, failed.error),
        (Call::Endpoint, Some(exception)) => exception.respond(plain, failed.error),
        (Call::Endpoint, None) => {
            let endpoint = address::endpoint(&failed.parts.method, failed.parts.uri.path());
            model_error(&endpoint.map(|it| it.name).unwrap_or_default(), plain)
        }
    }
}

/// With the platform's name for the request.
fn identified(mut response: Response<Segments>) -> Response<Segments> {
    if let Ok(id) = HeaderValue::try_from(new_uuid()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Answers a request below `/endpoints`.
async fn endpoint(
    hosting: &Hosting<'_>,
    facade: &Facade,
    mut parts: Parts,
    body: &mut Incoming,
) -> Result<Response<Segments>, Refusal> {
    let uri = parts.uri.clone();
    let endpoint = address::endpoint(&parts.method, uri.path())?;
    run(hosting, facade, &endpoint, &mut parts, body).await
}

async fn run(
    hosting: &Hosting<'_>,
    facade: &Facade,
    endpoint: &Endpoint<'_>,
    parts: &mut Parts,
    body: &mut Incoming,
) -> Result<Response<Segments>, Refusal> {
    check_headers(&parts.headers)?;
    let response = match endpoint.operation {
        Operation::InvokeAsync => {
            return accept::accept(hosting, facade, &endpoint.name, parts, body).await;
        }
        Operation::Invoke => invoke(hosting, &endpoint.name, parts, body.into()).await?,
        Operation::InvokeStream => {
            take_inner_types(&mut parts.headers);
            framed(invoke(hosting, &endpoint.name, parts, body.into()).await?)
        }
    };
    if !response.status().is_success() {
        return Ok(model_error(&endpoint.name, response));
    }
    let variant = parts.headers.get(&TARGET_VARIANT).cloned().unwrap_or(ONLY_VARIANT);
    let mut response = response;
    response.headers_mut().insert(INVOKED_VARIANT, variant);
    Ok(response)
}

/// The answer of `/invocations`, on the model behind the endpoint.
async fn invoke(
    hosting: &Hosting<'_>,
    endpoint: &str,
    parts: &Parts,
    body: Payload<'_, Incoming>,
) -> Result<Response<Segments>, Refusal> {
    let invocation = parse(&parts.headers);
    let model = model_of(hosting, endpoint, &parts.headers, &invocation).await?;
    let answer = match invocation {
        Ok(invocation) => invoke::invoke(hosting, model, parts, invocation, body).await,
        Err(error) => Err(error.into()),
    };
    answer.map_err(|failure| of_model(hosting, failure))
}

/// How one attempt to run an asynchronous invocation ended.
pub enum Attempt {
    /// With a reply.
    Done(Response<Segments>),
    /// The server has no room at present; a retry makes sense after that time.
    Again(Duration),
    /// With this reply, whose body says why in JSON, and with the reason as a sentence.
    Failed(Response<Segments>, String),
}

/// Runs an asynchronous invocation once. Its body is in memory, and no client waits for the reply.
pub async fn attempt(
    hosting: &Hosting<'_>,
    endpoint: &str,
    parts: &Parts,
    body: Received,
) -> Attempt {
    let refusal = match invoke(hosting, endpoint, parts, Payload::Here(body)).await {
        Ok(response) if response.status().is_success() => return Attempt::Done(response),
        Ok(response) => {
            let reason = failure_message(&response);
            return Attempt::Failed(response, reason);
        }
        Err(refusal) => refusal,
    };
    let (failure, exception) = refusal.into_parts();
    let error = &failure.error;
    let passes = error.kind() == Kind::Overloaded || exception == Some(Exception::ModelNotReady);
    if let Some(after) = error.retry_after().filter(|_| passes) {
        failure.answered(Rendering::of(error).http.as_u16());
        return Attempt::Again(after);
    }
    let response =
        failed(hosting.http, parts, &failure, |failed| hosting.invocation_failure(failed));
    let reason = match exception {
        Some(_) => error.to_string(),
        None => failure_message(&response),
    };
    Attempt::Failed(response, reason)
}

/// `ModelError` around the answer of the model's container.
fn model_error(endpoint: &str, inner: Response<Segments>) -> Response<Segments> {
    let body = crate::codec::aws::model_error(endpoint, inner.status().as_u16(), &text_of(&inner));
    let mut response = exception::respond("ModelError", exception::MODEL_ERROR, body);
    if let Some(after) = inner.headers().get(RETRY_AFTER) {
        response.headers_mut().insert(RETRY_AFTER, after.clone());
    }
    response
}

/// The sentence that describes a failed answer.
fn failure_message(inner: &Response<Segments>) -> String {
    crate::codec::aws::model_message(inner.status().as_u16(), &text_of(inner))
}

fn text_of(response: &Response<Segments>) -> String {
    let bytes = response.body().pieces().flatten().copied().take(LONGEST);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// What the last frame says of a body that breaks off.
fn broken(body: BrokenOff) -> (Broken, String) {
    let BrokenOff { text, is_late } = body;
    (if is_late { Broken::TimeExceeded } else { Broken::Off }, text)
}

/// The reply as an event stream: each part leaves as soon as it is there.
fn framed(response: Response<Segments>) -> Response<Segments> {
    if !response.status().is_success() {
        return response;
    }
    let (mut head, inner) = response.into_parts();
    let spent = inner.spent();
    head.headers.remove(CONTENT_LENGTH);
    let frames = HeaderValue::from_static(eventstream::MEDIA_TYPE);
    if let Some(content_type) = head.headers.insert(CONTENT_TYPE, frames) {
        head.headers.insert(INNER_CONTENT_TYPE, content_type);
    }
    let frames = EventStream::new(inner.into_part(), broken);
    let mut body = Segments::coming(frames);
    body.set_spent(spent);
    Response::from_parts(head, body)
}
