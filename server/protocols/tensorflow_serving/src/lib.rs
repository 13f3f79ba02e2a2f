//! TensorFlow Serving's REST and gRPC.
#![forbid(unsafe_code)]

mod described;
mod failure;
pub mod grpc;
mod inside;
mod listed;
mod rest;
mod route;
mod states;

use std::sync::Arc;

use hyper::{Method, Response, body::Incoming};

use frontend::http::{
    Service,
    address::{GET, RequestHead, check_method},
    answer::Answer,
    body::Segments,
    failed::Failed,
    parts::Parts,
    protocol::Protocol,
    routes::Route,
};
pub use grpc::TensorFlowServices;
use inference::{access::Need, error::Error};
pub use inside::Inside;
use route::Operation;
use telemetry::metrics::Protocol as Label;

/// TensorFlow Serving's REST API.
#[derive(Debug, Clone)]
pub struct TensorFlowServing {
    /// The address of metrics with TensorFlow Serving's names; `None` where there is none.
    pub metrics_path: Option<Arc<str>>,
}

impl Protocol for TensorFlowServing {
    type Operation<'a> = Operation<'a>;

    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Operation<'a>, Error>> {
        if self.metrics_path.as_deref() == Some(head.path) {
            return Some(check_method(head.method, GET).map(|()| Operation::Metrics));
        }
        route::route(head).transpose()
    }

    fn routes(&self) -> Vec<Route> {
        listed::routes(self.metrics_path.as_deref())
    }

    fn need(&self, operation: &Operation<'_>, _: &Method) -> Need {
        operation.need()
    }

    fn label(&self, operation: Option<&Operation<'_>>, _: &RequestHead<'_>) -> Label {
        match operation {
            Some(Operation::Metrics) => Label::Other,
            _ => Label::TensorflowServing,
        }
    }

    async fn answer(
        &self,
        service: &Service,
        operation: &Self::Operation<'_>,
        parts: &Parts,
        body: &mut Incoming,
    ) -> Answer {
        rest::answer(service, operation, parts, body).await
    }

    fn failure(
        &self,
        _: &Service,
        _: Option<&Operation<'_>>,
        failed: &Failed<'_>,
    ) -> Response<Segments> {
        failure::reply(failed)
    }
}
