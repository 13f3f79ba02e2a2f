//! What the server says about itself and its models, and how it says that something went wrong.

use super::format::suggestion;
use crate::{
    EncodedReply,
    json::{JsonReader, Token, write},
};
use inference::{
    error::Error,
    grant::Grant,
    messages,
    signature::{MERGING, Port, Signature},
};

/// The extensions of the protocol that are served.
pub const EXTENSIONS: [&str; 13] = [
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
];

/// `GET /v2`.
pub fn server_metadata(name: &str, version: &str) -> EncodedReply {
    let mut out = b"{".to_vec();
    write::key(&mut out, "name");
    write::string(&mut out, name);
    write::key(&mut out, "version");
    write::string(&mut out, version);
    write::key(&mut out, "extensions");
    strings(&mut out, EXTENSIONS);
    out.push(b'}');
    EncodedReply::json(out)
}

/// `GET /v2/models/{m}[/versions/{v}]`. `platform`: the engine's name where the model has none. `versions`:
/// the ready ones, or the one that was asked for. `merging`: that its rows are not known to be independent, and whether
/// its requests are merged all the same. There are `parameters` only where that is to be said, or the model is a
/// pipeline, has several signatures, or has names for the columns of its input. Those of a pipeline: what its graph
/// takes, what decodes JPEG, and whether an answer depends on its company.
pub fn model_metadata(
    signature: &Signature,
    platform: &str,
    versions: &[u64],
    merging: Option<&str>,
) -> EncodedReply {
    let mut out = b"{".to_vec();
    write::key(&mut out, "name");
    write::string(&mut out, &signature.model);
    write::key(&mut out, "versions");
    let versions: Vec<String> = versions.iter().map(u64::to_string).collect();
    strings(&mut out, versions.iter().map(String::as_str));
    write::key(&mut out, "platform");
    write::string(&mut out, platform);
    write::key(&mut out, "inputs");
    ports(&mut out, signature, &signature.inputs);
    write::key(&mut out, "outputs");
    ports(&mut out, signature, &signature.outputs);
    parameters(&mut out, signature, merging);
    out.push(b'}');
    EncodedReply::json(out)
}

/// What is said of a model beside its inputs and outputs, where there is something.
fn parameters(out: &mut Vec<u8>, signature: &Signature, merging: Option<&str>) {
    let pipeline = signature.pipeline.as_deref();
    let names = signature.feature_names();
    let has_signatures = !signature.others().is_empty();
    if pipeline.is_none() && !has_signatures && names.is_none() && merging.is_none() {
        return;
    }
    write::key(out, "parameters");
    out.push(b'{');
    if let Some(merging) = merging {
        write::key(out, MERGING);
        write::string(out, merging);
    }
    if let Some(pipeline) = pipeline {
        write::key(out, "graph_inputs");
        strings(out, pipeline.graph_inputs());
        if let Some(jpeg) = &pipeline.jpeg {
            write::key(out, "jpeg");
            write::string(out, jpeg);
        }
        if !pipeline.row_independent {
            write::key(out, "row_independent");
            out.extend_from_slice(b"false");
        }
    }
    if has_signatures {
        write::key(out, "signatures");
        strings(out, signature.usable().map(Signature::name));
    }
    if let Some(names) = names {
        write::key(out, "feature_names");
        strings(out, names.iter().map(String::as_str));
    }
    out.push(b'}');
}

/// One line of the repository's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// Name of the model.
    pub name: &'a str,
    /// `None` where no version has ever been loaded.
    pub version: Option<u64>,
    /// `READY` and the like; `None` where no version has ever been loaded.
    pub state: Option<&'a str>,
    /// Why it is in that state; empty where nothing is to be said.
    pub reason: &'a str,
}

/// `POST /v2/repository/index`.
pub fn repository_index<'a>(entries: impl IntoIterator<Item = IndexEntry<'a>>) -> EncodedReply {
    let mut out = b"[".to_vec();
    for entry in entries {
        write::item(&mut out);
        out.push(b'{');
        write::key(&mut out, "name");
        write::string(&mut out, entry.name);
        if let Some(version) = entry.version {
            write::key(&mut out, "version");
            write::string(&mut out, &version.to_string());
        }
        if let Some(state) = entry.state {
            write::key(&mut out, "state");
            write::string(&mut out, state);
        }
        if !entry.reason.is_empty() {
            write::key(&mut out, "reason");
            write::string(&mut out, entry.reason);
        }
        out.push(b'}');
    }
    out.push(b']');
    EncodedReply::json(out)
}

/// Reads the body of `POST /v2/repository/index`, which may be empty: only the ready ones?
///
/// # Errors
/// When it is something else than `{"ready": bool}`.
pub fn index_request(body: &[u8]) -> Result<bool, Error> {
    let mut ready = false;
    if body.trim_ascii().is_empty() {
        return Ok(ready);
    }
    JsonReader::request(body, &Grant::uncounted(), |reader| {
        reader.object(|reader, key| match key.as_ref() {
            "ready" => {
                if reader.peek()? != Token::Bool {
                    return Err(reader.error(messages::READY_IS_NO_BOOLEAN));
                }
                ready = reader.bool()?;
                Ok(())
            }
            other => {
                let known = suggestion(other, ["ready"].into_iter());
                Err(reader.error(format_args!("unknown key{known}")))
            }
        })
    })?;
    Ok(ready)
}

