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
mod tokens;
mod vertex;

use hyper::{body::Incoming, http::request::Parts};

use super::{
    answer::Answer,
    router::{PipelineRoute, TextOperation},
    service::Service,
};
use ::inference::task::Task;
use choice::Wanted;
use inference::{Decode, Operation, infer};
use protocol::{
    infinity, openai,
    rerank::{self, RerankFormat},
    tei::{embed, per_token, predict, similarity},
};

/// Answers a request on such a route.
pub async fn answer(
    service: &Service,
    route: &PipelineRoute<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let model = route.model.as_ref();
    match route.operation {
        TextOperation::Embeddings => {
            let (decode, encode) = (openai::decode, openai::encode);
            let operation =
                Operation { wanted: Wanted::Task(Task::SentenceEmbedding), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        TextOperation::Embed => {
            let (decode, encode) = (embed::decode, embed::encode);
            let operation =
                Operation { wanted: Wanted::Task(Task::SentenceEmbedding), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        TextOperation::EmbedAll => {
            let (decode, encode) = (per_token::decode_all, per_token::encode_all);
            let operation =
                Operation { wanted: Wanted::Task(Task::FeatureExtraction), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        TextOperation::EmbedSparse => {
            let (decode, encode) = (per_token::decode_sparse, per_token::encode_sparse);
            let operation =
                Operation { wanted: Wanted::Task(Task::SparseEmbedding), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        TextOperation::Predict => {
            let (decode, encode) = (predict::decode, predict::encode);
            let operation =
                Operation { wanted: Wanted::Task(Task::TextClassification), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        TextOperation::Similarity => {
            let (decode, encode) = (similarity::decode, similarity::encode);
            let operation =
                Operation { wanted: Wanted::Task(Task::SentenceSimilarity), decode, encode };
            infer(service, model, parts, body, operation).await
        }
        TextOperation::Vertex => vertex::vertex(service, model, parts, body).await,
        TextOperation::Tokenize => tokens::tokenize(service, model, parts, body).await,
        TextOperation::Decode => tokens::decode(service, model, parts, body).await,
        TextOperation::Info => info::info(service, model, parts).await,
        TextOperation::ListModels => models::list(service, model, parts).await,
        TextOperation::Hub(task) => hub::answer(service, task, model, parts, body).await,
        TextOperation::Rerank => {
            infer(service, model, parts, body, ranking(rerank::decode_documents)).await
        }
        TextOperation::RerankV1 => {
            infer(service, model, parts, body, ranking(rerank::decode_v1)).await
        }
        TextOperation::RerankV2 => {
            infer(service, model, parts, body, ranking(rerank::decode_v2)).await
        }
        TextOperation::Score => {
            let operation = Operation {
                wanted: Wanted::Task(Task::Rerank),
                decode: rerank::decode_score,
                encode: rerank::encode_score,
            };
            infer(service, model, parts, body, operation).await
        }
        TextOperation::Classify => {
            let operation = Operation {
                wanted: Wanted::Task(Task::TextClassification),
                decode: infinity::decode,
                encode: infinity::encode,
            };
            infer(service, model, parts, body, operation).await
        }
    }
}

/// A ranking whose bodies are read so.
fn ranking(decode: Decode<RerankFormat>) -> Operation<RerankFormat> {
    Operation { wanted: Wanted::Task(Task::Rerank), decode, encode: rerank::encode }
}
