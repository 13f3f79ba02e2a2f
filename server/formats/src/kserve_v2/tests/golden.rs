//! Requests in files, what they decode to, and the reply when the model gives its inputs back.
//!
//! `NAME.json` is the JSON of a request, `NAME.bin` what lies behind it (or all of it), `NAME.txt` the
//! outcome. `UPDATE_GOLDEN=1` writes the outcomes anew.

use std::{fmt::Write as _, fs, path::PathBuf};

use super::*;

#[test]
fn requests_and_replies_are_as_their_golden_files_say() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/kserve_v2");
    let files = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path());
    let mut cases: Vec<PathBuf> = files.map(|it| it.with_extension("")).collect();
    cases.sort();
    cases.dedup();
    assert!(!cases.is_empty());
    for case in cases {
        let json = fs::read(case.with_extension("json")).ok();
        let binary = fs::read(case.with_extension("bin")).ok();
        let outcome = outcome(json, binary);
        let file = case.with_extension("txt");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, &outcome).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(outcome, expected, "{}", file.display());
    }
}

fn outcome(json: Option<Vec<u8>>, binary: Option<Vec<u8>>) -> String {
    let signature = match json {
        Some(_) => sample(8),
        None => single(DataType::Fp32, &[None], 8),
    };
    let json = json.unwrap_or_default();
    let header_length = binary.as_ref().map(|_| json.len());
    let body = [json, binary.unwrap_or_default()].concat();
    let mut text = String::new();
    match decode(&signature, header_length, body.into()) {
        Err(DecodeError { id, error }) => {
            writeln!(text, "id: {id:?}\n{:?}: {error}", error.kind()).unwrap();
        }
        Ok((request, format)) => {
            write_request(&mut text, &request);
            writeln!(text, "reply: {format:?}\n").unwrap();
            match encode(&format, &signature, &echo(&request)) {
                Err(error) => writeln!(text, "{:?}: {error}", error.kind()).unwrap(),
                Ok(reply) => write_reply(&mut text, &reply),
            }
        }
    }
    text
}

fn write_request(text: &mut String, request: &InferenceRequest) {
    let InferenceRequest {
        id,
        inputs,
        outputs,
        task: _,
        deadline,
        priority,
        queue_timeout,
        sequence,
        parameters,
        leaves_shapes_to_graph: _,
        lineage: _,
        parts: _,
        trace: _,
        signature: _,
    } = request;
    assert_eq!(*deadline, None);
    writeln!(text, "id: {id:?}, priority: {priority}, timeout: {queue_timeout:?}").unwrap();
    if let Some(sequence) = sequence {
        writeln!(text, "sequence: {sequence:?}").unwrap();
    }
    for (name, value) in parameters {
        writeln!(text, "parameter {name}: {value:?}").unwrap();
    }
    for NamedTensor { name, tensor } in inputs {
        let bytes = tensor.to_bytes();
        writeln!(text, "{name}: {} {} {:02x?}", tensor.dtype(), tensor.shape(), &bytes[..])
            .unwrap();
    }
    writeln!(text, "outputs: {outputs:?}").unwrap();
}

fn write_reply(text: &mut String, reply: &EncodedReply) {
    writeln!(text, "Content-Type: {}", reply.content_type).unwrap();
    if let Some(length) = reply.json_length {
        writeln!(text, "{HEADER_LENGTH}: {length}").unwrap();
    }
    for (name, value) in &reply.headers {
        writeln!(text, "{name}: {value}").unwrap();
    }
    let body = reply.body.concat();
    let (json, raw) = body.split_at(reply.json_length.unwrap_or(body.len()));
    for part in [json, raw].into_iter().filter(|it| !it.is_empty()) {
        match std::str::from_utf8(part) {
            Ok(part) if part.starts_with('{') => writeln!(text, "\n{part}").unwrap(),
            _ => writeln!(text, "\n{}", part.escape_ascii()).unwrap(),
        }
    }
}
