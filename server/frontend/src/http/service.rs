//! The state that HTTP handlers share: the models, the limits, the settings of the HTTP front.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use tokio::sync::Semaphore;

use super::{marks::Marks, other_names::OtherNames, parts::Parts, routes::Listed};
use crate::{
    exchange::{has_any, intake::Limits, request_id::named},
    net::tls::Acceptor,
    serving::Serving,
    settings::limits::Timeouts,
};
use inference::{
    access::{Access, Category, Forwarding, Need, Origins},
    error::Error,
};
use telemetry::capture::Capture;

/// Most connections without a place that are heard at the same time.
const HEARD: usize = 64;

/// Requests without a place that administer the server at the same time.
const ADMINISTERING: usize = 4;

/// Settings of the HTTP front.
#[derive(Clone)]
pub struct HttpSettings {
    /// How slow a peer may be.
    pub timeouts: Timeouts,
    /// Limits of a request's body.
    pub body: Limits,
    /// Are compressed bodies accepted, and replies compressed for clients that ask for it?
    pub compression: bool,
    /// The tokens of clients, and the access that each gives.
    pub access: Access,
    /// Headers that become parameters of inferences; `None` for none.
    pub forwarding: Option<Arc<Forwarding>>,
    /// Has the answer about a healthy server a body?
    pub health_bodies: bool,
    /// Do replies say where the time went?
    pub server_timing: bool,
    /// The pages of other sites that may read replies.
    pub origins: Origins,
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
    /// What every reply carries.
    pub(super) marks: Arc<Marks>,
    /// The connections without a place that are heard at the same time. Those beyond are refused at once.
    pub hearing: Arc<Semaphore>,
    /// Those of them that administer the server. Those beyond are refused.
    pub administering: Arc<Semaphore>,
    /// Keeps bodies and replies of some requests; `None` where nothing does.
    pub capture: Option<Capture>,
    /// Names of models that requests give and no model has.
    pub other_names: Arc<OtherNames>,
    /// What the protocols of this build take.
    pub routes: Arc<[Listed]>,
}

/// The header with the name that a client of SageMaker gives its request.
pub const INFERENCE_ID: HeaderName = HeaderName::from_static("x-amzn-sagemaker-inference-id");

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
        let hearing = Arc::new(Semaphore::new(HEARD));
        let administering = Arc::new(Semaphore::new(ADMINISTERING));
        let (capture, other_names, routes) = Default::default();
        let marks = Arc::new(Marks {
            request_ids: serving.request_ids.clone(),
            server_timing: settings.server_timing,
            origins: settings.origins.clone(),
        });
        Service {
            serving,
            settings,
            listener,
            marks,
            hearing,
            administering,
            capture,
            other_names,
            routes,
        }
    }

    /// The same, of whose requests some are captured.
    pub fn capturing(self, capture: Option<Capture>) -> Service {
        Service { capture, ..self }
    }

    /// The same, where these routes are taken.
    pub fn listing(self, routes: Arc<[Listed]>) -> Service {
        Service { routes, ..self }
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

    /// When the answer to a request that has just arrived becomes useless.
    pub fn deadline(&self, headers: &HeaderMap) -> Result<Option<Instant>, Error> {
        if !has_any(headers, &TIMEOUT_HEADERS) {
            return Ok(self.serving.deadline(None));
        }
        let mut shortest: Option<Duration> = None;
        for name in &TIMEOUT_HEADERS {
            let Some(value) = headers.get(name) else { continue };
            let millis = value.to_str().ok().and_then(|it| it.trim().parse().ok());
            let timeout = millis.map(Duration::from_millis).ok_or_else(|| {
                Error::InvalidRequest(format!("header {name}: expected a number of milliseconds"))
            })?;
            shortest = Some(shortest.map_or(timeout, |it| it.min(timeout)));
        }
        Ok(self.serving.deadline(shortest))
    }

    /// The name of a request for its errors and the log: the client's in its body, or in SageMaker's header, or that
    /// in the head of its reply.
    pub fn request_id(&self, parts: &Parts, in_body: Option<&str>) -> String {
        let given = in_body.or_else(|| text(&parts.headers, &INFERENCE_ID));
        given.and_then(named).unwrap_or_else(|| parts.id.text().into_owned())
    }
}

/// The value of a header; `None` where it is absent or not text.
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(HeaderValue::to_str).and_then(Result::ok)
}
