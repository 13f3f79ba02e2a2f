//! What the server says of the model that answers, and what holds where a request says nothing.

use crate::http::service::Service;
use models::ServedModel;
use protocol::terms::Terms;

/// The terms of requests to that model.
pub fn terms(service: &Service, model: &ServedModel) -> Terms {
    let settings = &service.settings.texts;
    let is_only = || service.serving.models.of_texts().len() == 1;
    let given = settings.served_model_name.as_ref().filter(|_| is_only());
    Terms {
        shown_name: given.unwrap_or(&model.shown_name).clone(),
        truncates: settings.truncates,
        device: if model.uses_gpus() { "gpu" } else { "cpu" },
    }
}
