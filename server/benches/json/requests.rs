//! Nanoseconds and allocations of a small request of KServe v2, in and out: 16 FP32.

use std::hint::black_box;

use allocation_counter::measure;
use backend::DataType;
use bytes::Bytes;
use formats::kserve_v2::{ReplyFormat, decode, encode};
use inference::{
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::{Port, Signature},
};
use serde::{Deserialize, Serialize};

use crate::measure::compare;

const NUMBERS: usize = 16;

/// Calls in a round.
const TIMES: usize = 2_000;

/// The request and the reply, as a program with typed structures has them.
#[derive(Serialize, Deserialize)]
struct Typed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model_version: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<TypedTensor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<TypedTensor>,
}

#[derive(Serialize, Deserialize)]
struct TypedTensor {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    datatype: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shape: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Vec<f32>>,
}

pub fn run() {
    println!(
        "| A request of {NUMBERS} FP32 | bytes | muster ns | allocations | serde_json ns | allocations | ratio |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let values: Vec<f32> = (0..NUMBERS).map(|it| (it as f32 * 0.7).sin()).collect();
    let texts: Vec<String> = values.iter().map(f32::to_string).collect();
    let json = format!(
        r#"{{"inputs":[{{"name":"x","shape":[1,16],"datatype":"FP32","data":[{}]}}]}}"#,
        texts.join(",")
    );
    both("JSON", json.clone().into(), None);
    let head = r#"{"inputs":[{"name":"x","shape":[1,16],"datatype":"FP32","parameters":{"binary_data_size":64}}],"outputs":[{"name":"x","parameters":{"binary_data":true}}]}"#;
    let raw = values.iter().flat_map(|it| it.to_le_bytes());
    both("binary", head.bytes().chain(raw).collect(), Some(head.len()));
}

fn both(name: &str, body: Bytes, header: Option<usize>) {
    let port = Port {
        name: "x".into(),
        dtype: DataType::Fp32,
        dims: vec![Some(NUMBERS)],
        any_rank: false,
        scalar: false,
        optional: false,
        labels: Vec::new().into(),
        text_codes: Default::default(),
    };
    let signature = Signature {
        named: None,
        graph_checks_shapes: false,
        takes_missing: false,
        model: "model".into(),
        version: 1,
        max_batch_size: 8,
        most_rows: None,
        inputs: vec![port.clone()],
        outputs: vec![port],
        on_request: Vec::new(),
        pipeline: None,
    };
    let json = body.slice(..header.unwrap_or(body.len()));
    // To clone a body is to count a reference.
    let ours = || {
        decode(&signature, header, black_box(&body).clone(), &Grant::uncounted()).expect("sound")
    };
    let theirs = || serde_json::from_slice::<Typed>(black_box(&json)).expect("sound");
    row(&format!("{name}, in"), json.len(), ours, theirs);

    let (request, format): (InferenceRequest, ReplyFormat) = ours();
    let response = InferenceResponse {
        model: signature.model.clone(),
        version: signature.version,
        id: None,
        rows: None,
        outputs: request.inputs,
        timings: None,
        parameters: Vec::new(),
    };
    let typed = Typed {
        id: None,
        model_name: Some("model".to_owned()),
        model_version: Some("1".to_owned()),
        inputs: Vec::new(),
        outputs: theirs().inputs,
    };
    let ours = || {
        encode(black_box(&format), &signature, black_box(&response), &Grant::uncounted())
            .expect("sound")
    };
    let theirs = || serde_json::to_vec(black_box(&typed)).expect("sound");
    let length = ours().body.first().map_or(0, Bytes::len);
    row(&format!("{name}, out"), length, ours, theirs);
}

fn row<A, B>(name: &str, bytes: usize, mut ours: impl FnMut() -> A, mut theirs: impl FnMut() -> B) {
    let allocations = [
        measure(|| drop(black_box(ours()))).count_total,
        measure(|| drop(black_box(theirs()))).count_total,
    ];
    let compared = compare(TIMES, ours, theirs);
    println!(
        "| {name} | {bytes} | {:.0} | {} | {:.0} | {} | {:.2} |",
        compared.ours, allocations[0], compared.theirs, allocations[1], compared.ratio
    );
}
