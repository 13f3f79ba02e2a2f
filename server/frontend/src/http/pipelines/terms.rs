//! What the server says of the model that answers, and what holds where a request says nothing.

use crate::http::service::Service;
use models::ServedModel;
use protocol::terms::Terms;

/// The terms of requests to that model.
pub fn terms(_: &Service, model: &ServedModel) -> Terms {
    Terms {
        shown_name: model.shown_name.clone(),
        truncates: true,
        device: if model.uses_gpus() { "gpu" } else { "cpu" },
    }
}
