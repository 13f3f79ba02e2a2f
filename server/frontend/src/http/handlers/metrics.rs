//! The pages that Prometheus reads.

use hyper::Method;

use crate::exchange::offload::offload;
use crate::http::{
    answer::Answer,
    respond,
    router::{GET, Route},
    service::Service,
};
use inference::error::Error;
use telemetry::metrics::CONTENT_TYPE;

/// The route of a request to the address of [`tensorflow`].
pub fn route<'a>(method: &Method) -> Result<Route<'a>, Error> {
    match GET.contains(method) {
        true => Ok(Route::TensorFlowMetrics),
        false => Err(Error::MethodNotAllowed { method: method.to_string(), allowed: "GET" }),
    }
}

/// All metrics, with Triton's names and muster's own.
pub async fn ours(service: &Service) -> Answer {
    let budget = &service.settings.body.budget;
    service.serving.metrics.bytes_in_flight().set(budget.used() as u64);
    let metrics = service.serving.metrics.clone();
    let text = offload(move || metrics.render()).await?;
    Ok(respond::raw(CONTENT_TYPE, text))
}

/// The metrics of models, with TensorFlow Serving's names.
pub async fn tensorflow(service: &Service) -> Answer {
    let metrics = service.serving.metrics.clone();
    let text = offload(move || metrics.render_tensorflow()).await?;
    Ok(respond::raw(CONTENT_TYPE, text))
}
