//! What a protocol says of its addresses, for documents that clients are made from: each address, its bodies, its
//! failures, and what it takes of one model.

use std::borrow::Cow;

use hyper::{Method, StatusCode};
use serde_json::Value;

use inference::{access::Need, error::Kind, signature::Signature};

/// A method and an address of a protocol.
#[derive(Debug, Clone)]
pub struct Route {
    /// The name of the operation. No other route has it.
    pub name: String,
    /// The method.
    pub method: Method,
    /// The address, with its variable words as OpenAPI writes them: `/v2/models/{model}/infer`.
    pub path: Cow<'static, str>,
    /// What it is for: one line.
    pub summary: &'static str,
    /// What it shares with others of its protocol.
    pub family: &'static Family,
    /// Bodies that it takes, the usual one first; none where a request has no body.
    pub takes: &'static [Content],
    /// Bodies of its replies, the usual one first; none where a reply has no body.
    pub gives: &'static [Content],
    /// Headers of its own that a request may have, and what each is for.
    pub headers: &'static [(&'static str, &'static str)],
    /// What a request for one model looks like there, where that follows from the model.
    pub of_model: Option<OfModel>,
}

/// What the addresses of a family of clients share.
#[derive(Debug)]
pub struct Family {
    /// Its name, as people know it.
    pub name: &'static str,
    /// The body of a failure.
    pub failure: Schema,
    /// The status of a failure.
    pub status: fn(Kind) -> StatusCode,
}

/// A JSON schema that routes share.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Its name: letters alone.
    pub name: &'static str,
    /// The schema itself.
    pub json: &'static str,
}

/// A body, by its type.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// The value of `Content-Type`.
    pub media_type: &'static str,
    /// What is in it, where that is JSON of a known form.
    pub schema: Option<Schema>,
}

/// Says what a request for a model looks like; `None` where the address is not for such models.
pub type OfModel = fn(&Signature) -> Option<Call>;

/// A request for one model, in JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The schema of the body.
    pub takes: Value,
    /// The schema of the reply.
    pub gives: Value,
    /// A body that a model answers which works; `None` where none is small enough, or follows from the model.
    pub example: Option<Value>,
}

/// A route, and the access that it needs.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The route.
    pub route: Route,
    /// The access, as the protocol asks for it.
    pub need: Need,
}

/// Where the version stands in the address of a model.
const OF_VERSION: &str = "/versions/{version}";

/// The variable word for the name of a model.
pub const MODEL: &str = "{model}";

impl Content {
    /// JSON of that form.
    pub const fn json(schema: Schema) -> Content {
        Content { media_type: "application/json", schema: Some(schema) }
    }

    /// Bytes of that type.
    pub const fn of(media_type: &'static str) -> Content {
        Content { media_type, schema: None }
    }
}

impl Family {
    /// A route that is read.
    pub fn get(
        &'static self,
        name: impl Into<String>,
        path: impl Into<Cow<'static, str>>,
        summary: &'static str,
    ) -> Route {
        self.route(Method::GET, name.into(), path.into(), summary)
    }

    /// A route that something is posted to.
    pub fn post(
        &'static self,
        name: impl Into<String>,
        path: impl Into<Cow<'static, str>>,
        summary: &'static str,
    ) -> Route {
        self.route(Method::POST, name.into(), path.into(), summary)
    }

    fn route(
        &'static self,
        method: Method,
        name: String,
        path: Cow<'static, str>,
        summary: &'static str,
    ) -> Route {
        let (takes, gives, headers): (&[_], &[_], &[_]) = (&[], &[], &[]);
        Route { name, method, path, summary, family: self, takes, gives, headers, of_model: None }
    }
}

impl Route {
    /// The same with that method.
    pub fn by(self, method: Method) -> Route {
        Route { method, ..self }
    }

    /// The same, which takes these bodies.
    pub fn takes(self, takes: &'static [Content]) -> Route {
        Route { takes, ..self }
    }

    /// The same, whose replies have these bodies.
    pub fn gives(self, gives: &'static [Content]) -> Route {
        Route { gives, ..self }
    }

    /// The same, with these headers.
    pub fn headers(self, headers: &'static [(&'static str, &'static str)]) -> Route {
        Route { headers, ..self }
    }

    /// The same, of which a model says more.
    pub fn of_model(self, of_model: OfModel) -> Route {
        Route { of_model: Some(of_model), ..self }
    }

    /// This route of a model, and the same of one of its versions, behind the name of the model.
    pub fn and_of_versions(self) -> [Route; 2] {
        let path = self.path.replacen(MODEL, &format!("{MODEL}{OF_VERSION}"), 1);
        let name = format!("{}_of_version", self.name);
        let of_version = Route { name, path: path.into(), of_model: None, ..self.clone() };
        [self, of_version]
    }

    /// The variable words of its address.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let parts = self.path.split('{').skip(1);
        parts.filter_map(|it| it.split_once('}').map(|(word, _)| word))
    }
}
