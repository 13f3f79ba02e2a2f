//! What the handlers work with: the models, the limits, the settings of the HTTP front.

use std::{
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};

use crate::{
    exchange::intake::Limits,
    hosting::emf::Recorder,
    net::tls::Acceptor,
    serving::Serving,
    settings::{
        hosting::{Hosting, PingMode},
        vertex::VertexAi,
    },
};
use crate::{
    hosting::{facade::Facade, sessions::SessionTable},
    http::timeouts::Timeouts,
};
use inference::{
    access::{Access, Category, Forwarding, Need},
    error::Error,
};
use models::ServedModel;
use protocol::sagemaker;
use telemetry::capture::Capture;

/// Settings of the HTTP front.
#[derive(Clone)]
pub struct HttpSettings {
    /// How slow a peer may be.
    pub timeouts: Timeouts,
    /// What a request's body may take.
    pub body: Limits,
    /// Who answers `/invocations`; `None` for the only model.
    pub default_model: Option<Arc<str>>,
    /// How a hosting platform is answered beside inference.
    pub hosting: Hosting,
    /// Without a default model the first by name of those that serve is meant.
    pub first_of_several: bool,
    /// How `/invocations` chooses formats.
    pub sagemaker: Arc<sagemaker::Options>,
    /// Counts invocations; `None` where nobody asks.
    pub recorder: Option<Recorder>,
    /// Writes down some of them; `None` where none are.
    pub capture: Option<Capture>,
    /// The sessions of `/invocations`, on whichever port they are used; `None` where there are none.
    pub sessions: Option<Arc<SessionTable>>,
    /// Are WebSockets taken?
    pub websocket: bool,
    /// Are bodies and replies compressed for clients that ask for it?
    pub compression: bool,
    /// Processors of this machine.
    pub cpus: NonZeroUsize,
    /// Who may do what.
    pub access: Access,
    /// Headers that become parameters of inferences; `None` for none.
    pub forwarding: Option<Arc<Forwarding>>,
    /// What stands in for SageMaker around `/invocations`; `None` where nothing does.
    pub facade: Option<Arc<Facade>>,
    /// Where metrics are shown with TensorFlow Serving's names; `None` for nowhere.
    pub tensorflow_metrics: Option<Arc<str>>,
    /// On the Vertex AI port, its routes, which are then all that there is; `None` on the others.
    pub vertex_ai: Option<VertexAi>,
}

/// How a port is entered.
#[derive(Clone)]
pub enum Listener {
    /// Plainly.
    Plain,
    /// Plainly, beside others that have TLS: only what keeps no secret is answered, health and metrics.
    HealthOnly,
    /// By TLS.
    Tls(Acceptor),
}

/// Everything that a handler needs. Each I/O thread has a clone of its own.
#[derive(Clone)]
pub struct Service {
    /// What serves, whatever the protocol.
    pub serving: Serving,
    /// The rest.
    pub settings: HttpSettings,
    /// How its port is entered.
    pub door: Listener,
}

/// Headers that carry a client's name for its request, the first one that is there wins.
const ID_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-amzn-sagemaker-inference-id"),
    HeaderName::from_static("x-request-id"),
];

/// Headers that carry the time a client gives its request, in milliseconds.
const TIMEOUT_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-request-timeout-ms"),
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms"),
];

/// The header that names a model to `/invocations`.
pub const TARGET_MODEL: HeaderName = HeaderName::from_static("x-amzn-sagemaker-target-model");

impl Service {
    /// A service over these models.
    pub fn new(serving: Serving, settings: HttpSettings, door: Listener) -> Service {
        Service { serving, settings, door }
    }

    /// The same service on a port that is entered otherwise.
    pub fn behind(&self, door: Listener) -> Service {
        Service { door, ..self.clone() }
    }

