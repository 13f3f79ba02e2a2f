//! The state that HTTP handlers share: the models, the limits, the settings of the HTTP front.

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
        hosting::{HostingSettings, PingMode},
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
    /// Limits of a request's body.
    pub body: Limits,
    /// The model that answers `/invocations`; `None` for the only model.
    pub default_model: Option<Arc<str>>,
    /// The answers that a hosting platform gets beside inference.
    pub hosting: HostingSettings,
    /// Without a default model, is the first ready model by name the default?
    pub first_of_several: bool,
    /// How `/invocations` chooses formats.
    pub sagemaker: Arc<sagemaker::Options>,
    /// Counts invocations; `None` where the lines of metrics are off.
    pub recorder: Option<Recorder>,
    /// Captures the data of some invocations; `None` where capture is off.
    pub capture: Option<Capture>,
    /// The sessions of `/invocations`, shared by all ports; `None` where they are off.
    pub sessions: Option<Arc<SessionTable>>,
    /// Are WebSockets accepted?
    pub websocket: bool,
    /// Are compressed bodies accepted, and replies compressed for clients that ask for it?
    pub compression: bool,
    /// Processors of this machine.
    pub cpus: NonZeroUsize,
    /// The tokens of clients, and the access that each gives.
    pub access: Access,
    /// Headers that become parameters of inferences; `None` for none.
    pub forwarding: Option<Arc<Forwarding>>,
    /// The local SageMaker runtime; `None` where it is off.
    pub facade: Option<Arc<Facade>>,
    /// The address of metrics with TensorFlow Serving's names; `None` where there is none.
    pub tensorflow_metrics: Option<Arc<str>>,
    /// The only routes of the Vertex AI port; `None` on the other ports.
    pub vertex_ai: Option<VertexAi>,
}

/// The encryption of a port.
#[derive(Clone)]
pub enum Listener {
    /// Plain text.
    Plain,
    /// Plain text while other ports have TLS: only health and metrics are answered, which hold no secret.
    HealthOnly,
    /// TLS.
    Tls(Acceptor),
}

/// Everything that a handler needs. Each I/O thread has a clone of its own.
#[derive(Clone)]
pub struct Service {
    /// The part that all protocols share.
    pub serving: Serving,
    /// The settings of the HTTP front.
    pub settings: HttpSettings,
    /// The encryption of its port.
    pub listener: Listener,
}

/// Headers with a client's name for its request; the first one that is present counts.
const ID_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-amzn-sagemaker-inference-id"),
    HeaderName::from_static("x-request-id"),
];

/// Headers with the time that a client gives its request, in milliseconds.
const TIMEOUT_HEADERS: [HeaderName; 2] = [
    HeaderName::from_static("x-request-timeout-ms"),
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms"),
];

/// The header that names a model to `/invocations`.
pub const TARGET_MODEL: HeaderName = HeaderName::from_static("x-amzn-sagemaker-target-model");

impl Service {
    /// A service for these models.
    pub fn new(serving: Serving, settings: HttpSettings, listener: Listener) -> Service {
        Service { serving, settings, listener }
    }

    /// The same service on a port with another encryption.
    pub fn behind(&self, listener: Listener) -> Service {
        Service { listener, ..self.clone() }
    }

    /// May a request that needs this access, with these headers, be answered on this port?
    pub fn check(&self, need: Need, headers: &HeaderMap) -> Result<(), Error> {
        let is_public = matches!(need.category(), Category::Health | Category::Metrics);
        if matches!(self.listener, Listener::HealthOnly) && !is_public {
            return Err(Error::Forbidden(
                "this port is not encrypted and answers health checks and metrics only; ask on a port that \
                 has TLS (--http-tls-ports)"
                    .to_owned(),
            ));
        }
        self.settings.access.check(need, |name| headers.get(name).map(HeaderValue::as_bytes))
    }

    /// Why `/ping` is not answered with 200; `None` when it is. One failed model among several does not count, unless
    /// it is the default one.
    pub fn ping_fails(&self) -> Option<String> {
        if !self.serving.drain.is_serving() {
            return Some("the server is shutting down".to_owned());
        }
        // Models of a multi-model endpoint come and go. The platform must be able to send requests without any.
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

    /// The model that answers `/invocations`: the one that the target header names, if it exists; else the default
    /// model; else the only model. `version` is the wanted one.
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
                // Other platforms use the header for other names.
                Err(Error::NotFound(_)) => {}
                // A named model that exists but cannot answer is not replaced by another.
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

    /// The name of the model for requests that name none; `None` for the only model.
    fn default_model(&self) -> Option<Arc<str>> {
        match &self.settings.default_model {
            Some(name) => Some(name.clone()),
            None if self.settings.first_of_several => {
                let models = &self.serving.models;
                // Where no model is ready, the error of the first one says why.
                models.first_ready().or_else(|| models.names().into_iter().next())
            }
            None => None,
        }
    }

    /// When the answer to a request that has just arrived becomes useless.
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

/// The value of a header; `None` where it is absent or not text.
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(HeaderValue::to_str).and_then(Result::ok)
}
