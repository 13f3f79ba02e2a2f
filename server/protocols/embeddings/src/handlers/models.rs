//! The list of the models that take texts.

use std::time::UNIX_EPOCH;

use super::text_service::TextService;
use crate::codec::openai::{self, ListedModel};
use ::serving::ServedModel;
use frontend::http::{
    address::ModelPath,
    answer::{Answer, find},
    examples::Lines,
    parts::Parts,
    respond,
};

/// The one that the address names, or all of them. Beside all of them stand the names of all models that serve, also
/// those that take tensors, with lines to paste.
pub async fn list(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
) -> Answer {
    if let Some(path) = path {
        let model = find(service, path, parts).await?;
        return Ok(respond::ok(openai::models([listed(&model)], "")));
    }
    let lines = Lines::of(service, &parts.headers, usize::MAX).await?;
    let models = service.serving.models.of_texts();
    let beside = lines.to_json();
    let mut response = respond::ok(openai::models(models.iter().map(|it| listed(it)), &beside));
    response.body_mut().hold(lines.permit);
    Ok(response)
}

fn listed(model: &ServedModel) -> ListedModel<'_> {
    let created = model.loaded.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let tasks = model.signature.tasks().iter().map(|it| it.name()).collect();
    ListedModel { id: &model.shown_name, created, tasks }
}
