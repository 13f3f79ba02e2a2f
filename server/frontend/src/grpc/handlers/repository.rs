//! The model repository: its index, loading and unloading.

use std::collections::BTreeMap;

use super::super::proto::{
    ModelRepositoryParameter, RepositoryIndexRequest, RepositoryIndexResponse,
    RepositoryModelLoadRequest, RepositoryModelLoadResponse, RepositoryModelUnloadRequest,
    RepositoryModelUnloadResponse, model_repository_parameter::ParameterChoice,
    repository_index_response::ModelIndex,
};
use crate::{exchange::admin, serving::Serving};
use inference::{error::Error, limits::Permit, signature::nearest};
use models::LoadOverride;

/// The prefix of a parameter's key that holds the content of a file.
const FILE: &str = "file:";

pub(super) async fn index(
    serving: &Serving,
    request: &RepositoryIndexRequest,
) -> Result<RepositoryIndexResponse, Error> {
    one_repository(&request.repository_name)?;
    let entries = admin::index(serving, request.ready).await?;
    let models = entries.into_iter().map(|it| ModelIndex {
        name: it.name.to_string(),
        version: it.version.map(|it| it.to_string()).unwrap_or_default(),
        state: admin::state_name(&it).unwrap_or_default().to_owned(),
        reason: it.reason.to_string(),
    });
    Ok(RepositoryIndexResponse { models: models.collect() })
}

pub(super) async fn load(
    serving: &Serving,
    request: RepositoryModelLoadRequest,
    held: Permit,
) -> Result<RepositoryModelLoadResponse, Error> {
    one_repository(&request.repository_name)?;
    let given = load_override(request.parameters)?;
    admin::load(serving, request.model_name, held, || Ok(given)).await?;
    Ok(RepositoryModelLoadResponse {})
}

pub(super) async fn unload(
    serving: &Serving,
    request: RepositoryModelUnloadRequest,
) -> Result<RepositoryModelUnloadResponse, Error> {
    one_repository(&request.repository_name)?;
    let mut dependents = false;
    for (key, value) in request.parameters {
        match (key.as_str(), value.parameter_choice) {
            ("unload_dependents", Some(ParameterChoice::BoolParam(value))) => dependents = value,
            ("unload_dependents", other) => return Err(wrong_type(&key, "bool_param", &other)),
            _ => return Err(unknown(&key, "unload_dependents")),
        }
    }
    admin::unload(serving, request.model_name, dependents).await?;
    Ok(RepositoryModelUnloadResponse {})
}

fn load_override(
    parameters: BTreeMap<String, ModelRepositoryParameter>,
) -> Result<LoadOverride, Error> {
    let mut given = LoadOverride::default();
    for (key, value) in parameters {
        match (key.as_str(), value.parameter_choice) {
            ("config", Some(ParameterChoice::StringParam(text))) => given.config = Some(text),
            ("config", other) => return Err(wrong_type(&key, "string_param", &other)),
            (file, choice) => {
                let Some(name) = file.strip_prefix(FILE) else {
                    return Err(unknown(&key, "config"));
                };
                match choice {
                    Some(ParameterChoice::BytesParam(content)) => {
                        given.files.push((name.to_owned(), content));
                    }
                    other => return Err(wrong_type(&key, "bytes_param", &other)),
                }
            }
        }
    }
    Ok(given)
}

fn wrong_type(key: &str, expected: &str, given: &Option<ParameterChoice>) -> Error {
    let given = match given {
        Some(ParameterChoice::BoolParam(_)) => "bool_param",
        Some(ParameterChoice::Int64Param(_)) => "int64_param",
        Some(ParameterChoice::StringParam(_)) => "string_param",
        Some(ParameterChoice::BytesParam(_)) => "bytes_param",
        None => "none",
    };
    Error::InvalidRequest(format!("parameter '{key}': expected {expected}, given {given}"))
}

fn unknown(key: &str, known: &str) -> Error {
    let shown: String = key.chars().take(128).collect();
    let hint = nearest(key, [known]);
    let hint = hint.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default();
    let expected = match known {
        "config" => "'config' or 'file:<version>/<name>'",
        _ => "'unload_dependents'",
    };
    Error::InvalidRequest(format!("parameter '{shown}': expected {expected}{hint}"))
}

/// Clients see all repositories as one.
fn one_repository(name: &str) -> Result<(), Error> {
    match name {
        "" => Ok(()),
        _ => Err(Error::Unimplemented(
            "repository_name: a repository cannot be named; expected nothing here".to_owned(),
        )),
    }
}
