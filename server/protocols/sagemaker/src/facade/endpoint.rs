//! The model behind an endpoint, and the attribution of its failures to the model or to the platform.

use std::sync::Arc;

use hyper::HeaderMap;

use super::exception::{Exception, Refusal};
use crate::{codec::invocations::Invocation, front::Hosting, invocations};
use frontend::exchange::Failure;
use inference::error::Error;
use serving::{ServedModel, State};

/// The model behind an endpoint: the one of its name, else the one that `/invocations` would choose.
pub async fn model_of(
    hosting: &Hosting<'_>,
    endpoint: &str,
    headers: &HeaderMap,
    invocation: &Result<Invocation, Error>,
) -> Result<Arc<ServedModel>, Refusal> {
    let deadline = || hosting.http.deadline(headers);
    let named = hosting.http.serving.model(endpoint, None, deadline).await;
    let error = match named {
        Err(Error::NotFound(_)) => {
            let chosen = match invocation {
                Ok(it) => invocations::chosen(hosting, headers, &it.attributes).await,
                Err(error) => Err(error.clone()),
            };
            match chosen {
                Ok(model) => return Ok(model),
                Err(error) => error,
            }
        }
        found => {
            let found = match found {
                Ok(model) => hosting.through_script(model, headers).await,
                Err(error) => Err(error),
            };
            return found.map_err(|error| of_model(hosting, error.into()));
        }
    };
    let is_missing =
        matches!(error, Error::NotFound(_) | Error::InvalidRequest(_) | Error::Unavailable(_));
    if is_missing && hosting.http.serving.models.is_started() {
        let shown: String = endpoint.chars().take(128).collect();
        let text = format!("endpoint '{shown}': there is no model of that name, and {error}");
        return Err(Refusal::Platform(Exception::Validation, Error::InvalidRequest(text).into()));
    }
    Err(of_model(hosting, error.into()))
}

/// Attributes a failure to the model, or to the platform that hosts it.
pub fn of_model(hosting: &Hosting<'_>, failure: Failure) -> Refusal {
    let models = &hosting.http.serving.models;
    let is_loading = |name: &str| {
        !models.is_started() || models.states(name).iter().any(|it| it.state == State::Loading)
    };
    match &failure.error {
        Error::ModelNotReady { model, .. } if is_loading(model) => {
            Refusal::Platform(Exception::ModelNotReady, failure)
        }
        Error::Unavailable(_) if !models.is_started() => {
            Refusal::Platform(Exception::ModelNotReady, failure)
        }
        Error::ShuttingDown | Error::OutOfBudget(_) => {
            Refusal::Platform(Exception::ServiceUnavailable, failure)
        }
        _ => Refusal::Model(failure),
    }
}
