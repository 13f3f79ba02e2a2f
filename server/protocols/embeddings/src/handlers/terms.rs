//! What the server says of the model that answers, and what holds where a request says nothing.

use super::text_service::TextService;
use crate::codec::terms::Terms;
use serving::{ServedModel, TextModel};

/// The terms of requests to that model.
pub fn terms(service: &TextService<'_>, model: &ServedModel) -> Terms {
    let settings = &service.texts;
    let is_only = || service.serving.models.of_texts().len() == 1;
    let given = settings.served_model_name.as_ref().filter(|_| is_only());
    let prompts = model.text_model().into_iter().flat_map(TextModel::prompts);
    Terms {
        shown_name: given.unwrap_or(&model.shown_name).clone(),
        truncates: settings.truncates,
        device: if model.uses_gpus() { "gpu" } else { "cpu" },
        prompts: prompts.map(str::to_owned).collect(),
    }
}
