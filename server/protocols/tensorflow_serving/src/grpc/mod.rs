//! TensorFlow Serving over gRPC: inference, the states of models, and the list of what is served.

pub mod messages;
mod method;
mod predict;
mod replies;
mod versions;

use h2::RecvStream;

use frontend::{
    exchange::{Failure, intake::Received},
    grpc::{
        body::Encoded,
        context::{Answered, Context, Facts},
        messages::{self as control, decode, encode},
        services::Services,
    },
};
use inference::{boxed::BoxFuture, error::Error};
pub use method::Method;

/// TensorFlow Serving's services.
#[derive(Debug, Clone, Copy)]
pub struct TensorFlowServices;

impl Services for TensorFlowServices {
    type Method = Method;

    fn method(&self, path: &str) -> Option<Method> {
        Method::of(path)
    }

    fn paths(&self) -> impl Iterator<Item = &'static str> {
        method::PATHS.iter().map(|it| it.0)
    }

    fn facts(&self, method: Method) -> Facts {
        method.facts()
    }

    fn answer(
        &self,
        method: Method,
        context: Context,
        body: RecvStream,
    ) -> impl Future<Output = Result<Answered, Failure>> + Send {
        answer(method, context, body)
    }
}

fn answer(
    method: Method,
    context: Context,
    body: RecvStream,
) -> BoxFuture<'static, Result<Answered, Failure>> {
    Box::pin(async move {
        match method {
            Method::Predict | Method::Classify | Method::Regress | Method::MultiInference => {
                predict::unary(method, &context, body).await
            }
            Method::GetModelMetadata
            | Method::GetModelStatus
            | Method::HandleReloadConfigRequest => {
                Ok(Answered::One(about(method, &context, body).await?, None))
            }
        }
    })
}

/// The calls about models.
async fn about(method: Method, context: &Context, body: RecvStream) -> Result<Encoded, Error> {
    let Received { bytes, mut permit } = context.messages(body).only().await?;
    permit.make_room(control::bound(&bytes))?;
    let serving = &context.front.serving;
    Ok(match method {
        Method::GetModelStatus => encode(&versions::status(serving, &decode(bytes)?)?),
        Method::HandleReloadConfigRequest => {
            encode(&versions::reload(serving, decode(bytes)?).await?)
        }
        _ => encode(&versions::metadata(context, &decode(bytes)?).await?),
    })
}
