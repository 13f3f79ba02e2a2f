//! Every address of TensorFlow Serving's REST API, as documents list them.

use crate::{described, failure};
use frontend::http::{
    respond,
    routes::{Content, Family, Route, Schema},
};

const FAMILY: &Family =
    &Family { name: "TensorFlow Serving", failure: respond::FAILURE, status: failure::status };

const ROWS: &[Content] = &[Content::json(Schema {
    name: "PredictRequest",
    json: r#"{"type":"object","properties":{"signature_name":{"type":"string"},
        "instances":{"type":"array","items":{}},"inputs":{}}}"#,
})];

const PREDICTIONS: &[Content] = &[Content::json(Schema {
    name: "PredictReply",
    json: r#"{"type":"object","properties":{"predictions":{"type":"array","items":{}},"outputs":{}}}"#,
})];

const EXAMPLES: &[Content] = &[Content::json(Schema {
    name: "ExamplesRequest",
    json: r#"{"type":"object","required":["examples"],"properties":{"signature_name":{"type":"string"},
        "context":{"type":"object","additionalProperties":true},
        "examples":{"type":"array","items":{"type":"object","additionalProperties":true}}}}"#,
})];

const RESULTS: &[Content] = &[Content::json(Schema {
    name: "ExamplesReply",
    json: r#"{"type":"object","required":["results"],"properties":{"results":{"type":"array","items":{}}}}"#,
})];

const STATES: &[Content] = &[Content::json(Schema {
    name: "VersionStates",
    json: r#"{"type":"object","required":["model_version_status"],"properties":{
        "model_version_status":{"type":"array","items":{"type":"object","properties":{
            "version":{"type":"string"},"state":{"type":"string"},"status":{"type":"object","properties":{
                "error_code":{"type":"string"},"error_message":{"type":"string"}}}}}}}}"#,
})];

const SIGNATURES: &[Content] = &[Content::json(Schema {
    name: "SignatureMetadata",
    json: r#"{"type":"object","required":["model_spec","metadata"],"properties":{
        "model_spec":{"type":"object","additionalProperties":true},
        "metadata":{"type":"object","additionalProperties":true}}}"#,
})];

const METRICS: &[Content] = &[Content::of("text/plain")];

/// How an address names a version, and what that adds to the name of an operation.
const VERSIONS: [(&str, &str); 3] =
    [("", ""), ("/versions/{version}", "_of_version"), ("/labels/{label}", "_of_label")];

/// All of them. `metrics` is the address of metrics with TensorFlow Serving's names.
pub fn routes(metrics: Option<&str>) -> Vec<Route> {
    let mut routes: Vec<Route> = VERSIONS.into_iter().flat_map(below).collect();
    if let Some(path) = metrics {
        let summary = "Metrics with TensorFlow Serving's names";
        routes.push(FAMILY.get("tensorflow_metrics", path.to_owned(), summary).gives(METRICS));
    }
    routes
}

/// The addresses of a model, whose version stands there so.
fn below((version, of): (&str, &str)) -> [Route; 5] {
    let path = |rest: &str| format!("/v1/models/{{model}}{version}{rest}");
    let name = |name: &str| format!("{name}{of}");
    let mut predict = FAMILY
        .post(name("tensorflow_predict"), path(":predict"), "Inference with rows or columns")
        .takes(ROWS)
        .gives(PREDICTIONS);
    predict.of_model = version.is_empty().then_some(described::predict);
    [
        predict,
        FAMILY
            .post(name("tensorflow_classify"), path(":classify"), "Classes of examples")
            .takes(EXAMPLES)
            .gives(RESULTS),
        FAMILY
            .post(name("tensorflow_regress"), path(":regress"), "Numbers of examples")
            .takes(EXAMPLES)
            .gives(RESULTS),
        FAMILY.get(name("tensorflow_version_states"), path(""), "States of versions").gives(STATES),
        FAMILY
            .get(name("tensorflow_signatures"), path("/metadata"), "Signatures")
            .gives(SIGNATURES),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{TensorFlowServing, route::Operation};
    use formats::tfs::Method;
    use frontend::http::{
        address::RequestHead,
        listing::{misled, sample},
        protocol::Protocol,
    };
    use hyper::HeaderMap;

    /// The name of every kind of operation; one that is new belongs among [`KINDS`], too.
    fn kind(operation: &Operation<'_>) -> &'static str {
        match operation {
            Operation::Apply(Method::Predict, _) => "predict",
            Operation::Apply(Method::Classify, _) => "classify",
            Operation::Apply(Method::Regress, _) => "regress",
            Operation::Status(_) => "status",
            Operation::Metadata(_) => "metadata",
            Operation::Metrics => "metrics",
        }
    }

    const KINDS: usize = 6;

    #[test]
    fn every_listed_route_is_taken_and_every_operation_is_listed() {
        let protocol = TensorFlowServing { metrics_path: Some("/monitoring/metrics".into()) };
        assert_eq!(misled(&protocol), [""; 0]);
        let headers = HeaderMap::new();
        let routes = protocol.routes();
        let kinds = routes.iter().map(|it| {
            let path = sample(it);
            kind(&protocol.route(&RequestHead::new(&it.method, &path, &headers)).unwrap().unwrap())
        });
        assert_eq!(kinds.collect::<BTreeSet<_>>().len(), KINDS);
        let without = TensorFlowServing { metrics_path: None };
        assert_eq!(without.routes().len() + 1, routes.len());
    }
}
