//! The life of any call: which method it is, whether the client may make it, its answer, its line in the log and its
//! counters.

use std::{future::poll_fn, sync::Arc, task::Poll};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use hyper::{
    HeaderMap, Request, Response, StatusCode,
    header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue},
    http::uri::Authority,
};

use super::{
    Grpc, GrpcFront,
    body::Reply,
    context::{Answered, Context, Facts, Given},
    failure, metadata,
    services::Services,
    status::Status,
    watch::Call,
};
use crate::{
    drain::Stage,
    exchange::{compression::Encoding, rendering::Code, request_id::X_REQUEST_ID},
};
use inference::{access::Need, error::Error, signature::nearest};

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Answers any call, to the end of its answer. When the client leaves, the work ends.
// Here and below, an `async fn` would copy its parameters once more, which are large.
#[allow(clippy::manual_async_fn)]
pub fn serve<S: Services>(
    front: Arc<GrpcFront<S>>,
    call: Call,
    given: Given,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> impl Future<Output = ()> + Send {
    async move {
        let response = {
            let mut answer = std::pin::pin!(answer(&front, call, &given, request));
            poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Ready(response) => Poll::Ready(Some(response)),
                Poll::Pending => respond.poll_reset(context).map(|_| None),
            })
            .await
        };
        let Some(response) = response else { return };
        let (mut parts, reply) = response.into_parts();
        let mut id = given.id.value();
        // No two calls have the same: HPACK's table is for what comes again.
        id.set_sensitive(true);
        parts.headers.insert(X_REQUEST_ID, id);
        if let Err(error) = reply.send(Response::from_parts(parts, ()), respond).await {
            tracing::debug!(%error, "a reply was not taken");
        }
    }
}

#[allow(clippy::manual_async_fn)]
fn answer<S: Services>(
    front: &GrpcFront<S>,
    call: Call,
    given: &Given,
    request: Request<RecvStream>,
) -> impl Future<Output = Response<Reply>> + Send {
    async move {
        let (parts, body) = request.into_parts();
        if !metadata::is_call(&parts.headers) {
            let mut response = Response::new(Reply::nothing(call));
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        let GrpcFront { grpc, services } = front;
        let metrics = &grpc.serving.metrics;
        let called = method(services, parts.uri.path()).and_then(|method| {
            let facts = services.facts(method);
            let context = context(grpc, facts, given, parts.uri.authority(), parts.headers)?;
            Ok((method, context))
        });
        let answered = match called {
            Ok((method, context)) => {
                services.answer(method, context, body).await.map_err(|failure| {
                    failure::log(&grpc.serving, &given.id, &method, &failure);
                    failure::status(&failure)
                })
            }
            Err(error) => {
                let request_id = &*given.id.text();
                tracing::debug!(path = parts.uri.path(), request_id, %error, "call refused");
                Err(Status::of(&error))
            }
        };
        let mut response = match answered {
            Ok(Answered::One(message, encoding)) => {
                metrics.grpc(Status::OK.code as u8);
                let mut response = Response::new(Reply::message(message, call));
                name_encoding(&mut response, encoding);
                response
            }
            // A stream is counted when it ends.
            Ok(Answered::Many(answers, encoding)) => {
                let mut response = Response::new(Reply::stream(answers, call));
                name_encoding(&mut response, encoding);
                response
            }
            Err(status) => {
                metrics.grpc(status.code as u8);
                let mut response = Response::new(Reply::nothing(call));
                status.write(response.headers_mut());
                if status.code == Code::Unimplemented {
                    // Names the known encodings: the client may have used another one.
                    let known = HeaderValue::from_static("identity,gzip,deflate");
                    response.headers_mut().insert(ACCEPT_ENCODING, known);
                }
                response
            }
        };
        let content_type = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}

/// Adds the header that names the encoding of the messages.
fn name_encoding(response: &mut Response<Reply>, encoding: Option<Encoding>) {
    if let Some(encoding) = encoding {
        let name = HeaderValue::from_static(encoding.name());
        response.headers_mut().insert(ENCODING, name);
    }
}

/// The method of that path.
///
/// # Errors
/// [`Error::Unimplemented`] with the nearest path.
fn method<S: Services>(services: &S, path: &str) -> Result<S::Method, Error> {
    services.method(path).ok_or_else(|| {
        let shown: String = path.chars().take(128).collect();
        let hint = nearest(path, services.paths());
        let hint = hint.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
        Error::Unimplemented(format!("there is no call '{shown}'{hint}"))
    })
}

/// What is known of a call before its messages are read.
///
/// # Errors
/// Why the call is refused before its handler runs.
fn context(
    front: &Arc<Grpc>,
    facts: Facts,
    given: &Given,
    authority: Option<&Authority>,
    metadata: HeaderMap,
) -> Result<Context, Error> {
    allow(front, facts.need, authority, &metadata)?;
    let timeout = metadata::timeout(&metadata)?;
    let encoding = metadata::encoding(&metadata)?;
    let Given { id, memo } = given;
    let (front, id, memo) = (front.clone(), id.clone(), memo.clone());
    Ok(Context { front, facts, metadata, timeout, encoding, id, memo })
}

/// May a call that needs this access, with these metadata, be made now? All calls pass this one check.
fn allow(
    front: &Grpc,
    need: Need,
    authority: Option<&Authority>,
    metadata: &HeaderMap,
) -> Result<(), Error> {
    // HTTP/2 has the host in the address.
    let authority = authority.map(|it| it.as_str().as_bytes());
    front.settings.access.check(need, |name| {
        let given = metadata.get(name).map(HeaderValue::as_bytes);
        if name == HOST { authority.or(given) } else { given }
    })?;
    let serving = &front.serving;
    match serving.drain.is_serving() || serving.drain.stage() < Stage::Closing {
        true => Ok(()),
        false => Err(Error::ShuttingDown),
    }
}
