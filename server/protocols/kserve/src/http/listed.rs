//! Every address of KServe v2 and of Triton's extensions, as documents list them.

use super::described;
use frontend::{
    exchange::rendering::Rendering,
    http::{
        respond,
        routes::{Content, Family, Route, Schema},
    },
};

const FAMILY: &Family =
    &Family { name: "KServe v2", failure: respond::FAILURE, status: Rendering::status_of };

const TEXT: &[Content] = &[Content::of("text/plain")];
const OBJECTS: &[Content] = &[Content::json(Schema {
    name: "Object",
    json: r#"{"type":"object","additionalProperties":true}"#,
})];
const LISTS: &[Content] = &[Content::json(Schema {
    name: "Objects",
    json: r#"{"type":"array","items":{"type":"object","additionalProperties":true}}"#,
})];

const SERVER: &[Content] = &[Content::json(Schema {
    name: "ServerMetadata",
    json: r#"{"type":"object","required":["name","version","extensions"],"properties":{
        "name":{"type":"string"},"version":{"type":"string"},
        "extensions":{"type":"array","items":{"type":"string"}}}}"#,
})];

const MODELS: &[Content] = &[Content::json(Schema {
    name: "ServedModels",
    json: r#"{"type":"object","required":["models"],"properties":{
        "models":{"type":"array","items":{"type":"string"}},
        "try":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
})];

const MODEL: &[Content] = &[Content::json(Schema {
    name: "ModelMetadata",
    json: r#"{"type":"object","required":["name","versions","platform","inputs","outputs"],"properties":{
        "name":{"type":"string"},"versions":{"type":"array","items":{"type":"string"}},
        "platform":{"type":"string"},
        "inputs":{"type":"array","items":{"type":"object","required":["name","datatype","shape"],
            "properties":{"name":{"type":"string"},"datatype":{"type":"string"},
            "shape":{"type":"array","items":{"type":"integer"}}}}},
        "outputs":{"type":"array","items":{"type":"object","required":["name","datatype","shape"],
            "properties":{"name":{"type":"string"},"datatype":{"type":"string"},
            "shape":{"type":"array","items":{"type":"integer"}}}}},
        "parameters":{"type":"object","additionalProperties":true}}}"#,
})];

const INDEX: &[Content] = &[Content::json(Schema {
    name: "RepositoryIndex",
    json: r#"{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},
        "version":{"type":"string"},"state":{"type":"string"},"reason":{"type":"string"}}}}"#,
})];

const WHICH: &[Content] = &[Content::json(Schema {
    name: "RepositoryIndexRequest",
    json: r#"{"type":"object","properties":{"ready":{"type":"boolean"}}}"#,
})];

/// What a load and an unload take.
const CONTROL: &[Content] = &[Content::json(Schema {
    name: "ControlRequest",
    json: r#"{"type":"object","properties":{"parameters":{"type":"object","additionalProperties":true}}}"#,
})];

const REQUEST: &[Content] = &[
    Content::json(Schema {
        name: "InferRequest",
        json: r#"{"type":"object","required":["inputs"],"properties":{"id":{"type":"string"},
            "parameters":{"type":"object","additionalProperties":true},
            "inputs":{"type":"array","items":{"type":"object","required":["name","shape","datatype"],"properties":{
                "name":{"type":"string"},"shape":{"type":"array","items":{"type":"integer"}},
                "datatype":{"type":"string"},"parameters":{"type":"object","additionalProperties":true},
                "data":{"type":"array","items":{}}}}},
            "outputs":{"type":"array","items":{"type":"object","required":["name"],"properties":{
                "name":{"type":"string"},"parameters":{"type":"object","additionalProperties":true}}}}}}"#,
    }),
    BINARY,
];

const REPLY: &[Content] = &[
    Content::json(Schema {
        name: "InferReply",
        json: r#"{"type":"object","required":["model_name","model_version","outputs"],"properties":{
            "model_name":{"type":"string"},"model_version":{"type":"string"},"id":{"type":"string"},
            "outputs":{"type":"array","items":{"type":"object","required":["name","shape","datatype"],"properties":{
                "name":{"type":"string"},"shape":{"type":"array","items":{"type":"integer"}},
                "datatype":{"type":"string"},"parameters":{"type":"object","additionalProperties":true},
                "data":{"type":"array","items":{}}}}}}}"#,
    }),
    BINARY,
];

/// JSON with the tensors behind it.
const BINARY: Content = Content::of("application/octet-stream");

const EVENTS: &[Content] = &[Content::of("text/event-stream")];

const LENGTH: &[(&str, &str)] =
    &[("Inference-Header-Content-Length", "Bytes of JSON in front of binary tensors")];

