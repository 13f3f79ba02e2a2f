//! What a prediction of one model looks like: the schemas of its body and of its reply, and a body.

use serde_json::{Map, Value, json};

use frontend::http::{
    examples::{MOST_BYTES, zero},
    routes::Call,
    schemas::{element, filled, nested},
};
use inference::signature::{Port, Signature};

/// `None` for models that have no rows, and for those whose inputs are texts or files.
pub fn predict(signature: &Signature) -> Option<Call> {
    let has_no_shape = |it: &Port| it.any_rank;
    if !signature.batches() || signature.pipeline.is_some() {
        return None;
    }
    if signature.inputs.iter().chain(&signature.outputs).any(has_no_shape) {
        return None;
    }
    let value = |it: &Port| nested(it.own_dims(), element(signature, it));
    let takes = json!({"type": "object", "required": ["instances"], "properties": {
        "signature_name": {"type": "string"},
        "instances": {"type": "array", "items": row(&signature.inputs, value)},
    }});
    let gives = json!({"type": "object", "required": ["predictions"], "properties": {
        "predictions": {"type": "array", "items": row(&signature.outputs, value)},
    }});
    Some(Call { takes, gives, example: example(signature) })
}

/// A row of these ports: the value of the only one, or an object.
fn row(ports: &[Port], schema: impl Fn(&Port) -> Value) -> Value {
    if let [only] = ports {
        return schema(only);
    }
    let properties = ports.iter().map(|it| (it.name.to_string(), schema(it)));
    let properties: Map<String, Value> = properties.collect();
    let required = ports.iter().filter(|it| !it.optional);
    let required: Vec<&str> = required.map(|it| &*it.name).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// A row of zeros.
fn example(signature: &Signature) -> Option<Value> {
    let required: Vec<&Port> = signature.inputs.iter().filter(|it| !it.optional).collect();
    let elements = required.iter().map(|it| it.dims.iter().map(|it| it.unwrap_or(1)));
    let elements = elements.map(|it| it.fold(1usize, usize::saturating_mul));
    if MOST_BYTES / 2 < elements.fold(0, usize::saturating_add) {
        return None;
    }
    let value = |it: &&Port| filled(it.own_dims(), zero(it.dtype));
    let row = match (required.as_slice(), signature.inputs.len()) {
        ([only], 1) => value(only),
        _ => required.iter().map(|it| (it.name.to_string(), value(it))).collect(),
    };
    let body = json!({ "instances": [row] });
    (body.to_string().len() <= MOST_BYTES).then_some(body)
}
