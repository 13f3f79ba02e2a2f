//! What clients of servers of texts, images and sounds ask: OpenAI's, those of Text Embeddings Inference, Cohere's,
//! Jina's, and those of Hugging Face's hub. One model answers all of them.
#![forbid(unsafe_code)]

pub mod codec;
mod described;
mod failure;
mod handlers;
mod listed;
mod operation;
mod route;
pub mod settings;

use std::sync::Arc;

use hyper::{Method, Response, body::Incoming};

use formats::errors::ErrorForm;
use frontend::http::{
    Service, address::RequestHead, answer::Answer, body::Segments, failed::Failed, parts::Parts,
    protocol::Protocol, respond, routes::Route,
};
use handlers::TextService;
use inference::{access::Need, error::Error};
use operation::Asked;
pub use settings::TextSettings;
use telemetry::metrics::Protocol as Label;

/// What is asked at the addresses of servers of texts.
#[derive(Debug, Clone)]
pub struct Embeddings {
    /// What holds there.
    pub settings: Arc<TextSettings>,
}

impl Protocol for Embeddings {
    type Operation<'a> = Asked<'a>;

    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Asked<'a>, Error>> {
        route::route(head, self.settings.tei_root).transpose()
    }

    fn routes(&self) -> Vec<Route> {
        listed::routes(self.settings.tei_root)
    }

    fn need(&self, asked: &Asked<'_>, _: &Method) -> Need {
        asked.operation.family_and_need().1
    }

    fn label(&self, asked: Option<&Asked<'_>>, _: &RequestHead<'_>) -> Label {
        asked.map_or(Label::Other, |it| it.operation.family_and_need().0.label())
    }

    async fn answer(
        &self,
        service: &Service,
        asked: &Self::Operation<'_>,
        parts: &Parts,
        body: &mut Incoming,
    ) -> Answer {
        let service = TextService { service, texts: &self.settings };
        handlers::answer(service, asked, parts, body).await
    }

    fn failure(
        &self,
        _: &Service,
        asked: Option<&Asked<'_>>,
        failed: &Failed<'_>,
    ) -> Response<Segments> {
        match asked {
            Some(asked) => {
                let (family, _) = asked.operation.family_and_need();
                failure::reply(family, failed, self.settings.tei_batch_status)
            }
            None => respond::error(failed.error, failed.id, ErrorForm::Plain),
        }
    }
}
