//! Multi-model endpoints of SageMaker: the platform loads, lists, invokes and unloads models under its own keys.

use hyper::body::Incoming;

use crate::{
    codec::invocations::{ModelWords, models},
    front::Hosting,
    invocations::parse,
    invoke::invoke,
    operation::MultiModelPath,
};
use ::serving::EndpointLoad;
use frontend::{
    exchange::{
        Failure,
        intake::{self, Received},
    },
    http::{
        address::percent_decode,
        answer::Answer,
        parts::Parts,
        respond,
        service::{TARGET_MODEL, text},
    },
};
use inference::error::{Error, Kind};

pub async fn answer(
    hosting: &Hosting<'_>,
    path: &MultiModelPath<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Answer {
    match path {
        MultiModelPath::Load => load(hosting, parts, body).await,
        MultiModelPath::List => list(hosting, parts),
        MultiModelPath::Describe(name) => {
            let models = hosting.http.serving.control.multi_model()?;
            let model = models.get(name).map_err(|it| not_loaded(words(hosting), name, it))?;
            Ok(respond::ok(models::model(&model.key, &model.url)))
        }
        MultiModelPath::Unload(name) => unload(hosting, name).await,
        MultiModelPath::Invoke(name) => ask(hosting, name, parts, body).await,
    }
}

/// Answers once the model serves. A client that leaves does not stop a load that has begun.
async fn load(hosting: &Hosting<'_>, parts: &Parts, body: &mut Incoming) -> Answer {
    let Received { bytes, permit } = intake::read(body, 0, &hosting.http.settings.body).await?;
    let request = models::load_request(&bytes)?;
    drop((bytes, permit));
    let label = text(&parts.headers, &TARGET_MODEL).map(str::to_owned);
    let (control, words) = (hosting.http.serving.control.clone(), words(hosting));
    let load = move || {
        let models::LoadRequest { name, url } = &request;
        let load = EndpointLoad { key: name, url, label: label.as_deref() };
        control.multi_model()?.load(load).map_err(|error| match error {
            Error::AlreadyLoaded(_) => Error::AlreadyLoaded(words.already_loaded(name)),
            Error::NotFound(reason) => Error::NotFound(words.nothing_there(name, url, &reason)),
            error => error,
        })
    };
    let model = hosting.http.serving.control_threads.run(load).await??;
    Ok(respond::ok(words.loaded(&model.key, &model.url)))
}

fn list(hosting: &Hosting<'_>, parts: &Parts) -> Answer {
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
async fn unload(hosting: &Hosting<'_>, name: &str) -> Answer {
    let (control, name) = (hosting.http.serving.control.clone(), name.to_owned());
    let words = words(hosting);
    let unload =
        move || control.multi_model()?.unload(&name).map_err(|it| not_loaded(words, &name, it));
    let model = hosting.http.serving.control_threads.run(unload).await??;
    Ok(respond::ok(words.unloaded(&model.key, &model.url)))
}

async fn ask(hosting: &Hosting<'_>, name: &str, parts: &Parts, body: &mut Incoming) -> Answer {
    let label = text(&parts.headers, &TARGET_MODEL);
    let models = hosting.http.serving.control.multi_model()?;
    let invocation = parse(&parts.headers)?;
    let model = models.find(name, invocation.attributes.version, label);
    let model = model.map_err(|it| not_loaded(words(hosting), name, it))?;
    let answer = invoke(hosting, model, parts, invocation, body.into()).await;
    answer.map_err(of_loaded)
}

/// The words of the container whose place this one takes.
fn words(hosting: &Hosting<'_>) -> ModelWords {
    hosting.options.model_words()
}

/// The error of a model that is asked for by its key, in the words of the container.
fn not_loaded(words: ModelWords, name: &str, error: Error) -> Error {
    match error {
        Error::NotFound(_) => Error::NotFound(words.not_loaded(name)),
        error => error,
    }
}

/// The platform reads any 404 as: the model is not loaded. This model is loaded, so its 404 becomes another error.
fn of_loaded(failure: Failure) -> Failure {
    match failure.error.kind() {
        Kind::NotFound => {
            let error = Error::InvalidRequest(failure.error.to_string());
            failure.with_error(error)
        }
        _ => failure,
    }
}