    /// May a request that needs this, and has these headers, be answered on this port?
    pub fn check(&self, need: Need, headers: &HeaderMap) -> Result<(), Error> {
        let is_public = matches!(need.category(), Category::Health | Category::Metrics);
        if matches!(self.door, Listener::HealthOnly) && !is_public {
            return Err(Error::Forbidden(
                "this port is not encrypted and answers health checks and metrics only; ask on a port that \
                 has TLS (--http-tls-ports)"
                    .to_owned(),
            ));
        }
        self.settings.access.check(need, |name| headers.get(name).map(HeaderValue::as_bytes))
    }

    /// Why `/ping` is not answered with 200; `None` when it is. One bad model among several does not count,
    /// unless it is the default one.
    pub fn ping_fails(&self) -> Option<String> {
        if !self.serving.drain.is_serving() {
            return Some("the server is shutting down".to_owned());
        }
        // Its models come and go, and none of them is the platform's condition for more.
        if self.serving.control.is_multi_model() || self.settings.hosting.ping == PingMode::Live {
            return None;
        }
        if !self.serving.models.is_started() {
            return Some("models are still loading".to_owned());
        }
        match self.default_model() {
            Some(name) => self.serving.models.get(&name, None).err().map(|it| it.to_string()),
            None if self.serving.models.ready_names().is_empty() => {
                Some("no model is ready".to_owned())
            }
            None => None,
        }
    }

    /// The model that answers `/invocations`: the one that the target header names, if there is one of that
    /// name; the default; the only one. `version` is the one that is wanted.
    pub async fn invoked(
        &self,
        headers: &HeaderMap,
        version: Option<u64>,
    ) -> Result<Arc<ServedModel>, Error> {
        if self.serving.control.is_multi_model() {
            return self
                .serving
                .control
                .multi_model()?
                .labelled_or_only(text(headers, &TARGET_MODEL));
        }
        let deadline = || self.deadline(headers);
        if let Some(target) = text(headers, &TARGET_MODEL) {
            match self.serving.model(target, version, deadline).await {
                // On other platforms the header names something else.
                Err(Error::NotFound(_)) => {}
                // One that is there and cannot answer is not to be answered for by another.
                outcome => return outcome,
            }
        }
        if let Some(name) = self.default_model() {
            return self.serving.model(&name, version, deadline).await;
        }
        match self.serving.models.names().as_slice() {
            [only] => self.serving.model(only, version, deadline).await,
            [] => Err(Error::Unavailable("there is no model to invoke".to_owned())),
            several => Err(Error::InvalidRequest(format!(
                "there are several models ({}); name one in X-Amzn-SageMaker-Target-Model, or start with \
                 --sagemaker-default-model",
                several.join(", ")
            ))),
        }
    }

    /// The name of the model that answers where a request names none; `None` for the only one.
    fn default_model(&self) -> Option<Arc<str>> {
        match &self.settings.default_model {
            Some(name) => Some(name.clone()),
            None if self.settings.first_of_several => {
                let models = &self.serving.models;
                // Where none serves, one of them says why.
                models.first_ready().or_else(|| models.names().into_iter().next())
            }
            None => None,
        }
    }

    /// When the answer to a request that has just arrived stops being of use.
    pub fn deadline(&self, headers: &HeaderMap) -> Result<Option<Instant>, Error> {
        let mut shortest: Option<Duration> = None;
        for name in &TIMEOUT_HEADERS {
            let Some(value) = headers.get(name) else { continue };
            let millis = value.to_str().ok().and_then(|it| it.trim().parse().ok());
            let asked = millis.map(Duration::from_millis).ok_or_else(|| {
                Error::InvalidRequest(format!("header {name}: expected a number of milliseconds"))
            })?;
            shortest = Some(shortest.map_or(asked, |it| it.min(asked)));
        }
        Ok(self.serving.deadline(shortest))
    }

    /// The name of a request for its errors and the log: the client's, or a new one.
    pub fn request_id(&self, headers: &HeaderMap, in_body: Option<&str>) -> String {
        let given = in_body.or_else(|| ID_HEADERS.iter().find_map(|it| text(headers, it)));
        self.serving.request_ids.name(given)
    }
}

/// The value of a header, where it is there and is text.
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(HeaderValue::to_str).and_then(Result::ok)
}
