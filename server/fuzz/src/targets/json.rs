//! Bodies of KServe v2, of Triton's generate extension and of TensorFlow Serving.

use bytes::Bytes;
use formats::{
    kserve_v2::{self, generate},
    tfs,
};
use inference::{grant::Grant, request::InferenceRequest};

use super::Target;
use crate::{
    oracle::{self, LOOSE},
    requests::{Input, echo, inputs},
    seen::Seen,
    signatures::numbers,
};

/// What stands between the names and values of any JSON, and the values that have no quotes.
const SIGNS: [&str; 8] = ["{", "}", "[", "]", ",", ":", "null", "true"];

/// How many words [`with_signs`] gives.
pub(super) const fn count(words: &[&str]) -> usize {
    SIGNS.len() + words.len()
}

/// The signs of JSON, and behind them the words of one format.
pub(super) const fn with_signs<const N: usize>(words: &[&'static str]) -> [&'static str; N] {
    assert!(N == count(words), "as many as there are");
    let mut all = [""; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < SIGNS.len() { SIGNS[at] } else { words[at - SIGNS.len()] };
        at += 1;
    }
    all
}

pub(super) const WORDS: &[&str] = &with_signs::<{ count(KEYS) }>(KEYS);

const KEYS: &[&str] = &[
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "false",
    "NaN",
    "-Infinity",
    "1e400",
    "-0",
    "0.1e-400",
    "1e",
    "00",
    "\"x\"",
    "\"p\"",
    "\"inputs\":",
    "\"name\":",
    "\"shape\":",
    "\"datatype\":",
    "\"data\":",
    "\"parameters\":",
    "\"outputs\":",
    "\"id\":",
    "\"FP32\"",
    "\"INT64\"",
    "\"BYTES\"",
    "\"BOOL\"",
    "\"binary_data_size\":",
    "\"binary_data\":",
    "\"classification\":",
    "\"shared_memory_region\":",
    "\"instances\":",
    "\"signature_name\":",
    "\"examples\":",
    "\"context\":",
    "\"b64\":",
    "\"dataframe_split\":",
    "\"dataframe_records\":",
    "\"columns\":",
    "\"features\":",
    "\"values\":",
    "\"keys\":",
    "\"predictions\":",
    "\"sequence_id\":",
    "\"priority\":",
    "\"timeout\":",
    "9223372036854775807",
    "18446744073709551616",
    "[[[[[[[[[[",
];

/// A body of KServe v2 for these elements.
fn kserve(datatype: &str, shape: &str, rest: &str) -> Vec<u8> {
    let input = format!(r#"{{"name":"x","shape":{shape},"datatype":"{datatype}",{rest}}}"#);
    format!(r#"{{"id":"a","inputs":[{input}],"outputs":[{{"name":"x"}}]}}"#).into_bytes()
}

pub(super) fn kserve_bodies() -> Vec<Vec<u8>> {
    vec![
        kserve("FP32", "[1,2]", r#""data":[1.5,-2e3]"#),
        kserve("INT64", "[2,1]", r#""data":[[1],[-2]]"#),
        kserve("BOOL", "[1,1]", r#""data":[true]"#),
        kserve("BYTES", "[1,1]", r#""data":["a\u00e9"],"parameters":{"p":1}"#),
        kserve("FP64", "[1,3]", r#""data":[1,2,3]"#),
        kserve("UINT8", "[1]", r#""data":[7]"#),
        kserve("FP16", "[1,2]", r#""parameters":{"binary_data_size":4}"#),
        br#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_offset":0,"shared_memory_byte_size":8}}],"parameters":{"sequence_id":1,"sequence_start":true,"priority":2,"timeout":5,"binary_data_output":true},"outputs":[{"name":"x","parameters":{"classification":2}}]}"#.to_vec(),
    ]
}

/// The JSON of KServe v2.
pub(super) const KSERVE_JSON: Target = Target {
    name: "kserve-json",
    decode: |data| {
        let mut seen = Seen::default();
        let Some(Input { signature, body, .. }) = Input::of(data) else { return seen };
        kserve_body(&mut seen, &signature, None, body);
        seen
    },
    examples: || inputs(numbers(), [0], &kserve_bodies()),
    words: WORDS,
};

fn kserve_body(
    seen: &mut Seen,
    signature: &inference::signature::Signature,
    header: Option<usize>,
    body: &[u8],
) {
    let body = Bytes::copy_from_slice(body);
    let decoded = oracle::within_grant(0, |it| kserve_v2::decode(signature, header, body, it));
    let Some((request, format)) = seen.result(decoded.map_err(|it| it.error)) else { return };
    seen.fact((request.inputs.len(), request.outputs.len(), request.parameters.len()));
    seen.result(kserve_v2::encode(&format, signature, &echo(request.inputs), &Grant::all(LOOSE)));
}

/// The same with binary tensors. Behind the model and the choice stands the length of the JSON, in two bytes.
pub(super) const KSERVE_BINARY: Target = Target {
    name: "kserve-binary",
    decode: |data| {
        let mut seen = Seen::default();
        let Some(Input { signature, choice, body }) = Input::of(data) else { return seen };
        let Some((length, body)) = body.split_first_chunk() else { return seen };
        // As the handler does: a header longer than the body is refused before.
        let header = usize::from(u16::from_le_bytes(*length));
        let Some(header) =
            seen.result(kserve_v2::parse_header_length(&header.to_string(), body.len()))
        else {
            return seen;
        };
        kserve_body(&mut seen, &signature, Some(header).filter(|_| choice < 128), body);
        seen
    },
    examples: || {
        let tensors: [(&str, &str, &[u8]); 6] = [
            ("FP32", "[1,2]", &[0, 0, 128, 63, 0, 0, 0, 64]),
            ("INT64", "[1,1]", &[1, 0, 0, 0, 0, 0, 0, 0]),
            ("BOOL", "[2,1]", &[0, 1]),
            ("BYTES", "[1,2]", &[1, 0, 0, 0, b'a', 0, 0, 0, 0]),
            ("FP16", "[1,2]", &[0, 60, 0, 60]),
            ("UINT8", "[1]", &[7]),
        ];
        let mut bodies = Vec::new();
        for (datatype, shape, data) in tensors {
            let size = format!(r#""parameters":{{"binary_data_size":{}}}"#, data.len());
            let json = kserve(datatype, shape, &size);
            let length = (json.len() as u16).to_le_bytes();
            bodies.push([&length, &json[..], data].concat());
            bodies.push([&[0, 0], data].concat());
        }
        inputs(numbers(), [0], &bodies)
    },
    words: WORDS,
};

/// Triton's generate extension.
pub(super) const GENERATE: Target = Target {
    name: "generate",
    decode: |data| {
        let mut seen = Seen::default();
        let Some(Input { signature, choice, body }) = Input::of(data) else { return seen };
        let decoded = oracle::within_grant(0, |it| generate::decode(&signature, body, it));
        let request = decoded.map_err(|it| it.error);
        let Some(InferenceRequest { inputs, .. }) = seen.result(request) else { return seen };
        let framing = match choice % 2 {
            0 => generate::Framing::Object,
            _ => generate::Framing::Events,
        };
        seen.result(generate::encode(&framing, &signature, &echo(inputs), &Grant::all(LOOSE)));
        seen
    },
    examples: || {
        let bodies = [
            r#"{"x":1.5}"#,
            r#"{"x":[1,2],"stream":true,"temperature":0.5}"#,
            r#"{"id":"a","x":"text","p":[0]}"#,
            r#"{"x":[true],"parameters":{"a":{"b":[1]}}}"#,
        ];
        inputs(numbers(), [0, 1], &bodies.map(|it| it.as_bytes().to_vec()))
    },
    words: WORDS,
};

pub(super) fn tfs_bodies() -> Vec<Vec<u8>> {
    [
        r#"{"instances":[[1.0,2.0],[3.0,4.0]]}"#,
        r#"{"instances":[1,2,3],"signature_name":"serving_default"}"#,
        r#"{"instances":[{"x":[1,2,3]},{"x":[4,5,6]}]}"#,
        r#"{"instances":[{"b64":"AAAA"},"text"]}"#,
        r#"{"inputs":{"x":[[1,2]],"y":[1],"z":["a"]}}"#,
        r#"{"inputs":[[true]]}"#,
    ]
    .map(|it| it.as_bytes().to_vec())
    .to_vec()
}

/// TensorFlow Serving's `predict`.
pub(super) const TFS_JSON: Target = Target {
    name: "tfs-json",
    decode: |data| {
        let mut seen = Seen::default();
        let Some(Input { signature, body, .. }) = Input::of(data) else { return seen };
        let decoded = oracle::within_grant(0, |it| tfs::decode_predict(&signature, body, it));
        let Some((request, form)) = seen.result(decoded) else { return seen };
        seen.fact(request.inputs.len());
        seen.result(tfs::encode(form, &signature, &echo(request.inputs), &Grant::all(LOOSE)));
        seen
    },
    examples: || inputs(numbers(), [0], &tfs_bodies()),
    words: WORDS,
};

/// TensorFlow Serving's `classify` and `regress`.
pub(super) const TFS_EXAMPLES: Target = Target {
    name: "tfs-examples",
    decode: |data| {
        let mut seen = Seen::default();
        let Some(Input { signature, choice, body }) = Input::of(data) else { return seen };
        let method = match choice % 2 {
            0 => tfs::Method::Classify,
            _ => tfs::Method::Regress,
        };
        let decoded =
            oracle::within_grant(0, |it| tfs::decode_examples(&signature, method, body, it));
        let Some((request, results)) = seen.result(decoded) else { return seen };
        seen.result(tfs::encode_results(
            &results,
            &signature,
            &echo(request.inputs),
            &Grant::all(LOOSE),
        ));
        seen
    },
    examples: || {
        let bodies = [
            r#"{"examples":[{"x":1.0},{"x":[2.0]}]}"#,
            r#"{"context":{"x":[1,2,3]},"examples":[{"y":1},{"y":2,"z":"a"}]}"#,
            r#"{"signature_name":"serving_default","examples":[{"x":{"b64":"AAAA"}}]}"#,
        ];
        inputs(numbers(), [0, 1], &bodies.map(|it| it.as_bytes().to_vec()))
    },
    words: WORDS,
};
