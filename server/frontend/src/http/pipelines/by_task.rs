//! A body whose address does not say what is asked for: the task of the model decides.

use std::sync::Arc;

use hyper::http::request::Parts;

use super::inference::{Operation, run};
use crate::{
    exchange::intake::Received,
    http::{answer::Answer, service::Service},
};
use ::inference::{error::Error, task::Task};
use models::ServedModel;
use protocol::{
    rerank,
    tei::{embed, per_token, predict},
};

/// Runs a body of Text Embeddings Inference, for whatever the model does.
pub async fn by_task(
    service: &Service,
    model: Arc<ServedModel>,
    parts: &Parts,
    received: Received,
) -> Answer {
    let task = model.signature.pipeline.as_ref().map(|it| it.task);
    match task {
        Some(
            task @ (Task::SentenceEmbedding | Task::SentenceSimilarity | Task::FeatureExtraction),
        ) => {
            let (decode, encode) = (embed::decode, embed::encode);
            run(service, model, parts, received, Operation { task, decode, encode }).await
        }
        Some(task @ Task::SparseEmbedding) => {
            let (decode, encode) = (per_token::decode_sparse, per_token::encode_sparse);
            run(service, model, parts, received, Operation { task, decode, encode }).await
        }
        Some(task @ Task::TextClassification) => {
            let (decode, encode) = (predict::decode, predict::encode);
            run(service, model, parts, received, Operation { task, decode, encode }).await
        }
        Some(task @ Task::Rerank) => {
            let (decode, encode) = (rerank::decode_texts, rerank::encode);
            run(service, model, parts, received, Operation { task, decode, encode }).await
        }
        Some(
            Task::TokenClassification
            | Task::QuestionAnswering
            | Task::FillMask
            | Task::ZeroShotClassification
            | Task::ImageClassification
            | Task::ObjectDetection
            | Task::ImageFeatureExtraction
            | Task::ZeroShotImageClassification
            | Task::ImageTextEmbedding
            | Task::AudioClassification
            | Task::AutomaticSpeechRecognition,
        )
        | None => {
            let name = &model.shown_name;
            let does = task.map_or("", Task::name);
            let problem = format!(
                "model '{name}' does {does}, which has no bodies here; ask it at /invocations or \
                 /v2/models/{name}/infer"
            );
            Err(Error::NoSuchTask(problem).into())
        }
    }
}
