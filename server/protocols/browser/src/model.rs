//! What the document says of one model: its operations, the schemas of their bodies, and what it is. Pure.

use frontend::http::{
    address::percent_encode,
    examples::Example,
    routes::{Call, Listed, MODEL},
};
use inference::{
    signature::{Port, Signature},
    task::Medium,
};
use serde_json::{Map, Value, json};

use crate::{
    names::Names,
    operation::{common, reference, responses},
};

/// Names of classes and of features that are listed of each list.
const MOST_NAMES: usize = 1000;

/// Bytes that an operation on a model takes in the document, beside what comes of inputs and outputs: a body that
/// works, and what stands around it.
const OF_OPERATION: usize = 16 << 10;

/// Bytes that an input or an output takes in the document, beside its name and its labels, while it is written and
/// afterwards.
const OF_PORT: usize = 16 << 10;

/// An operation on one model.
pub struct Described {
    /// Its address.
    pub path: String,
    /// Its method, in lower case.
    pub method: String,
    /// The operation itself.
    pub operation: Value,
    /// The schemas that it refers to, by their names.
    pub schemas: [(String, Value); 2],
}

/// The operation on a model at that route; `None` where the route is not for it. `has_answered`: has the model answered
/// when it was loaded?
pub fn describe(
    listed: &Listed,
    signature: &Signature,
    has_answered: bool,
    needs_token: bool,
    names: &mut Names,
) -> Option<Described> {
    let route = &listed.route;
    let Call { takes, gives, example } = (route.of_model?)(signature)?;
    let path = route.path.replace(MODEL, &percent_encode(&signature.model));
    let name = names.new_like(&format!("{}_{}", route.name, signature.model));
    let (request, reply) = (format!("{name}_request"), format!("{name}_reply"));
    let mut operation = common(listed, &name, &signature.model, needs_token);
    let mut content = json!({ "schema": reference(&request) });
    if let Some(example) = example.filter(|_| has_answered) {
        content["example"] = example;
    }
    let body = json!({"required": true, "content": {"application/json": content}});
    operation.insert("requestBody".to_owned(), body);
    let content = json!({"application/json": {"schema": reference(&reply)}});
    let answer = json!({"description": "The answer", "content": content});
    operation.insert("responses".to_owned(), responses(listed, answer));
    Some(Described {
        path,
        method: route.method.as_str().to_ascii_lowercase(),
        operation: operation.into(),
        schemas: [(request, takes), (reply, gives)],
    })
}

/// The bytes that all this takes at most, for so many routes, while it is made and afterwards.
pub fn bound(signature: &Signature, routes: usize) -> usize {
    let of_port = |it: &Port| {
        let labels = it.labels.iter().take(MOST_NAMES);
        let labels: usize = labels.map(|it| 16 * it.len() + 128).sum();
        OF_PORT + 256 * it.dims.len() + 64 * it.name.len() + labels
    };
    let ports = signature.inputs.iter().chain(&signature.outputs).chain(&signature.on_request);
    let ports: usize = ports.map(of_port).sum();
    (routes + 1) * (OF_OPERATION + 64 * signature.model.len()) + 3 * ports
}

/// What a model is, for pages and programs that know no OpenAPI. An example is `generated` unless it is just what the
/// model has answered when it was loaded.
pub fn summary(signature: &Signature, platform: &str, example: Option<Example>) -> Value {
    let task = signature.pipeline.as_ref().map(|it| it.task);
    let kind = match signature.medium() {
        None => "tensors",
        Some(Medium::Text) => "text",
        Some(Medium::Image) => "image",
        Some(Medium::Audio) => "audio",
    };
    let ports =
        |ports: &[Port]| -> Vec<Value> { ports.iter().map(|it| port(signature, it)).collect() };
    let outputs = || signature.outputs.iter().chain(&signature.on_request);
    let labels = outputs().map(|it| &*it.labels).find(|it| !it.is_empty());
    let listed = |names: Option<&[String]>| names.map(names_of);
    let example = example.map(|it| {
        json!({"method": "POST", "path": it.path, "content_type": "application/json",
            "accept": "application/json", "body": it.body, "generated": signature.pipeline.is_some()})
    });
    json!({
        "name": signature.model,
        "version": signature.version.to_string(),
        "platform": platform,
        "task": task.map(|it| it.name()),
        "kind": kind,
        "inputs": ports(&signature.inputs),
        "outputs": ports(&signature.outputs),
        "labels": listed(labels),
        "features": listed(signature.feature_names()),
        "example": example,
    })
}

fn port(signature: &Signature, port: &Port) -> Value {
    let batch = signature.batches().then_some(None);
    let dims = batch.into_iter().chain(port.dims.iter().copied());
    let shape: Vec<Value> = dims.map(|it| it.map_or(json!(-1), |it| json!(it))).collect();
    let mut all = Map::from_iter([
        ("name".to_owned(), json!(port.name)),
        ("datatype".to_owned(), json!(port.dtype.name())),
        ("shape".to_owned(), shape.into()),
    ]);
    if port.optional {
        all.insert("optional".to_owned(), true.into());
    }
    if !port.labels.is_empty() {
        all.insert("labels".to_owned(), names_of(&port.labels));
    }
    all.into()
}

fn names_of(names: &[String]) -> Value {
    names.iter().take(MOST_NAMES).map(|it| Value::from(it.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::DataType;

    fn signature(ports: usize, labels: usize) -> Signature {
        let port = |at: usize| Port {
            name: format!("port {at}").into(),
            dtype: DataType::Fp32,
            dims: vec![Some(3); 4],
            any_rank: false,
            scalar: false,
            optional: false,
            labels: (0..labels).map(|it| format!("class {it}")).collect(),
            text_codes: Default::default(),
        };
        Signature {
            named: None,
            graph_checks_shapes: false,
            takes_missing: false,
            model: "m".into(),
            version: 1,
            max_batch_size: 4,
            most_rows: None,
            inputs: (0..ports).map(port).collect(),
            outputs: (0..ports).map(port).collect(),
            on_request: Vec::new(),
            pipeline: None,
        }
    }

    #[test]
    fn what_is_said_of_a_model_takes_no_more_than_is_asked_for() {
        for (ports, labels) in [(1, 0), (1, 1500), (300, 0), (20, 200)] {
            let signature = signature(ports, labels);
            let write = || drop(summary(&signature, "onnxruntime_onnx", None).to_string());
            let taken = allocation_counter::measure(write).bytes_max;
            assert!(taken <= bound(&signature, 0) as u64, "{ports} {labels}: {taken}");
        }
    }

    #[test]
    fn a_long_list_of_names_is_cut() {
        let said = summary(&signature(1, 1500), "p", None);
        assert_eq!(said["labels"].as_array().map(Vec::len), Some(MOST_NAMES));
        assert_eq!(said["inputs"][0]["shape"], json!([-1, 3, 3, 3, 3]));
    }
}
