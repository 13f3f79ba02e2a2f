//! The body of a request for which a model is still to be chosen, and the model that it names.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{body::Incoming, header::CONTENT_TYPE};

use super::{
    choice::{WantedModel, check, choose},
    text_service::TextService,
};
use crate::codec::hub;
use formats::body_model::model_name;
use frontend::{
    exchange::{
        Arrived,
        intake::{self, Received},
        offload::{LARGE, offload},
    },
    http::{address::ModelPath, answer::find, encoding, parts::Parts, service::text},
};
use inference::{error::Error, grant::Grant, limits::Permit};
use serving::ServedModel;

/// Receives the body, and finds the model: that of the address, else the one that the body, a header or what is wanted
/// chooses. That of the address has admitted the request.
///
/// # Errors
/// Why the body cannot be received, and those of [`find`], [`check`] and [`choose`].
pub async fn receive(
    service: &TextService<'_>,
    path: Option<&ModelPath<'_>>,
    wanted: WantedModel,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<(Arc<ServedModel>, Received), Error> {
    if let Some(path) = path {
        let model = check(find(service, path, parts).await?, wanted)?;
        model.admit()?;
        return Ok((model, whole(service, parts, body).await?));
    }
    let received = whole(service, parts, body).await?;
    let (received, name) = named(received).await?;
    Ok((choose(service, wanted, name.as_deref(), &parts.headers).await?, received))
}

/// The same without an address that names a model, for a body that may be a file: then no model is named, and one that
/// takes such files is wanted.
///
/// # Errors
/// Those of [`receive`].
pub async fn receive_json_or_file(
    service: &TextService<'_>,
    wanted: WantedModel,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<(Arc<ServedModel>, Received), Error> {
    let content_type = text(&parts.headers, &CONTENT_TYPE);
    let received = whole(service, parts, body).await?;
    let (wanted, received, name) = match hub::is_file(content_type, &received.bytes) {
        true => {
            let medium = hub::medium_of(content_type, &received.bytes).map(WantedModel::Files);
            let wanted =
                if wanted == WantedModel::Any(None) { medium.unwrap_or(wanted) } else { wanted };
            (wanted, received, None)
        }
        false => {
            let (received, name) = named(received).await?;
            (wanted, received, name)
        }
    };
    Ok((choose(service, wanted, name.as_deref(), &parts.headers).await?, received))
}

/// What `decode` finds in a body, with the room that it asks for: on the pool where the body is long.
///
/// # Errors
/// Those of `decode`; the refusal of that room.
pub async fn read<T: Send + 'static>(
    received: Received,
    decode: impl FnOnce(&Bytes, &Grant) -> Result<T, Error> + Send + 'static,
) -> Result<(T, Permit), Error> {
    let Received { bytes, mut permit } = received;
    let is_large = LARGE < bytes.len();
    let work = move || {
        let found = Grant::lend(&mut permit, 0, |grant| grant.outcome(decode(&bytes, grant)))?;
        Ok((found, permit))
    };
    if is_large { offload(work).await? } else { work() }
}

/// The body and the model that it names.
async fn named(received: Received) -> Result<(Received, Option<String>), Error> {
    match received.bytes.len() <= LARGE {
        true => look(received),
        false => offload(move || look(received)).await?,
    }
}

/// The whole body, inflated.
async fn whole(
    service: &TextService<'_>,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<Received, Error> {
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
