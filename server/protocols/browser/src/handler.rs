//! `/openapi.json`: which models the document is of, and the memory that it takes.

use frontend::{
    exchange::offload::offload,
    http::{
        address::percent_decode, answer::Answer, body::Segments, parts::Parts, service::Service,
    },
};
use hyper::{Response, header::CONTENT_TYPE};
use inference::{boxed::BoxFuture, error::Error, grant::Grant, limits::Permit};

use crate::document::{MOST_MODELS, Models, document as write};

/// The document of all models that serve, or of those that the query names.
///
/// # Errors
/// [`Error::NotFound`] and the like where a named model does not serve.
pub fn document<'a>(service: &'a Service, parts: &'a Parts) -> BoxFuture<'a, Answer> {
    Box::pin(async move {
        let models = models(service, parts.uri.query().unwrap_or_default())?;
        let mut permit = Permit::nothing(&service.settings.body.budget);
        let service = service.clone();
        let made = move || {
            let pieces = Grant::lend(&mut permit, 0, |grant| write(&service, &models, grant));
            (pieces, permit)
        };
        let (pieces, permit) = offload(made).await?;
        let mut response = Response::new(Segments::from(pieces?));
        response.body_mut().hold(permit);
        let json = hyper::header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        Ok(response)
    })
}

/// The models that `?model=<name>` names, else all that serve.
fn models(service: &Service, query: &str) -> Result<Models, Error> {
    let table = &service.serving.models;
    let named = query.split('&').filter_map(|it| it.strip_prefix("model="));
    let mut described = Vec::new();
    for name in named {
        let name = percent_decode(name)?;
        if MOST_MODELS <= described.len() {
            return Err(Error::InvalidRequest(format!(
                "expected at most {MOST_MODELS} models in the query, found more"
            )));
        }
        described.push(table.get(&name, None)?);
    }
    if !described.is_empty() {
        described.sort_by(|a, b| a.signature.model.cmp(&b.signature.model));
        described.dedup_by(|a, b| a.signature.model == b.signature.model);
        return Ok(Models { described, named: Vec::new() });
    }
    let mut named = Vec::new();
    for name in table.ready_names() {
        // A name of models in several namespaces has no address.
        let Ok(model) = table.get(&name, None) else { continue };
        match described.len() < MOST_MODELS {
            true => described.push(model),
            false => named.push((name, model.signature.version)),
        }
    }
    Ok(Models { described, named })
}
