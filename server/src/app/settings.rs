//! Copies the configuration into the settings of each part of the server.

use std::{num::NonZeroUsize, sync::Arc};

use super::observers::Observers;
use crate::config::ServerConfig;
use frontend::{
    exchange::intake::Limits, grpc::GrpcSettings, http::HttpSettings, net::tls::Acceptor,
    serving::Serving,
};
use inference::{
    access::{Access, TokenFile, Wire},
    error::HTTP_BODY_LIMIT,
};
use loading::{
    LoadSettings,
    settings::{HostedStart, HostedWay},
};
use machine::gpus::Gpus;
use sagemaker::{Facade, SageMaker, SessionTable};
use schedule::{Busy, ratelimit::RateLimiter};
use telemetry::metrics::MetricsSettings;

/// Most models of a multi-model endpoint with metrics of their own. The platform reads the page from outside, and may
/// load any number of models.
const MULTI_MODEL_SERIES: usize = 200;

/// The settings of metrics: what is counted, and what is shown.
pub(super) fn metrics_settings(config: &ServerConfig) -> MetricsSettings {
    let is_multi_model = config.control.multi_model.is_some();
    let max_models = if is_multi_model { MULTI_MODEL_SERIES } else { config.metrics.max_models };
    MetricsSettings { max_models, ..config.metrics.clone() }
}

/// The settings of loading.
pub(super) fn load_settings(config: &ServerConfig, cpus: NonZeroUsize, gpus: Gpus) -> LoadSettings {
    LoadSettings {
        defaults: config.model_defaults.clone(),
        repository: config.repository.clone(),
        cpus,
        gpus,
        scheduling: config.scheduling.clone(),
        watchdog: Arc::default(),
        busy: Busy::default(),
        has_cache: config.cache.is_some(),
        has_many_models: config.control.multi_model.is_some(),
        rate_limiter: config.rate_limit.clone().map(|it| Arc::new(RateLimiter::new(it))),
    }
}

/// What SageMaker's clients are answered.
pub(super) fn sagemaker(
    config: &ServerConfig,
    observers: &Observers,
    facade: Option<Arc<Facade>>,
    cpus: NonZeroUsize,
    model_ports: [Option<u16>; 2],
) -> SageMaker {
    SageMaker {
        answers: config.hosting,
        options: Arc::new(config.sagemaker.options(config.limits.body_bytes)),
        default_model: config.sagemaker.default_model.as_deref().map(Arc::from),
        first_of_several: matches!(
            config.control.hosted,
            Some(HostedStart { way: HostedWay::TensorFlowServing | HostedWay::ByModels, .. })
        ),
        recorder: observers.recorder.clone(),
        sessions: config.sessions.map(|it| Arc::new(SessionTable::new(it.life, it.most.get()))),
        websocket: config.clients.websocket,
        cpus,
        facade,
        model_ports,
    }
}

/// The settings of all HTTP ports.
pub(super) fn http_settings(
    config: &ServerConfig,
    serving: &Serving,
    tokens: Option<Arc<TokenFile>>,
) -> HttpSettings {
    let (limits, access) = (&config.limits, &config.access);
    HttpSettings {
        timeouts: limits.timeouts,
        body: Limits {
            limit: limits.body_bytes,
            whole: limits.inflight_bytes,
            setting: HTTP_BODY_LIMIT,
            pace: limits.body_pace,
            budget: serving.bytes.clone(),
        },
        compression: limits.http_compression,
        access: Access::new(Wire::Http, tokens, access.open, &access.http.restrictions)
            .of_hosts(access.hosts.clone()),
        forwarding: access.http.forwarding.clone().map(Arc::new),
        health_bodies: config.clients.health_bodies,
        server_timing: config.clients.server_timing,
        origins: config.clients.origins.clone(),
    }
}

/// The settings of the gRPC ports.
pub(super) fn grpc_settings(
    config: &ServerConfig,
    serving: &Serving,
    tokens: Option<Arc<TokenFile>>,
    tls: Option<Acceptor>,
) -> GrpcSettings {
    let (limits, access) = (&config.limits, &config.access);
    let longest_message = limits.inflight_bytes.min(i32::MAX.unsigned_abs().into());
    GrpcSettings {
        grpc: config.grpc.clone(),
        messages: Limits {
            limit: longest_message,
            whole: longest_message,
            setting: "--max-inflight-bytes",
            pace: limits.body_pace,
            budget: serving.bytes.clone(),
        },
        timeouts: limits.timeouts,
        access: Access::new(Wire::Grpc, tokens, access.open, &access.grpc.restrictions)
            .of_hosts(access.hosts.clone()),
        forwarding: access.grpc.forwarding.clone().map(Arc::new),
        tls,
    }
}
