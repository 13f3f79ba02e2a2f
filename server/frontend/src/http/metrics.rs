//! The page that Prometheus reads: a protocol of one address.

use hyper::{Method, Response, body::Incoming};

use super::{
    address::{GET, RequestHead, check_method},
    answer::Answer,
    body::Segments,
    failed::Failed,
    parts::Parts,
    protocol::Protocol,
    respond,
    routes::{Content, Family, Route},
    service::Service,
};
use crate::exchange::{offload::offload, rendering::Rendering};
use formats::errors::ErrorForm;
use inference::{
    access::{Category, Need},
    error::Error,
};
use telemetry::metrics::{CONTENT_TYPE, Protocol as Label};

/// The addresses, as documents list them. The failures are of the plain form.
const FAMILY: &Family =
    &Family { name: "Prometheus", failure: respond::FAILURE, status: Rendering::status_of };

/// What Prometheus asks.
#[derive(Debug, Clone, Copy)]
pub struct Prometheus;

/// The only thing that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page;

impl Protocol for Prometheus {
    type Operation<'a> = Page;

    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Page, Error>> {
        let is_ours = head.words() == ["metrics"];
        is_ours.then(|| check_method(head.method, GET).map(|()| Page))
    }

    fn routes(&self) -> Vec<Route> {
        let page: &[Content] = const { &[Content::of("text/plain")] };
        vec![FAMILY.get("metrics", "/metrics", "All metrics, for Prometheus").gives(page)]
    }

    fn need(&self, _: &Page, _: &Method) -> Need {
        Need::reading(Category::Metrics)
    }

    fn label(&self, _: Option<&Page>, _: &RequestHead<'_>) -> Label {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::listing::misled;

    #[test]
    fn the_listed_route_is_taken() {
        assert_eq!(Prometheus.routes().len(), 1);
        assert_eq!(misled(&Prometheus), [""; 0]);
    }
}
