//! What an inference of KServe v2 on one model looks like: the schemas of its body and of its reply, and a body.

use serde_json::{Value, json};

use frontend::http::{
    examples::{self, MOST_BYTES, SENTENCE},
    routes::Call,
    schemas::element,
};
use inference::{
    signature::{Port, Signature},
    task::{Medium, RowForm, TEXT},
};

/// Elements of an example: each takes two bytes at least.
const MOST_ELEMENTS: usize = MOST_BYTES / 2;

/// `None` for models of images and sounds, whose files are no JSON.
pub(super) fn infer(signature: &Signature) -> Option<Call> {
    if matches!(signature.medium(), Some(Medium::Image | Medium::Audio)) {
        return None;
    }
    let named = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "enum": names(signature)},
    }});
    let takes = json!({"type": "object", "required": ["inputs"], "properties": {
        "id": {"type": "string"},
        "parameters": {"type": "object", "additionalProperties": true},
        "inputs": tensors(signature, &signature.inputs, true),
        "outputs": {"type": "array", "items": named},
    }});
    let gives = json!({"type": "object", "required": ["model_name", "model_version", "outputs"],
        "properties": {
            "model_name": {"type": "string"},
            "model_version": {"type": "string"},
            "id": {"type": "string"},
            "outputs": tensors(signature, &signature.outputs, false),
        },
    });
    Some(Call { takes, gives, example: example(signature) })
}

/// The outputs that may be asked for.
fn names(signature: &Signature) -> Vec<&str> {
    signature.outputs.iter().chain(&signature.on_request).map(|it| &*it.name).collect()
}

/// A list of tensors of these ports.
fn tensors(signature: &Signature, ports: &[Port], are_inputs: bool) -> Value {
    let required = ports.iter().filter(|it| !it.optional).count();
    let items: Vec<Value> = ports.iter().map(|it| tensor(signature, it)).collect();
    let items = match <[Value; 1]>::try_from(items) {
        Ok([only]) => only,
        Err(several) => json!({ "anyOf": several }),
    };
    match are_inputs {
        true => {
            json!({"type": "array", "items": items, "minItems": required, "maxItems": ports.len()})
        }
        // A request may ask for some of them.
        false => json!({"type": "array", "items": items}),
    }
}

fn tensor(signature: &Signature, port: &Port) -> Value {
    let shape = signature.shape_text(port);
    let dims = port.dims.len() + usize::from(signature.batches());
    let shape = match port.any_rank {
        true => json!({"type": "array", "items": {"type": "integer"}}),
        false => json!({"type": "array", "items": {"type": "integer"}, "minItems": dims,
            "maxItems": dims, "description": format!("{shape}, in which -1 is any size")}),
    };
    json!({
        "type": "object",
        "required": ["name", "shape", "datatype", "data"],
        "properties": {
            "name": {"type": "string", "const": port.name},
            "datatype": {"type": "string", "const": port.dtype.name()},
            "shape": shape,
            "data": {"type": "array", "items": element(signature, port),
                "description": "All elements, row by row"},
        },
    })
}

/// Zeros, or a sentence for a model that takes one.
fn example(signature: &Signature) -> Option<Value> {
    let mut body = examples::zeros(signature, MOST_ELEMENTS)?;
    if let Some(pipeline) = &signature.pipeline {
        let is_sentence = pipeline.task.facts().row == RowForm::One;
        let first = body.pointer_mut("/inputs/0").filter(|it| is_sentence && it["name"] == TEXT)?;
        first["data"] = json!([SENTENCE]);
    }
    (body.to_string().len() <= MOST_BYTES).then_some(body)
}
