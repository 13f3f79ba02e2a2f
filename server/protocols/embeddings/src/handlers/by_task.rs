//! A body whose address does not say what is asked for: the task of the model decides.

use std::{sync::Arc, time::Instant};

use hyper::body::Incoming;

use super::{
    choice::WantedModel,
    cost::add_times,
    inference::{Operation, run},
    received::receive,
    text_service::TextService,
};
use crate::codec::tei::{embed, per_token, predict, ranker};
use ::inference::{
    error::Error,
    task::{Task, TeiKind},
};
use frontend::{
    exchange::payload::Payload,
    http::{address::ModelPath, answer::Answer, parts::Parts},
};
use serving::ServedModel;

/// Answers a body of Text Embeddings Inference, for whatever the model does.
pub async fn answer(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let began = Instant::now();
    let (model, received) = receive(service, path, WantedModel::Texts, parts, body).await?;
    let mut response = by_task(service, model, parts, Payload::Here(received)).await?;
    add_times(&mut response, began);
    Ok(response)
}

/// Runs a body of Text Embeddings Inference, for whatever the model does.
pub async fn by_task(
    service: &TextService<'_>,
    model: Arc<ServedModel>,
    parts: &Parts,
    payload: Payload<'_, Incoming>,
) -> Answer {
    let task = model.signature.pipeline.as_ref().map(|it| it.task);
    let of_tei = task.map(|it| (it, it.facts())).filter(|(_, it)| it.tei_address.is_some());
    match of_tei.map(|(task, facts)| (WantedModel::Task(task), facts.tei_kind)) {
        Some((wanted, TeiKind::Vectors)) => {
            let (decode, encode) = (embed::decode, embed::encode);
            run(service, model, parts, payload, Operation { wanted, decode, encode }).await
        }
        Some((wanted, TeiKind::SparseVectors)) => {
            let (decode, encode) = (per_token::decode_sparse, per_token::encode_sparse);
            run(service, model, parts, payload, Operation { wanted, decode, encode }).await
        }
        Some((wanted, TeiKind::Classifier)) => {
            let (decode, encode) = (predict::decode, predict::encode);
            run(service, model, parts, payload, Operation { wanted, decode, encode }).await
        }
        Some((wanted, TeiKind::Ranker)) => {
            let (decode, encode) = (ranker::decode, ranker::encode);
            run(service, model, parts, payload, Operation { wanted, decode, encode }).await
        }
        Some((_, TeiKind::Other)) | None => {
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
