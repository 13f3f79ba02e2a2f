//! Settings of traces and of the log, which clients read and change while the server runs.

use hyper::{Method, body::Incoming};

use formats::kserve_v2::settings;
use frontend::{
    exchange::{
        admin::{self, TracedModel},
        intake,
    },
    http::{address::ModelPath, answer::Answer, parts::Parts, respond, service::Service},
};

pub async fn trace(
    service: &Service,
    path: Option<&ModelPath<'_>>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    let changes = match parts.method {
        Method::POST => {
            let received = intake::read(body, 0, &service.settings.body).await?;
            settings::trace_request(&received.bytes)?
        }
        _ => Default::default(),
    };
    let model = path.map(|it| TracedModel { name: &it.name, version: it.version });
    let all = admin::trace_settings(&service.serving, model, changes).await?;
    Ok(respond::ok(settings::trace_settings(&all)))
}

pub async fn logging(service: &Service, parts: &Parts, body: &mut Incoming) -> Answer {
    let changes = match parts.method {
        Method::POST => {
            let received = intake::read(body, 0, &service.settings.body).await?;
            settings::log_request(&received.bytes)?
        }
        _ => Vec::new(),
    };
    let all = admin::log_settings(&service.serving, changes).await?;
    Ok(respond::ok(settings::log_settings(&all)))
}
