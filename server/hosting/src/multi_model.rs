//! Multi-model endpoints of SageMaker: the platform loads, lists, invokes and unloads models under its own keys.

use hyper::{body::Incoming, http::request::Parts};

use crate::{front::Hosting, invocations::parse, invoke::invoke};
use ::models::EndpointLoad;
use frontend::exchange::{
    Failure,
    intake::{self, Received},
};
use frontend::http::{
    answer::Answer,
    respond,
    router::{MultiModelPath, percent_decode},
    service::{TARGET_MODEL, text},
};
use inference::error::{Error, Kind};
use protocol::sagemaker::models;

pub async fn answer(
    hosting: &Hosting,
    path: &MultiModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    match path {
        MultiModelPath::Load => load(hosting, parts, body).await,
        MultiModelPath::List => list(hosting, parts),
        MultiModelPath::Describe(name) => {
            let model = hosting.http.serving.control.multi_model()?.get(name)?;
            Ok(respond::ok(models::model(&model.key, &model.url)))
        }
        MultiModelPath::Unload(name) => unload(hosting, name).await,
        MultiModelPath::Invoke(name) => ask(hosting, name, parts, body).await,
    }
}

/// Answers once the model serves. A client that leaves does not stop a load that has begun.
async fn load(hosting: &Hosting, parts: &Parts, body: &mut Incoming) -> Answer {
    let Received { bytes, permit } = intake::read(body, 0, &hosting.http.settings.body).await?;
    let request = models::load_request(&bytes)?;
    drop((bytes, permit));
    let label = text(&parts.headers, &TARGET_MODEL).map(str::to_owned);
    let control = hosting.http.serving.control.clone();
    let load = move || {
        let models::LoadRequest { name, url } = &request;
        control.multi_model()?.load(EndpointLoad { key: name, url, label: label.as_deref() })
    };
    let model = hosting.http.serving.control_threads.run(load).await??;
    Ok(respond::ok(models::model(&model.key, &model.url)))
}

fn list(hosting: &Hosting, parts: &Parts) -> Answer {
    let mut query = Vec::new();
    for pair in parts.uri.query().unwrap_or_default().split('&').filter(|it| !it.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        query.push((percent_decode(name)?, percent_decode(value)?));
    }
    let pairs = query.iter().map(|(name, value)| (name.as_ref(), value.as_ref()));
    let request = models::list_request(pairs)?;
    let after = request.after.as_deref();
    let (page, has_more) =
        hosting.http.serving.control.multi_model()?.list(after, request.limit)?;
    let page = page.iter().map(|it| (&*it.key, &*it.url));
    Ok(respond::ok(models::list(page, has_more)))
}

/// Answers once the model is gone and its memory is given back.
async fn unload(hosting: &Hosting, name: &str) -> Answer {
    let (control, name) = (hosting.http.serving.control.clone(), name.to_owned());
    let model = hosting
        .http
        .serving
        .control_threads
        .run(move || control.multi_model()?.unload(&name))
        .await??;
    Ok(respond::ok(models::model(&model.key, &model.url)))
}

async fn ask(hosting: &Hosting, name: &str, parts: &Parts, body: &mut Incoming) -> Answer {
    let label = text(&parts.headers, &TARGET_MODEL);
    let model = hosting.http.serving.control.multi_model()?.find(name, label)?;
    let answer = invoke(hosting, model, parts, parse(&parts.headers)?, body.into()).await;
    answer.map_err(|it| Failure { error: of_loaded(it.error), ..it })
}

/// The platform reads any 404 as: the model is not loaded. This model is loaded, so its 404 becomes another error.
fn of_loaded(error: Error) -> Error {
    match error.kind() {
        Kind::NotFound => Error::InvalidRequest(error.to_string()),
        _ => error,
    }
}
