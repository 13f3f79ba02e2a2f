//! Requests of clients of other servers of texts: the address says what is asked for; it, the body, a header or the
//! task says of which model.

mod by_task;
mod choice;
mod cost;
mod hub;
mod inference;
mod info;
mod models;
mod received;
mod terms;
mod text_service;
mod tokens;
mod vertex;

use hyper::body::Incoming;

use crate::{
    codec::{
        infinity, openai,
        rerank::{self, RerankFormat},
        tei::{embed, per_token, predict, similarity},
    },
    operation::{Asked, Operation as Asks},
};
use ::inference::{boxed::BoxFuture, error::Error, task::Task};
use choice::WantedModel;
use frontend::http::{answer::Answer, parts::Parts};
use inference::{Decode, Operation, infer};
pub use text_service::TextService;

/// What is said to clients that chat.
const NO_GENERATION: &str = "muster does not generate text, so it has neither chats nor completions: its models of texts answer at \
     /v1/embeddings, /v1/classify, /v1/rerank and /v1/score";

/// Answers a request.
pub fn answer<'a>(
    service: TextService<'a>,
    asked: &'a Asked<'_>,
    parts: &'a Parts,
    body: &'a mut Incoming,
) -> BoxFuture<'a, Answer> {
    Box::pin(async move { operation(&service, asked, parts, body).await })
}

async fn operation(
    service: &TextService<'_>,
    asked: &Asked<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = asked.model.as_ref();
    match asked.operation {
        Asks::Embeddings => {
            let (decode, encode) = (openai::decode, openai::encode);
            let operation =
                Operation { wanted: WantedModel::Task(Task::SentenceEmbedding), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        Asks::Embed => {
            let (decode, encode) = (embed::decode, embed::encode);
            let operation =
                Operation { wanted: WantedModel::Task(Task::SentenceEmbedding), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        Asks::EmbedAll => {
            let (decode, encode) = (per_token::decode_all, per_token::encode_all);
            let operation =
                Operation { wanted: WantedModel::Task(Task::FeatureExtraction), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        Asks::EmbedSparse => {
            let (decode, encode) = (per_token::decode_sparse, per_token::encode_sparse);
            let operation =
                Operation { wanted: WantedModel::Task(Task::SparseEmbedding), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        Asks::Predict => {
            let (decode, encode) = (predict::decode, predict::encode);
            let operation =
                Operation { wanted: WantedModel::Task(Task::TextClassification), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        Asks::Similarity => {
            let (decode, encode) = (similarity::decode, similarity::encode);
            let operation =
                Operation { wanted: WantedModel::Task(Task::SentenceSimilarity), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        Asks::ByTask => by_task::answer(service, model, parts, body).await,
        Asks::Vertex => vertex::vertex(service, model, parts, body).await,
        Asks::Tokenize => tokens::tokenize(service, model, parts, body).await,
        Asks::Decode => tokens::decode(service, model, parts, body).await,
        Asks::Generate => Err(Error::Unimplemented(NO_GENERATION.to_owned()).into()),
        Asks::Info => info::info(service, model, parts).await,
        Asks::ListModels => models::list(service, model, parts).await,
        Asks::Hub(task) => hub::answer(service, task, model, parts, body).await,
        Asks::Rerank => infer(service, model, parts, body, ranking(rerank::decode_documents)).await,
        Asks::RerankV1 => infer(service, model, parts, body, ranking(rerank::decode_v1)).await,
        Asks::RerankV2 => infer(service, model, parts, body, ranking(rerank::decode_v2)).await,
        Asks::Score => {
            let operation = Operation {
                wanted: WantedModel::Task(Task::Rerank),
                decode: rerank::decode_score,
                encode: rerank::encode_score,
            };
            infer(service, model, parts, body, operation).await
        }
        Asks::Classify => {
            let operation = Operation {
                wanted: WantedModel::Task(Task::TextClassification),
                decode: infinity::decode,
                encode: infinity::encode,
            };
            infer(service, model, parts, body, operation).await
        }
    }
}

/// A ranking whose bodies are read so.
fn ranking(decode: Decode<RerankFormat>) -> Operation<RerankFormat> {
    Operation { wanted: WantedModel::Task(Task::Rerank), decode, encode: rerank::encode }
}