/// All of them.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = vec![
        FAMILY.get("index", "/", "The addresses and the models, in words").gives(TEXT),
        FAMILY
            .get("server_metadata", "/v2", "The server's name, version and extensions")
            .gives(SERVER),
        FAMILY.get("server_live", "/v2/health/live", "Is the server alive?"),
        FAMILY.get("server_ready", "/v2/health/ready", "Is the server ready?"),
        FAMILY
            .get("list_models", "/v2/models", "The models that serve, with a line to paste")
            .gives(MODELS),
    ];
    let of_models = [
        FAMILY
            .get("model_metadata", "/v2/models/{model}", "Inputs and outputs of a model")
            .gives(MODEL),
        FAMILY.get("model_ready", "/v2/models/{model}/ready", "Is the model ready?"),
        FAMILY.get("model_health", "/v2/models/{model}/health", "Is the model ready?"),
        FAMILY
            .get("model_config", "/v2/models/{model}/config", "The completed configuration")
            .gives(OBJECTS),
        FAMILY
            .get("model_statistics", "/v2/models/{model}/stats", "Statistics of a model")
            .gives(OBJECTS),
        FAMILY
            .post("infer", "/v2/models/{model}/infer", "Inference with tensors")
            .takes(REQUEST)
            .gives(REPLY)
            .headers(LENGTH)
            .of_model(described::infer),
        FAMILY
            .post("generate", "/v2/models/{model}/generate", "Inference with a flat object")
            .takes(OBJECTS)
            .gives(OBJECTS),
        FAMILY
            .post(
                "generate_stream",
                "/v2/models/{model}/generate_stream",
                "The same, answered as an event",
            )
            .takes(OBJECTS)
            .gives(EVENTS),
    ];
    routes.extend(of_models.into_iter().flat_map(Route::and_of_versions));
    routes.extend(extensions());
    routes.extend(["system", "cuda"].into_iter().flat_map(memory));
    routes
}

/// Statistics, settings and the repository.
fn extensions() -> Vec<Route> {
    let (trace, of_model) = ("/v2/trace/setting", "/v2/models/{model}/trace/setting");
    let change = "Changes settings; null takes one back";
    vec![
        FAMILY.get("statistics", "/v2/models/stats", "Statistics of all models").gives(OBJECTS),
        FAMILY.get("trace_setting", trace, "Settings of traces").gives(OBJECTS),
        FAMILY.post("update_trace_setting", trace, change).takes(OBJECTS).gives(OBJECTS),
        FAMILY.get("model_trace_setting", of_model, "Settings of a model's traces").gives(OBJECTS),
        FAMILY.post("update_model_trace_setting", of_model, change).takes(OBJECTS).gives(OBJECTS),
        FAMILY.get("log_setting", "/v2/logging", "Settings of the log").gives(OBJECTS),
        FAMILY.post("update_log_setting", "/v2/logging", change).takes(OBJECTS).gives(OBJECTS),
        FAMILY
            .post(
                "repository_index",
                "/v2/repository/index",
                "All models, and why one is not ready",
            )
            .takes(WHICH)
            .gives(INDEX),
        FAMILY
            .post(
                "named_repository_index",
                "/v2/repository/{repository}/index",
                "The same; the name of the repository is ignored",
            )
            .takes(WHICH)
            .gives(INDEX),
        FAMILY
            .post("load_model", "/v2/repository/models/{model}/load", "Loads a model")
            .takes(CONTROL),
        FAMILY
            .post("unload_model", "/v2/repository/models/{model}/unload", "Unloads a model")
            .takes(CONTROL),
    ]
}

/// Regions of shared memory of that kind.
fn memory(kind: &str) -> Vec<Route> {
    let name = |action: &str| format!("{kind}_shared_memory_{action}");
    let path = |rest: &str| format!("/v2/{kind}sharedmemory/{rest}");
    let of_region = |action: &str| path(&format!("region/{{region}}/{action}"));
    vec![
        FAMILY.get(name("status"), path("status"), "All registered regions").gives(LISTS),
        FAMILY.get(name("region_status"), of_region("status"), "A registered region").gives(LISTS),
        FAMILY.post(name("register"), of_region("register"), "Registers a region").takes(OBJECTS),
        FAMILY.post(name("unregister_all"), path("unregister"), "Takes all regions off the list"),
        FAMILY.post(name("unregister"), of_region("unregister"), "Takes a region off the list"),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{KServe, Operation};
    use frontend::http::{
        address::RequestHead,
        listing::{misled, sample},
        protocol::Protocol,
    };
    use hyper::HeaderMap;

    /// The name of every kind of operation; one that is new belongs among [`KINDS`], too.
    fn kind(operation: &Operation<'_>) -> &'static str {
        match operation {
            Operation::Addresses => "addresses",
            Operation::Live => "live",
            Operation::Ready => "ready",
            Operation::ServerMetadata => "server",
            Operation::ListModels => "models",
            Operation::ModelMetadata(_) => "model",
            Operation::ModelReady(_) => "model ready",
            Operation::ModelConfig(_) => "config",
            Operation::Infer(_) => "infer",
            Operation::RepositoryIndex => "index",
            Operation::LoadModel(_) => "load",
            Operation::UnloadModel(_) => "unload",
            Operation::Generate(_) => "generate",
            Operation::GenerateStream(_) => "events",
            Operation::Statistics(_) => "statistics",
            Operation::TraceSetting(_) => "trace",
            Operation::Logging => "log",
            Operation::SharedMemory(_) => "memory",
        }
    }

    const KINDS: usize = 18;

    #[test]
    fn every_listed_route_is_taken_and_every_operation_is_listed() {
        assert_eq!(misled(&KServe), [""; 0]);
        let headers = HeaderMap::new();
        let routes = KServe.routes();
        let kinds = routes.iter().map(|it| {
            let path = sample(it);
            kind(&KServe.route(&RequestHead::new(&it.method, &path, &headers)).unwrap().unwrap())
        });
        assert_eq!(kinds.collect::<BTreeSet<_>>().len(), KINDS);
    }
}