fn ports(out: &mut Vec<u8>, signature: &Signature, ports: &[Port]) {
    out.push(b'[');
    for port in ports {
        write::item(out);
        out.push(b'{');
        write::key(out, "name");
        write::string(out, &port.name);
        write::key(out, "datatype");
        write::string(out, port.dtype.name());
        write::key(out, "shape");
        let batch = signature.batches().then_some(None);
        write::dims(out, batch.into_iter().chain(port.dims.iter().copied()));
        out.push(b'}');
    }
    out.push(b']');
}

fn strings<'a>(out: &mut Vec<u8>, strings: impl IntoIterator<Item = &'a str>) {
    out.push(b'[');
    for string in strings {
        write::item(out);
        write::string(out, string);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use backend::DataType;

    use super::*;

    #[track_caller]
    fn check(reply: EncodedReply, expected: &str) {
        assert_eq!(reply.content_type, "application/json");
        assert_eq!(reply.body.concat(), expected.as_bytes());
    }

    #[test]
    fn a_model_is_described_with_its_batch_dimension_in_front() {
        let port = |name: &str, dims| Port {
            name: name.into(),
            dtype: DataType::Fp32,
            dims,
            any_rank: false,
            scalar: false,
            optional: false,
            labels: Arc::new([]),
            text_codes: Default::default(),
        };
        let signature = Signature {
            named: None,
            graph_checks_shapes: false,
            takes_missing: false,
            model: "sample".into(),
            version: 3,
            max_batch_size: 4,
            most_rows: None,
            inputs: vec![port("x", vec![None, Some(2)])],
            outputs: vec![port("y", vec![])],
            on_request: Vec::new(),
            pipeline: None,
        };
        let inputs = r#"[{"name":"x","datatype":"FP32","shape":[-1,-1,2]}]"#;
        let outputs = r#"[{"name":"y","datatype":"FP32","shape":[-1]}]"#;
        let head = r#""name":"sample","versions":["1","3"],"platform":"onnxruntime_onnx""#;
        let expected = format!("{{{head},\"inputs\":{inputs},\"outputs\":{outputs}}}");
        check(model_metadata(&signature, "onnxruntime_onnx", &[1, 3], None), &expected);
        let noted = format!(
            "{{{head},\"inputs\":{inputs},\"outputs\":{outputs},\"parameters\":{{\"muster_merging\":\"off: it mixes\"}}}}"
        );
        check(
            model_metadata(&signature, "onnxruntime_onnx", &[1, 3], Some("off: it mixes")),
            &noted,
        );
    }

    #[test]
    fn the_server_names_its_extensions() {
        let text = r#"{"name":"muster","version":"2.0.0","extensions":["classification","sequence","model_repository","model_repository(unload_dependents)","schedule_policy","model_configuration","system_shared_memory","cuda_shared_memory","binary_tensor_data","parameters","statistics","trace","logging"]}"#;
        check(server_metadata("muster", "2.0.0"), text);
    }

    #[test]
    fn the_index_leaves_out_what_is_not_known() {
        let never = IndexEntry { name: "a", version: None, state: None, reason: "" };
        let ready = IndexEntry { version: Some(1), state: Some("READY"), ..never };
        let gone = IndexEntry { state: Some("UNAVAILABLE"), reason: "unloaded", ..ready };
        check(repository_index([]), "[]");
        check(
            repository_index([never, ready, gone]),
            r#"[{"name":"a"},{"name":"a","version":"1","state":"READY"},{"name":"a","version":"1","state":"UNAVAILABLE","reason":"unloaded"}]"#,
        );
    }

    #[test]
    fn the_index_may_be_asked_without_a_body() {
        assert_eq!(index_request(b""), Ok(false));
        assert_eq!(index_request(b"{}"), Ok(false));
        assert_eq!(index_request(br#"{"ready": true}"#), Ok(true));
        let refused = |body: &[u8]| index_request(body).unwrap_err().to_string();
        let opening = "Invalid value for 'ready': expected a boolean";
        for given in ["1", "\"true\"", "null", &"[".repeat(250_000)] {
            let error = refused(format!("{{\"ready\":{given}}}").as_bytes());
            assert!(error.contains(opening), "{error}");
        }
        let error = refused(b"AAAA");
        assert!(error.starts_with("failed to parse the request JSON buffer: "), "{error}");
        let error = index_request(br#"{"redy": true}"#).unwrap_err().to_string();
        let expected =
            "redy: unknown key; did you mean 'ready'? expected one of: 'ready', at byte 8";
        assert_eq!(error, expected);
    }
}
