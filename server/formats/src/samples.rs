//! For tests: signatures in one line, requests and responses as text, golden files.

// Only tests are made of this.
#![allow(clippy::unwrap_used)]

pub mod bodies;

use std::{fmt::Write, path::Path, sync::Arc};

use backend::{DataType, NamedTensor, Shape, Tensor};

use crate::{
    EncodedReply,
    elements::TensorBuilder,
    json::write::{self, BytesAs},
};
use inference::{
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::{Pipeline, Port, Signature},
    task::Task,
};

/// All that is asked for, for whatever is read in a test.
pub fn grant() -> &'static Grant {
    Box::leak(Box::new(Grant::all(0)))
}

/// Ports from `name TYPE dims`, for example `x FP32 [-1,3]`; a question mark after the name makes it optional,
/// an exclamation mark a scalar of the model.
pub fn ports(lines: &[&str]) -> Vec<Port> {
    let port = |line: &&str| {
        let [name, dtype, dims] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let sizes = dims.trim_matches(['[', ']']).split(',').filter(|it| !it.is_empty());
        Port {
            name: name.trim_end_matches(['?', '!']).into(),
            dtype: DataType::from_name(dtype).unwrap(),
            dims: sizes.map(|it| it.parse().ok()).collect(),
            any_rank: false,
            scalar: name.ends_with('!'),
            optional: name.ends_with('?'),
            labels: Default::default(),
            text_codes: Default::default(),
        }
    };
    lines.iter().map(port).collect()
}

/// Version 3 of model `m`.
pub fn model(max_batch_size: usize, inputs: &[&str], outputs: &[&str]) -> Signature {
    let (inputs, outputs) = (ports(inputs), ports(outputs));
    let most_rows = Some(max_batch_size);
    Signature {
        named: None,
        graph_checks_shapes: false,
        takes_missing: false,
        model: "m".into(),
        version: 3,
        max_batch_size,
        most_rows,
        inputs,
        outputs,
        on_request: Vec::new(),
        pipeline: None,
    }
}

/// The same as a pipeline of that task.
pub fn pipeline(task: Task, inputs: &[&str], outputs: &[&str]) -> Signature {
    let pipeline = Pipeline {
        task,
        forms: Vec::new(),
        row_independent: true,
        sampling_rate: Some(16_000),
        jpeg: None,
    };
    Signature { pipeline: Some(Arc::new(pipeline)), ..model(8, inputs, outputs) }
}

/// A pipeline that says which classes an image has.
pub fn image_model() -> Signature {
    let outputs = ["label BYTES [-1]", "score FP32 [-1]", "result BYTES [1]"];
    let on_request = ports(&["class INT64 [-1]"]);
    Signature { on_request, ..pipeline(Task::ImageClassification, &["image BYTES [1]"], &outputs) }
}

/// A pipeline that says what is said in a sound.
pub fn sound_model() -> Signature {
    let outputs = ["text BYTES [1]", "result BYTES [1]"];
    pipeline(Task::AutomaticSpeechRecognition, &["audio BYTES [1]"], &outputs)
}

/// A response of that many rows: element `i` is `i / 2`, `i`, `i` odd, or the string `s<i>`.
pub fn respond(signature: &Signature, rows: usize) -> InferenceResponse {
    let output = |port: &Port| {
        let rows = signature.batches().then_some(rows);
        let dims = rows.into_iter().chain(port.dims.iter().map(|it| it.unwrap_or(2)));
        let shape: Shape = dims.collect();
        let mut builder = TensorBuilder::new(port.dtype, None, grant());
        for at in 0..shape.elements().unwrap() {
            let text = match port.dtype {
                DataType::Bytes => format!("s{at}"),
                DataType::Bool => (at % 2 == 1).to_string(),
                DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64 => {
                    (at as f32 / 2.0).to_string()
                }
                _ => at.to_string(),
            };
            builder.push_text(&text).unwrap();
        }
        NamedTensor { name: port.name.clone(), tensor: builder.finish(shape).unwrap() }
    };
    let outputs = signature.outputs.iter().map(output).collect();
    InferenceResponse {
        model: "m".into(),
        version: 3,
        id: None,
        rows: None,
        outputs,
        timings: None,
        parameters: Vec::new(),
    }
}

/// A response of one output.
pub fn only(name: &str, tensor: Tensor) -> InferenceResponse {
    let outputs = vec![NamedTensor { name: name.into(), tensor }];
    InferenceResponse {
        model: "m".into(),
        version: 3,
        id: None,
        rows: None,
        outputs,
        timings: None,
        parameters: Vec::new(),
    }
}

/// The inputs as lines: `x FP32 [1,2] [0.5,1.0]`.
pub fn show(request: &InferenceRequest) -> String {
    show_inputs(&request.inputs)
}

/// The same of these inputs.
pub fn show_inputs(inputs: &[NamedTensor]) -> String {
    let mut text = String::new();
    for NamedTensor { name, tensor } in inputs {
        let mut values = Vec::new();
        write::flat(&mut values, tensor, BytesAs::TextOrBase64).unwrap();
        let values = String::from_utf8(values).unwrap();
        writeln!(text, "{name} {} {} {values}", tensor.dtype(), tensor.shape()).unwrap();
    }
    text
}

/// The body as text.
pub fn body(reply: &EncodedReply) -> String {
    String::from_utf8_lossy(&reply.body.concat()).into_owned()
}

/// Compares with a file under `tests/golden`, or writes it where `UPDATE_GOLDEN` is set.
#[track_caller]
pub fn golden(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{}; UPDATE_GOLDEN=1 writes it", path.display());
}

/// Bytes that stand for an error's text, and for what a lone small request takes.
const SMALL: u64 = 4 << 10;

/// The most bytes that work holds at once, as the allocator of its test counts them.
pub type Peak = fn(&mut dyn FnMut()) -> u64;

/// As this crate's own tests count them.
#[cfg(test)]
pub(crate) const PEAK: Peak = |work| allocation_counter::measure(work).bytes_max;

/// Runs `work`, and fails where that takes more memory than it was granted, and more than an error's text. Of bounds,
/// those of at most so many `loose` bytes may be rough. Returns what was granted.
#[track_caller]
pub fn within_grant<T>(
    peak: Peak,
    loose: usize,
    name: &str,
    work: impl FnOnce(&Grant) -> T,
) -> usize {
    let grant = Grant::all(loose);
    let (mut work, mut done) = (Some(work), None);
    let most = peak(&mut || done = work.take().map(|work| work(&grant)));
    let granted = grant.granted();
    assert!(most <= granted as u64 + SMALL, "{name}: takes {most} bytes, {granted} were granted");
    granted
}
