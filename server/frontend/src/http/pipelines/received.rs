//! The body of a request for which a model is still to be chosen, and the model that it names.

use std::sync::Arc;

use hyper::{body::Incoming, http::request::Parts};

use super::choice::{Wanted, check, choose};
use crate::{
    exchange::{
        Arrived,
        intake::{self, Received},
        offload::{LARGE, offload},
    },
    http::{answer::find, encoding, router::ModelPath, service::Service},
};
use inference::error::Error;
use models::ServedModel;
use protocol::body_model::model_name;

/// Receives the body, and finds the model: that of the address, else the one that the body, a header or what is wanted
/// chooses.
///
/// # Errors
/// Why the body cannot be received, and those of [`find`], [`check`] and [`choose`].
pub async fn receive(
    service: &Service,
    path: Option<&ModelPath<'_>>,
    wanted: Wanted,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<(Arc<ServedModel>, Received), Error> {
    if let Some(path) = path {
        let model = check(find(service, path, parts).await?, wanted)?;
        model.admit()?;
        return Ok((model, whole(service, parts, body).await?));
    }
    let received = whole(service, parts, body).await?;
    let (received, name) = match received.bytes.len() <= LARGE {
        true => look(received)?,
        false => offload(move || look(received)).await??,
    };
    Ok((choose(service, wanted, name.as_deref(), &parts.headers).await?, received))
}

/// The whole body, inflated.
async fn whole(service: &Service, parts: &Parts, body: &mut Incoming) -> Result<Received, Error> {
    let settings = &service.settings;
    let encoding = encoding::of_body(&parts.headers, settings.compression)?;
    let received = intake::read(body, 0, &settings.body).await?;
    match encoding {
        None => Ok(received),
        Some(encoding) => {
            let inflated =
                Arrived::inflate(encoding, "content-encoding", received, &settings.body)?;
            inflated.whole().await
        }
    }
}

fn look(received: Received) -> Result<(Received, Option<String>), Error> {
    let name = model_name(&received.bytes)?;
    Ok((received, name))
}
