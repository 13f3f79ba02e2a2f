//! KServe v2 over HTTP: what is asked, and the answers, one file for each subject.

mod describe;
mod described;
mod generate;
mod health;
mod infer;
mod listed;
mod memory;
mod operation;
mod repository;
mod route;
mod settings;
mod statistics;
pub mod vertex;

use hyper::{Method, Response, body::Incoming};

use formats::errors::ErrorForm;
use frontend::http::{
    Service, address::RequestHead, answer::Answer, body::Segments, failed::Failed, parts::Parts,
    protocol::Protocol, respond, routes::Route,
};
use inference::{access::Need, boxed::BoxFuture, error::Error};
pub use operation::Operation;
use telemetry::metrics::Protocol as Label;

/// KServe v2 over HTTP, with Triton's extensions.
#[derive(Debug, Clone, Copy)]
pub struct KServe;

impl Protocol for KServe {
    type Operation<'a> = Operation<'a>;

    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Operation<'a>, Error>> {
        route::route(head).transpose()
    }

    fn routes(&self) -> Vec<Route> {
        listed::routes()
    }

    fn need(&self, operation: &Operation<'_>, method: &Method) -> Need {
        operation.need(method)
    }

    fn label(&self, operation: Option<&Operation<'_>>, _: &RequestHead<'_>) -> Label {
        operation.map_or(Label::Other, |_| Label::KserveV2)
    }

    async fn answer(
        &self,
        service: &Service,
        operation: &Self::Operation<'_>,
        parts: &Parts,
        body: &mut Incoming,
    ) -> Answer {
        answer(service, operation, parts, body).await
    }

    fn failure(
        &self,
        _: &Service,
        operation: Option<&Operation<'_>>,
        failed: &Failed<'_>,
    ) -> Response<Segments> {
        let response = respond::error(failed.error, failed.id, ErrorForm::Plain);
        match (operation, failed.error) {
            (Some(Operation::GenerateStream(_)), error @ Error::Backend(_)) => {
                generate::as_event(response, error)
            }
            _ => response,
        }
    }
}

fn answer<'a>(
    service: &'a Service,
    operation: &'a Operation<'_>,
    parts: &'a Parts,
    body: &'a mut Incoming,
) -> BoxFuture<'a, Answer> {
    Box::pin(async move {
        match operation {
            Operation::Infer(model) => infer::infer(service, model, parts, body).await,
            Operation::Live => Ok(health::live(service)),
            Operation::Ready => Ok(health::ready(service)),
            Operation::ModelReady(path) => health::model_ready(service, path).await,
            Operation::Addresses => describe::addresses(service, parts).await,
            Operation::ListModels => describe::models(service, parts).await,
            Operation::ServerMetadata => Ok(describe::server(service)),
            Operation::ModelMetadata(path) => describe::model(service, path, parts).await,
            Operation::ModelConfig(path) => describe::config(service, path, parts).await,
            Operation::RepositoryIndex => repository::index(service, body).await,
            Operation::LoadModel(path) => repository::load(service, path, body).await,
            Operation::UnloadModel(path) => repository::unload(service, path, body).await,
            Operation::Generate(path) => generate::object(service, path, parts, body).await,
            Operation::GenerateStream(path) => generate::events(service, path, parts, body).await,
            Operation::Statistics(path) => statistics::of(service, path.as_ref()),
            Operation::TraceSetting(path) => {
                settings::trace(service, path.as_ref(), parts, body).await
            }
            Operation::Logging => settings::logging(service, parts, body).await,
            Operation::SharedMemory(path) => memory::answer(service, path, body).await,
        }
    })
}
