//! What TensorFlow Serving tells about a model: the state of its versions, and its signature.

use super::{Method, definitions, types};
use crate::{EncodedReply, json::write};
use inference::signature::{Port, Signature};

/// Where a version is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionState {
    /// Known, and not being loaded yet.
    Start,
    /// Being loaded and warmed up.
    Loading,
    /// Serving.
    Available,
    /// Going away.
    Unloading,
    /// Gone, or never came up.
    End,
}

impl VersionState {
    const fn name(self) -> &'static str {
        match self {
            VersionState::Start => "START",
            VersionState::Loading => "LOADING",
            VersionState::Available => "AVAILABLE",
            VersionState::Unloading => "UNLOADING",
            VersionState::End => "END",
        }
    }
}

/// One version in the answer to `GET /v1/models/{name}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionStatus {
    /// Its number.
    pub version: u64,
    /// Where it is.
    pub state: VersionState,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// The answer to `GET /v1/models/{name}`, for these versions in this order.
pub fn status(versions: &[VersionStatus]) -> EncodedReply {
    let mut out = b"{\"model_version_status\":[".to_vec();
    for status in versions {
        write::item(&mut out);
        out.push(b'{');
        field(&mut out, "version", &status.version.to_string());
        field(&mut out, "state", status.state.name());
        write::key(&mut out, "status");
        out.push(b'{');
        field(&mut out, "error_code", if status.failure.is_none() { "OK" } else { "INTERNAL" });
        field(&mut out, "error_message", status.failure.as_deref().unwrap_or_default());
        out.extend_from_slice(b"}}");
    }
    out.extend_from_slice(b"]}");
    EncodedReply::json(out)
}

/// The answer to `GET /v1/models/{name}/metadata`.
pub fn metadata(signature: &Signature) -> EncodedReply {
    let mut out = b"{\"model_spec\":{".to_vec();
    field(&mut out, "name", &signature.model);
    field(&mut out, "signature_name", "");
    field(&mut out, "version", &signature.version.to_string());
    out.extend_from_slice(b"},\"metadata\":{\"signature_def\":{\"signature_def\":");
    if let Some(named) = &signature.named {
        definitions::write(&mut out, &named.definitions);
        out.extend_from_slice(b"}}}");
        return EncodedReply::json(out);
    }
    out.push(b'{');
    write::key(&mut out, signature.name());
    out.push(b'{');
    ports(&mut out, "inputs", signature, &signature.inputs);
    ports(&mut out, "outputs", signature, &signature.outputs);
    field(&mut out, "method_name", Method::Predict.name());
    out.extend_from_slice(b"}}}}}");
    EncodedReply::json(out)
}

fn ports(out: &mut Vec<u8>, key: &str, signature: &Signature, ports: &[Port]) {
    write::key(out, key);
    out.push(b'{');
    for port in ports {
        write::key(out, &port.name);
        out.push(b'{');
        field(out, "dtype", types::name(port.dtype));
        write::key(out, "tensor_shape");
        out.extend_from_slice(b"{\"dim\":[");
        let batch = signature.batches().then_some(None);
        let dims = batch.into_iter().chain(port.own_dims().iter().copied());
        for dim in dims.filter(|_| !port.any_rank) {
            write::item(out);
            out.push(b'{');
            field(out, "size", &dim.map_or("-1".to_owned(), |it| it.to_string()));
            field(out, "name", "");
            out.push(b'}');
        }
        out.extend_from_slice(match port.any_rank {
            true => b"],\"unknown_rank\":true}",
            false => b"],\"unknown_rank\":false}",
        });
        field(out, "name", &format!("{}:0", port.name));
        out.push(b'}');
    }
    out.push(b'}');
}

fn field(out: &mut Vec<u8>, key: &str, value: &str) {
    write::key(out, key);
    write::string(out, value);
}
