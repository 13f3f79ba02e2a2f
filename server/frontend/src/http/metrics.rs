//! The page that Prometheus reads: a protocol of one address.

use hyper::{Method, Response, body::Incoming, http::request::Parts};

use super::{
    address::{GET, Head, check_method},
    answer::Answer,
    body::Segments,
    failed::Failed,
    protocol::Protocol,
    respond,
    service::Service,
};
use crate::exchange::offload::offload;
use formats::errors::ErrorForm;
use inference::{
    access::{Category, Need},
    error::Error,
};
use telemetry::metrics::{CONTENT_TYPE, Protocol as Label};

/// What Prometheus asks.
#[derive(Debug, Clone, Copy)]
pub struct Prometheus;

/// The only thing that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page;

impl Protocol for Prometheus {
    type Operation<'a> = Page;

    fn route<'a>(&self, head: &Head<'a>) -> Option<Result<Page, Error>> {
        let is_ours = head.words() == ["metrics"];
        is_ours.then(|| check_method(head.method, GET).map(|()| Page))
    }

    fn need(&self, _: &Page, _: &Method) -> Need {
        Need::reading(Category::Metrics)
    }

    fn label(&self, _: Option<&Page>, _: &Head<'_>) -> Label {
        Label::Other
    }

    async fn answer(
        &self,
        service: &Service,
        _: &Self::Operation<'_>,
        _: &Parts,
        _: &mut Incoming,
    ) -> Answer {
        page(service).await
    }

    fn failure(&self, _: &Service, _: Option<&Page>, failed: &Failed<'_>) -> Response<Segments> {
        respond::error(failed.error, failed.id, ErrorForm::Plain)
    }
}

/// All metrics, with Triton's names and muster's own.
///
/// # Errors
/// [`Error::Internal`] where they cannot be written.
pub async fn page(service: &Service) -> Answer {
    let budget = &service.settings.body.budget;
    service.serving.metrics.bytes_in_flight().set(budget.used() as u64);
    let metrics = service.serving.metrics.clone();
    let text = offload(move || metrics.render()).await?;
    Ok(respond::raw(CONTENT_TYPE, text))
}
