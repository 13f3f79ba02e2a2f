//! Counts of models in the form of Triton's statistics extension.

use std::sync::Arc;

use crate::http::{answer::Answer, respond, router::ModelPath, service::Service};
use inference::error::Error;
use models::ServedModel;
use protocol::kserve_v2;

/// The statistics of the named version, of all ready versions of a model, or of all models.
pub fn of(service: &Service, path: Option<&ModelPath<'_>>) -> Answer {
    let models = match path {
        None => {
            let names = service.serving.models.ready_names();
            names.iter().flat_map(|it| versions(service, it)).collect()
        }
        Some(ModelPath { name, version: None }) => match versions(service, name) {
            none if none.is_empty() => vec![one(service, name, None)?],
            versions => versions,
        },
        Some(ModelPath { name, version }) => vec![one(service, name, *version)?],
    };
    let counted = models.iter().map(|it| {
        let signature = &it.signature;
        (&*signature.model, signature.version, it.metrics.statistics())
    });
    Ok(respond::ok(kserve_v2::model_statistics(counted)))
}

fn versions(service: &Service, name: &str) -> Vec<Arc<ServedModel>> {
    let versions = service.serving.models.ready_versions(name).into_iter();
    // A version may have been unloaded since it was listed.
    versions.filter_map(|it| service.serving.models.get(name, Some(it)).ok()).collect()
}

/// A model that is ready. This extension treats any other model as a mistake of the client.
fn one(service: &Service, name: &str, version: Option<u64>) -> Result<Arc<ServedModel>, Error> {
    let found = service.serving.models.get(name, version);
    found.map_err(|error| Error::InvalidRequest(error.to_string()))
}
