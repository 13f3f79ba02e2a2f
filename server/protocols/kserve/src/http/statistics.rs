//! Counts of models in the form of Triton's statistics extension.

use formats::kserve_v2;
use frontend::{
    exchange::admin,
    http::{address::ModelPath, answer::Answer, respond, service::Service},
};

/// The statistics of the named version, of all ready versions of a model, or of all models.
pub fn of(service: &Service, path: Option<&ModelPath<'_>>) -> Answer {
    let (name, version) = path.map_or((None, None), |it| (Some(&*it.name), it.version));
    let models = admin::counted_models(&service.serving, name, version)?;
    let counted = models.iter().map(|it| {
        let signature = &it.signature;
        (&*signature.model, signature.version, it.metrics.statistics())
    });
    Ok(respond::ok(kserve_v2::model_statistics(counted)))
}
