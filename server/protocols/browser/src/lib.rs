//! What a person's browser asks: `/docs`, a page to try the models on, and `/openapi.json`, a document of every address
//! and of the models that serve.
#![forbid(unsafe_code)]

mod document;
mod handler;
mod model;
mod names;
mod operation;
mod page;

use std::sync::Arc;

use hyper::{Method, Response, body::Incoming};

use formats::errors::ErrorForm;
use frontend::{
    exchange::rendering::Rendering,
    http::{
        Service,
        address::{GET, RequestHead, check_method},
        answer::Answer,
        body::Segments,
        failed::Failed,
        parts::Parts,
        protocol::Protocol,
        respond,
        routes::{Content, Family, Route, Schema},
    },
};
use inference::{
    access::{Category, Need},
    error::Error,
};
use telemetry::metrics::Protocol as Label;

const FAMILY: &Family =
    &Family { name: "muster", failure: respond::FAILURE, status: Rendering::status_of };

const DOCUMENT: &[Content] = &[Content::json(Schema {
    name: "Object",
    json: r#"{"type":"object","additionalProperties":true}"#,
})];

const PAGE: &[Content] = &[Content::of("text/html")];

/// What a browser asks.
#[derive(Debug, Clone)]
pub struct Browser {
    page: Arc<page::Page>,
}

impl Browser {
    /// With its page, which is made here.
    pub fn new() -> Browser {
        Browser { page: Arc::new(page::Page::new()) }
    }
}

impl Default for Browser {
    fn default() -> Browser {
        Browser::new()
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The document of the API.
    Document,
    /// The page.
    Page,
}

impl Protocol for Browser {
    type Operation<'a> = Operation;

    fn route<'a>(&self, head: &RequestHead<'a>) -> Option<Result<Operation, Error>> {
        let operation = match head.words() {
            ["docs"] => Operation::Page,
            ["openapi.json"] => Operation::Document,
            _ => return None,
        };
        Some(check_method(head.method, GET).map(|()| operation))
    }

    fn routes(&self) -> Vec<Route> {
        let summary = "An OpenAPI document of the addresses and the models";
        vec![
            FAMILY.get("openapi", "/openapi.json", summary).gives(DOCUMENT),
            FAMILY.get("docs", "/docs", "A page to try the models on").gives(PAGE),
        ]
    }

    fn need(&self, operation: &Operation, _: &Method) -> Need {
        match operation {
            Operation::Document => Need::reading(Category::Metadata),
            // It holds no data, and a browser that opens an address has no token to show.
            Operation::Page => Need::public(Category::Metadata),
        }
    }

    fn label(&self, _: Option<&Operation>, _: &RequestHead<'_>) -> Label {
        Label::Other
    }

    async fn answer(
        &self,
        service: &Service,
        operation: &Self::Operation<'_>,
        parts: &Parts,
        _: &mut Incoming,
    ) -> Answer {
        match operation {
            Operation::Document => handler::document(service, parts).await,
            Operation::Page => Ok(self.page.reply(&parts.headers)),
        }
    }

    fn failure(
        &self,
        _: &Service,
        _: Option<&Operation>,
        failed: &Failed<'_>,
    ) -> Response<Segments> {
        respond::error(failed.error, failed.id, ErrorForm::Plain)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use frontend::http::listing::{misled, sample};
    use hyper::HeaderMap;

    /// The name of every kind of operation; one that is new belongs among [`KINDS`], too.
    fn kind(operation: &Operation) -> &'static str {
        match operation {
            Operation::Document => "document",
            Operation::Page => "page",
        }
    }

    const KINDS: usize = 2;

    #[test]
    fn every_listed_route_is_taken_and_every_operation_is_listed() {
        assert_eq!(misled(&Browser::new()), [""; 0]);
        let headers = HeaderMap::new();
        let browser = Browser::new();
        let kinds = browser.routes().into_iter().map(|it| {
            let path = sample(&it);
            kind(&browser.route(&RequestHead::new(&it.method, &path, &headers)).unwrap().unwrap())
        });
        assert_eq!(kinds.collect::<BTreeSet<_>>().len(), KINDS);
    }
}
