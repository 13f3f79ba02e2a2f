//! What the server says of the model that answers.

use super::{
    choice::{WantedModel, check, choose},
    terms::terms,
    text_service::TextService,
};
use crate::codec::tei::info::{Info, ModelKind, write_info};
use ::serving::TextModel;
use frontend::{
    http::{
        address::ModelPath,
        answer::{Answer, find},
        parts::Parts,
        respond,
    },
    serving,
};
use inference::{error::Error, task::TeiKind};

/// Of the model that the address or a header names, or of the only one that takes texts.
pub async fn info(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
) -> Answer {
    let model = match path {
        Some(path) => check(find(service, path, parts).await?, WantedModel::Texts)?,
        None => choose(service, WantedModel::Texts, None, &parts.headers).await?,
    };
    let terms = terms(service, &model);
    let no_texts = || Error::Internal("the model is no model of texts".to_owned());
    let text_model = model.text_model().ok_or_else(no_texts)?;
    let (pooling, (rows, tokens)) = (text_model.pooling(), text_model.most_of_run());
    let dtype = format!("{:?}", text_model.dtype()).to_lowercase().replace("fp", "float");
    let info = Info {
        model: &model.shown_name,
        shown_name: &terms.shown_name,
        dtype: &dtype,
        kind: kind(text_model, pooling.as_deref()),
        most_requests: text_model.most_texts(),
        most_tokens: text_model.most_tokens(),
        most_batch_tokens: tokens,
        most_batch_rows: Some(rows).filter(|it| *it > 0),
        most_texts: text_model.most_texts(),
        tokenizers: model.instances(),
        truncates: terms.truncates,
        version: serving::VERSION,
    };
    Ok(respond::ok(write_info(&info)))
}

fn kind<'a>(model: TextModel<'a>, pooling: Option<&'a str>) -> ModelKind<'a> {
    let labels = || model.labels().iter().map(|it| &**it).collect();
    let task = model.task();
    match task.facts().tei_kind {
        // A graph that makes vectors of texts by itself does not say how.
        TeiKind::Vectors => ModelKind::Embedding { pooling: pooling.unwrap_or("mean") },
        TeiKind::SparseVectors => ModelKind::Embedding { pooling: "splade" },
        TeiKind::Classifier => ModelKind::Classifier(labels()),
        TeiKind::Ranker => ModelKind::Reranker(labels()),
        TeiKind::Other => ModelKind::Other(task.name()),
    }
}
