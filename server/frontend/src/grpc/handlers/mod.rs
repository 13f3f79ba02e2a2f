//! Each call: decode, one call of the core, encode. Here the way in and out of all of them; the calls are in files by
//! what they are about.

mod describe;
mod health;
mod infer;
mod predict;
mod reflection;
mod repository;
mod settings;
mod shared_memory;
mod stream;
mod versions;

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use h2::RecvStream;
use prost::Message;

use super::{
    body::Encoded,
    call::{Answered, Context},
    method::Method,
    reply::PREFIX,
};
use crate::exchange::{Failure, intake::Received};
use inference::error::Error;
use models::ServedModel;

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
        // Rare ones, apart: they would make every inference's future larger.
        _ => Ok(Answered::One(Box::pin(unary(&context, body)).await?, None)),
    }
}

/// The calls with one request and one response beside inference.
async fn unary(context: &Context, body: RecvStream) -> Result<Encoded, Error> {
    let Received { bytes, permit } = context.messages(body).only().await?;
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
            encode(&shared_memory::unregister(serving, &decode(bytes)?))
        }
        Method::CudaSharedMemoryStatus => encode(&shared_memory::cuda_status(&decode(bytes)?)?),
        Method::CudaSharedMemoryRegister => {
            encode(&shared_memory::cuda_register(serving, &decode(bytes)?)?)
        }
        Method::CudaSharedMemoryUnregister => {
            encode(&shared_memory::cuda_unregister(decode(bytes)?))
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

/// Reads a message.
fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Error> {
    M::decode(bytes).map_err(|error| {
        let name = std::any::type_name::<M>().rsplit("::").next().unwrap_or_default();
        Error::InvalidRequest(format!("the message is no {name}: {error}"))
    })
}

/// Writes a message in one piece.
fn encode(message: &impl Message) -> Encoded {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    // Nothing that is encoded here comes near the limit of its prefix.
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut bytes);
    Encoded { pieces: [Bytes::from(bytes)].into(), ..Encoded::default() }
}

/// The model of that name and version, loaded for the purpose where models are loaded on demand; an empty version
/// stands for the highest that is ready.
async fn find(context: &Context, name: &str, version: &str) -> Result<Arc<ServedModel>, Error> {
    let serving = &context.front.serving;
    let deadline = || Ok(serving.deadline(context.timeout));
    serving.model(name, self::version(version)?, deadline).await
}

fn version(text: &str) -> Result<Option<u64>, Error> {
    let digits = text.bytes().all(|it| it.is_ascii_digit());
    match text.parse() {
        _ if text.is_empty() => Ok(None),
        Ok(version) if digits => Ok(Some(version)),
        _ => {
            let shown: String = text.chars().take(40).collect();
            let expected = "expected a whole number, or nothing for the highest";
            Err(Error::InvalidRequest(format!("version: {expected}, given '{shown}'")))
        }
    }
}
