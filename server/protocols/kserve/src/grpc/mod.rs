//! KServe v2 over gRPC, with Triton's extensions: the methods, their answers, one file for each subject, and the codecs
//! of the messages. A handler decodes, makes one call of the core, and encodes.

mod contents;
mod describe;
mod health;
mod infer;
pub mod infer_message;
mod method;
mod parameters;
mod reflection;
mod reply;
mod repository;
pub mod request;
mod settings;
mod shared_memory;
mod stream;

use h2::RecvStream;

use frontend::{
    exchange::{Failure, intake::Received},
    grpc::{
        body::Encoded,
        context::{Answered, Context, Facts},
        messages::{self, decode, encode},
        services::Services,
    },
};
use inference::{boxed::BoxFuture, error::Error};
pub use method::Method;

/// KServe v2, gRPC's own health checks, and the list of services.
#[derive(Debug, Clone, Copy)]
pub struct KServeServices;

impl Services for KServeServices {
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
            Method::ModelInfer => infer::unary(&context, body).await,
            Method::ModelStreamInfer => Ok(stream::start(context, body)),
            Method::HealthWatch => Box::pin(health::watch(context, body)).await,
            Method::Reflection => Ok(reflection::start(context, body)),
            // Boxed: these rare calls would make the future of every inference larger.
            _ => Ok(Answered::One(Box::pin(unary(method, &context, body)).await?, None)),
        }
    })
}

/// The unary calls other than inference.
async fn unary(method: Method, context: &Context, body: RecvStream) -> Result<Encoded, Error> {
    let Received { bytes, mut permit } = context.messages(body).only().await?;
    permit.make_room(match method {
        Method::RepositoryModelLoad => repository::bound(&bytes),
        _ => messages::bound(&bytes),
    })?;
    let serving = &context.front.serving;
    Ok(match method {
        Method::ServerLive => encode(&health::live(serving, decode(bytes)?)?),
        Method::ServerReady => encode(&health::ready(serving, decode(bytes)?)?),
        Method::ModelReady => encode(&health::model_ready(serving, &decode(bytes)?).await?),
        Method::HealthCheck => encode(&health::check(serving, &decode(bytes)?)),
        Method::ServerMetadata => encode(&describe::server(serving, decode(bytes)?)),
        Method::ModelMetadata => encode(&describe::model(context, &decode(bytes)?).await?),
        Method::ModelConfig => encode(&describe::config(context, &decode(bytes)?).await?),
        Method::ModelStatistics => encode(&describe::statistics(serving, &decode(bytes)?)?),
        Method::RepositoryIndex => encode(&repository::index(serving, &decode(bytes)?).await?),
        Method::RepositoryModelLoad => {
            encode(&repository::load(serving, decode(bytes)?, permit).await?)
        }
        Method::RepositoryModelUnload => {
            encode(&repository::unload(serving, decode(bytes)?).await?)
        }
        Method::SystemSharedMemoryStatus => {
            encode(&shared_memory::status(serving, &decode(bytes)?)?)
        }
        Method::SystemSharedMemoryRegister => {
            encode(&shared_memory::register(serving, decode(bytes)?).await?)
        }
        Method::SystemSharedMemoryUnregister => {
            encode(&shared_memory::unregister(serving, &decode(bytes)?)?)
        }
        Method::CudaSharedMemoryStatus => encode(&shared_memory::cuda_status(&decode(bytes)?)?),
        Method::CudaSharedMemoryRegister => {
            encode(&shared_memory::cuda_register(serving, &decode(bytes)?)?)
        }
        Method::CudaSharedMemoryUnregister => {
            encode(&shared_memory::cuda_unregister(serving, &decode(bytes)?)?)
        }
        Method::TraceSetting => encode(&settings::trace(serving, decode(bytes)?).await?),
        Method::LogSettings => encode(&settings::log(serving, decode(bytes)?).await?),
        Method::ModelInfer
        | Method::ModelStreamInfer
        | Method::HealthWatch
        | Method::Reflection => {
            let problem = format!("{:?} has an answer of another form", method);
            return Err(Error::Internal(problem));
        }
    })
}
