//! The list of the models that take texts.

use std::time::UNIX_EPOCH;

use hyper::http::request::Parts;

use super::text_service::TextService;
use crate::codec::openai::{self, ListedModel};
use ::serving::ServedModel;
use frontend::http::{
    address::ModelPath,
    answer::{Answer, find},
    respond,
};

/// All of them, or the one that the address names.
pub async fn list(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
) -> Answer {
    let models = match path {
        Some(path) => vec![find(service, path, parts).await?],
        None => service.serving.models.of_texts(),
    };
    Ok(respond::ok(openai::models(models.iter().map(|it| listed(it)))))
}

fn listed(model: &ServedModel) -> ListedModel<'_> {
    let created = model.loaded.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let tasks = model.signature.tasks().iter().map(|it| it.name()).collect();
    ListedModel { id: &model.shown_name, created, tasks }
}
