//! Every address of SageMaker's containers as documents list them.

use hyper::Method;

use frontend::{
    exchange::rendering::Rendering,
    http::{
        respond,
        routes::{Content, Family, Route, Schema},
    },
};

const FAMILY: &Family =
    &Family { name: "SageMaker", failure: respond::FAILURE, status: Rendering::status_of };

/// The models of a multi-model endpoint, whose failures have the keys of the Multi Model Server.
const ENDPOINTS: &Family = &Family {
    name: "SageMaker multi-model endpoints",
    failure: Schema {
        name: "EndpointFailure",
        json: r#"{"type":"object","required":["code","type","message"],"properties":{"code":{"type":"integer"},
            "type":{"type":"string"},"message":{"type":"string"},"error":{"type":"string"},
            "request_id":{"type":"string"}}}"#,
    },
    status: Rendering::status_of,
};

pub const ANY_JSON: Content = Content::json(Schema { name: "AnyJson", json: "{}" });

pub const BODIES: &[Content] = &[
    ANY_JSON,
    Content::of("application/jsonlines"),
    Content::of("text/csv"),
    Content::of("text/libsvm"),
    Content::of("application/x-npy"),
    Content::of("application/x-recordio-protobuf"),
    Content::of("application/octet-stream"),
    Content::of("image/jpeg"),
    Content::of("audio/wav"),
];

pub const REPLIES: &[Content] = &[
    ANY_JSON,
    Content::of("application/jsonlines"),
    Content::of("text/csv"),
    Content::of("application/x-npy"),
];

const HEADERS: &[(&str, &str)] = &[
    (
        "X-Amzn-SageMaker-Target-Model",
        "The model; needed where there are several without a default",
    ),
    ("X-Amzn-SageMaker-Session-Id", "NEW_SESSION, or a session that is open"),
];

const TEXT: &[Content] = &[Content::of("text/plain")];

const PARAMETERS: &[Content] = &[Content::json(Schema {
    name: "ExecutionParameters",
    json: r#"{"type":"object","properties":{"MaxConcurrentTransforms":{"type":"integer"},
        "BatchStrategy":{"type":"string"},"MaxPayloadInMB":{"type":"integer"}}}"#,
})];

const LOAD: &[Content] = &[Content::json(Schema {
    name: "EndpointLoad",
    json: r#"{"type":"object","required":["model_name","url"],"properties":{
        "model_name":{"type":"string"},"url":{"type":"string"}}}"#,
})];

/// All of them.
pub fn routes() -> Vec<Route> {
    let invoke = "Inference, in the format of the content type";
    vec![
        FAMILY.get("ping", "/ping", "May the platform send requests?"),
        FAMILY.post("post_ping", "/ping", "The same"),
        FAMILY.get("health", "/health", "The same, as MLflow asks"),
        FAMILY.get("version", "/version", "The server's version").gives(TEXT),
        FAMILY
            .post("invocations", "/invocations", invoke)
            .takes(BODIES)
            .gives(REPLIES)
            .headers(HEADERS),
        FAMILY.get(
            "invocations_stream",
            "/invocations-bidirectional-stream",
            "Opens a WebSocket for inference",
        ),
        FAMILY
            .get(
                "execution_parameters",
                "/execution-parameters",
                "How batch transform sends records",
            )
            .gives(PARAMETERS),
        ENDPOINTS
            .post("predict", "/predictions/{model}", "The same of a model, as TorchServe has it")
            .takes(BODIES)
            .gives(REPLIES),
        ENDPOINTS
            .post("predict_version", "/predictions/{model}/{version}", "The same of a version")
            .takes(BODIES)
            .gives(REPLIES),
        ENDPOINTS.get("endpoint_models", "/models", "The loaded models").gives(&[ANY_JSON]),
        ENDPOINTS
            .post("load_endpoint_model", "/models", "Loads a model")
            .takes(LOAD)
            .gives(&[ANY_JSON]),
        ENDPOINTS.get("endpoint_model", "/models/{key}", "A loaded model").gives(&[ANY_JSON]),
        ENDPOINTS
            .get("unload_endpoint_model", "/models/{key}", "Unloads a model")
            .by(Method::DELETE)
            .gives(&[ANY_JSON]),
        ENDPOINTS
            .post("invoke_endpoint_model", "/models/{key}/invoke", invoke)
            .takes(BODIES)
            .gives(REPLIES),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        operation::{MultiModelPath, Operation},
        route::route,
    };
    use frontend::http::{address::RequestHead, listing::sample};
    use hyper::HeaderMap;

    /// The name of every kind of operation; one that is new belongs among [`KINDS`], too.
    fn kind(operation: &Operation<'_>) -> &'static str {
        match operation {
            Operation::Ping => "ping",
            Operation::Invocations => "invocations",
            Operation::InvocationsStream => "stream",
            Operation::ExecutionParameters => "parameters",
            Operation::MultiModel(MultiModelPath::Load) => "load",
            Operation::MultiModel(MultiModelPath::List) => "list",
            Operation::MultiModel(MultiModelPath::Describe(_)) => "describe",
            Operation::MultiModel(MultiModelPath::Unload(_)) => "unload",
            Operation::MultiModel(MultiModelPath::Invoke(_)) => "invoke",
            Operation::Predictions(..) => "predictions",
            Operation::Version => "version",
            Operation::Runtime(..) => "runtime",
        }
    }

    /// Without the runtime, whose addresses are compared by themselves.
    const KINDS: usize = 11;

    #[test]
    fn every_listed_route_is_taken_and_every_operation_is_listed() {
        let headers = HeaderMap::new();
        let mut kinds = BTreeSet::new();
        for it in routes() {
            let path = sample(&it);
            let operation = route(&RequestHead::new(&it.method, &path, &headers)).unwrap();
            kinds.insert(kind(&operation.unwrap_or_else(|| panic!("{path}"))));
        }
        assert_eq!(kinds.len(), KINDS);
    }
}
