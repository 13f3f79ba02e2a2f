//! The model repository: its index, loading and unloading.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::encoding::WireType;

use frontend::{
    exchange::admin,
    grpc::{
        proto::{
            ModelRepositoryParameter, RepositoryIndexRequest, RepositoryIndexResponse,
            RepositoryModelLoadRequest, RepositoryModelLoadResponse, RepositoryModelUnloadRequest,
            RepositoryModelUnloadResponse, model_repository_parameter::ParameterChoice,
            repository_index_response::ModelIndex,
        },
        wire,
    },
    serving::Serving,
};
use inference::{error::Error, limits::Permit, signature::nearest};
use serving::LoadOverride;

/// The prefix of a parameter's key that holds the content of a file.
const FILE: &str = "file:";

/// Bytes that a parameter of a load takes at most beside its texts: its place in the nodes of a map, of which more than
/// a third is in use. And its place in the list of files, of which there are two while it grows.
const OF_ONE: usize =
    3 * size_of::<(String, ModelRepositoryParameter)>() + 3 * size_of::<(String, Bytes)>();

/// Bytes that the map takes at least: a node of it has eleven places, and links.
const OF_MAP: usize = 12 * size_of::<(String, ModelRepositoryParameter)>();

/// The fields of `RepositoryModelLoadRequest`, of an entry of its map and of `ModelRepositoryParameter` that are looked
/// at.
const PARAMETERS: u32 = 3;
const KEY: u32 = 1;
const STRING_PARAM: u32 = 3;

/// Bytes of memory that the message of a load takes at most when it is decoded. Contents of files stay where they are.
/// The count ends at malformed bytes, because no decoder gets past them.
pub(super) fn bound(message: &[u8]) -> usize {
    let taken = sum(message, |number, part| match number {
        PARAMETERS => sum(part, |number, part| match number {
            // The name of a file is copied.
            KEY => 2 * part.len(),
            _ => sum(part, |number, part| if number == STRING_PARAM { part.len() } else { 0 }),
        })
        .saturating_add(OF_ONE),
        _ => part.len(),
    });
    taken.saturating_add(OF_MAP)
}

/// What `taken` says of each field of the message that has a length.
fn sum(mut rest: &[u8], taken: impl Fn(u32, &[u8]) -> usize) -> usize {
    let mut sum = 0usize;
    while let Ok(Some((number, kind))) = wire::field(&mut rest) {
        let more = match kind {
            WireType::LengthDelimited => {
                wire::delimited(kind, &mut rest).map(|it| taken(number, it))
            }
            _ => wire::skip(number, kind, &mut rest).map(|()| 0),
        };
        let Ok(more) = more else { break };
        sum = sum.saturating_add(more);
    }
    sum
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use allocation_counter::measure;
    use prost::Message;

    fn load(parameters: Vec<(String, ParameterChoice)>) -> Bytes {
        let parameter = |choice| ModelRepositoryParameter { parameter_choice: Some(choice) };
        let parameters = parameters.into_iter().map(|(key, it)| (key, parameter(it))).collect();
        let model_name = "m".to_owned();
        let request = RepositoryModelLoadRequest { model_name, parameters, ..Default::default() };
        request.encode_to_vec().into()
    }

    #[test]
    fn what_a_load_is_decoded_to_has_its_room() {
        let file = |at: usize| (format!("file:{at}"), ParameterChoice::BytesParam(Bytes::new()));
        let short = |at: usize| (format!("{at:x}"), ParameterChoice::BoolParam(true));
        let text = |length| ParameterChoice::StringParam("x".repeat(length));
        let messages = [
            load((0..20_000).map(file).collect()),
            load((0..20_000).map(short).collect()),
            load((0..1_000).map(|it| (it.to_string(), text(100))).collect()),
            load(vec![("config".to_owned(), text(1 << 20))]),
            load(vec![("x".repeat(1 << 20), ParameterChoice::Int64Param(1))]),
            load(Vec::new()),
        ];
        for message in messages {
            let (room, bytes) = (bound(&message), message.len());
            let used = measure(|| {
                let request = RepositoryModelLoadRequest::decode(message).unwrap();
                drop(load_override(request.parameters));
            });
            let used = used.bytes_max;
            assert!(used <= room as u64, "{used} bytes of a message of {bytes}, room for {room}");
        }
    }

    #[test]
    fn the_content_of_a_file_needs_no_room_as_it_stays_in_the_message() {
        let content = ParameterChoice::BytesParam(vec![0; 1 << 20].into());
        assert!(bound(&load(vec![("file:1/model.onnx".to_owned(), content)])) < 1 << 11);
        // Malformed: a field that reaches past the end.
        assert_eq!(bound(&[0x1a, 0x7f, 0]), bound(&[]));
    }
}
