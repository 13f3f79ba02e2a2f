//! The handlers of the calls, one file for each subject, and their dispatch. A handler decodes, makes one call of the
//! core, and encodes.

mod describe;
mod health;
mod infer;
mod message;
mod predict;
mod reflection;
mod replies;
mod repository;
mod settings;
mod shared_memory;
mod stream;
mod versions;

use h2::RecvStream;

use super::{
    body::Encoded,
    context::{Answered, Context},
    method::Method,
};
use crate::exchange::{Failure, intake::Received};
use inference::error::Error;
use message::{decode, encode};

/// Answers a call.
pub async fn dispatch(context: Context, body: RecvStream) -> Result<Answered, Failure> {
    match context.method {
        Method::ModelInfer => infer::unary(&context, body).await,
        Method::Predict | Method::Classify | Method::Regress | Method::MultiInference => {
            predict::unary(&context, body).await
        }
        Method::ModelStreamInfer => Ok(stream::start(context, body)),
        Method::HealthWatch => Box::pin(health::watch(context, body)).await,
        Method::Reflection => Ok(reflection::start(context, body)),
        // Boxed: these rare calls would make the future of every inference larger.
        _ => Ok(Answered::One(Box::pin(unary(&context, body)).await?, None)),
    }
}

/// The unary calls other than inference.
async fn unary(context: &Context, body: RecvStream) -> Result<Encoded, Error> {
    let Received { bytes, mut permit } = context.messages(body).only().await?;
    permit.make_room(match context.method {
        Method::RepositoryModelLoad => repository::expanded(&bytes),
        _ => message::expanded(&bytes),
    })?;
    let serving = &context.front.serving;
    Ok(match context.method {
        Method::ServerLive => encode(&health::live(serving, decode(bytes)?)?),
        Method::ServerReady => encode(&health::ready(serving, decode(bytes)?)?),
        Method::ModelReady => encode(&health::model_ready(serving, &decode(bytes)?)?),
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
        Method::GetModelMetadata => encode(&versions::metadata(context, &decode(bytes)?).await?),
        Method::GetModelStatus => encode(&versions::status(serving, &decode(bytes)?)?),
        Method::HandleReloadConfigRequest => {
            encode(&versions::reload(serving, decode(bytes)?).await?)
        }
        Method::ModelInfer
        | Method::Predict
        | Method::Classify
        | Method::Regress
        | Method::MultiInference
        | Method::ModelStreamInfer
        | Method::HealthWatch
        | Method::Reflection => {
            let problem = format!("{:?} has an answer of another form", context.method);
            return Err(Error::Internal(problem));
        }
    })
}
