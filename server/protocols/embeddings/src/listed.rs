//! Every address of servers of texts, images and sounds, as documents list them.

use hyper::Method;

use crate::{
    described, failure,
    operation::{Family as Clients, Operation},
    route::{ADDRESSES, Address},
};
use frontend::http::{
    respond,
    routes::{Content, Family, Route, Schema},
};

const OPENAI: &Family = &Family {
    name: "OpenAI",
    failure: Schema {
        name: "OpenAiFailure",
        json: r#"{"type":"object","required":["error"],"properties":{"error":{"type":"object",
            "required":["message","type"],"properties":{"message":{"type":"string"},"type":{"type":"string"},
            "param":{"type":["string","null"]},"code":{"type":["string","null"]}}}}}"#,
    },
    status: failure::status_of_openai,
};

const TEI: &Family = &Family {
    name: "Text Embeddings Inference",
    failure: Schema {
        name: "TextFailure",
        json: r#"{"type":"object","required":["error","error_type"],"properties":{
            "error":{"type":"string"},"error_type":{"type":"string"}}}"#,
    },
    status: failure::status_of_tei,
};

const RERANK: &Family = &Family {
    name: "Cohere and Jina",
    failure: Schema {
        name: "RerankFailure",
        json: r#"{"type":"object","required":["message"],"properties":{
            "message":{"type":"string"},"detail":{"type":"string"}}}"#,
    },
    status: failure::status_of_openai,
};

const HUB: &Family =
    &Family { name: "Hugging Face", failure: respond::FAILURE, status: failure::status_of_hub };

/// Texts of Text Embeddings Inference, one or several.
const TEXTS: &[Content] = &[Content::json(Schema {
    name: "TextsRequest",
    json: r#"{"type":"object","required":["inputs"],"properties":{
        "inputs":{"anyOf":[{"type":"string"},{"type":"array","items":{}}]},
        "truncate":{"type":"boolean"},"truncation_direction":{"type":"string"},
        "prompt_name":{"type":"string"},"normalize":{"type":"boolean"},"dimensions":{"type":"integer"},
        "raw_scores":{"type":"boolean"}}}"#,
})];

const PIPELINE: &[Content] = &[
    Content::json(Schema {
        name: "PipelineRequest",
        json: r#"{"type":"object","properties":{"inputs":{},
            "parameters":{"type":"object","additionalProperties":true}}}"#,
    }),
    Content::of("image/jpeg"),
    Content::of("audio/wav"),
];

const ANY_JSON: &[Content] = &[Content::json(Schema { name: "AnyJson", json: "{}" })];

const VECTORS: &[Content] = &[Content::json(Schema {
    name: "Vectors",
    json: r#"{"type":"array","items":{"type":"array","items":{"type":"number"}}}"#,
})];

const LISTS: &[Content] =
    &[Content::json(Schema { name: "Lists", json: r#"{"type":"array","items":{}}"# })];

const OBJECT: &[Content] = &[Content::json(Schema {
    name: "Object",
    json: r#"{"type":"object","additionalProperties":true}"#,
})];

const EMBEDDINGS: &[Content] = &[Content::json(Schema {
    name: "EmbeddingsRequest",
    json: r#"{"type":"object","required":["input"],"properties":{"model":{"type":"string"},
        "input":{"anyOf":[{"type":"string"},{"type":"array","items":{}}]},
        "encoding_format":{"type":"string","enum":["float","base64"]},"dimensions":{"type":"integer"},
        "user":{"type":"string"}}}"#,
})];

const EMBEDDED: &[Content] = &[Content::json(Schema {
    name: "EmbeddingsReply",
    json: r#"{"type":"object","required":["object","data","model","usage"],"properties":{
        "object":{"type":"string"},"model":{"type":"string"},"usage":{"type":"object","additionalProperties":true},
        "data":{"type":"array","items":{"type":"object","properties":{"object":{"type":"string"},
            "index":{"type":"integer"},
            "embedding":{"anyOf":[{"type":"array","items":{"type":"number"}},{"type":"string"}]}}}}}}"#,
})];

const MODELS: &[Content] = &[Content::json(Schema {
    name: "ListedModels",
    json: r#"{"type":"object","required":["object","data"],"properties":{"object":{"type":"string"},
        "data":{"type":"array","items":{"type":"object","required":["id"],"properties":{"id":{"type":"string"},
            "object":{"type":"string"},"created":{"type":"integer"},"owned_by":{"type":"string"},
            "tasks":{"type":"array","items":{"type":"string"}}}}},
        "models":{"type":"array","items":{"type":"string"}},
        "try":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
})];

const DOCUMENTS: &[Content] = &[Content::json(Schema {
    name: "RerankRequest",
    json: r#"{"type":"object","required":["query"],"properties":{"model":{"type":"string"},
        "query":{"type":"string"},"documents":{"type":"array","items":{}},
        "texts":{"type":"array","items":{"type":"string"}},"top_n":{"type":"integer"},
        "return_documents":{"type":"boolean"},"raw_scores":{"type":"boolean"},
        "max_tokens_per_doc":{"type":"integer"}}}"#,
})];

const PAIRS: &[Content] = &[Content::json(Schema {
    name: "ScoreRequest",
    json: r#"{"type":"object","required":["text_1","text_2"],"properties":{"model":{"type":"string"},
        "text_1":{},"text_2":{}}}"#,
})];

const CLASSIFY: &[Content] = &[Content::json(Schema {
    name: "ClassifyRequest",
    json: r#"{"type":"object","required":["input"],"properties":{"model":{"type":"string"},
        "input":{"type":"array","items":{"type":"string"}},"raw_scores":{"type":"boolean"}}}"#,
})];

/// What is asked for, what it takes and what it gives.
fn bodies(operation: Operation) -> (&'static str, &'static [Content], &'static [Content]) {
    match operation {
        Operation::Embeddings => ("A vector for each text", EMBEDDINGS, EMBEDDED),
        Operation::ListModels => ("The models of texts, images and sounds", &[], MODELS),
        Operation::Embed => ("A vector for each text", TEXTS, VECTORS),
        Operation::EmbedAll => ("A vector for each token", TEXTS, LISTS),
        Operation::EmbedSparse => ("A sparse vector for each text", TEXTS, LISTS),
        Operation::Predict => ("Classes of texts", TEXTS, LISTS),
        Operation::Similarity => ("How like a text others are", PIPELINE, LISTS),
        Operation::Tokenize => ("Tokens of texts", OBJECT, LISTS),
        Operation::Decode => ("Texts of tokens", OBJECT, LISTS),
        Operation::Info => ("What the model is, and its bounds", &[], OBJECT),
        Operation::Generate => ("Always 501: no text is written here", OBJECT, &[]),
        Operation::ByTask => ("A body for the model's task", OBJECT, ANY_JSON),
        Operation::Vertex => ("Several bodies in one", OBJECT, OBJECT),
        Operation::Rerank => ("Texts by how they fit a query", DOCUMENTS, ANY_JSON),
        Operation::RerankV1 | Operation::RerankV2 => {
            ("Documents by how they fit a query", DOCUMENTS, OBJECT)
        }
        Operation::Classify => ("Classes of texts", CLASSIFY, OBJECT),
        Operation::Score => ("A score for each pair of texts", PAIRS, OBJECT),
        Operation::Hub(_) => ("A text, an image or a sound", PIPELINE, ANY_JSON),
    }
}

/// All of them, at `/` those of Text Embeddings Inference or of the hub.
pub fn routes(tei_root: bool) -> Vec<Route> {
    let by_itself = ADDRESSES.iter().map(|it| at(it, ""));
    let below = ADDRESSES.iter().flat_map(|it| at(it, "/v2/models/{model}").and_of_versions());
    let root = match tei_root {
        true => of(Operation::ByTask, "root".to_owned(), "/".to_owned()),
        false => pipeline("hub", "/"),
    };
    let hub = [
        ("hub_pipeline", "/pipeline"),
        ("hub_task", "/pipeline/{task}"),
        ("hub_task_of_model", "/pipeline/{task}/{model}"),
    ];
    let below_hub = [
        pipeline("model_hub", "/v2/models/{model}"),
        pipeline("pipeline", "/v2/models/{model}/pipeline").of_model(described::pipeline),
        pipeline("pipeline_task", "/v2/models/{model}/pipeline/{task}"),
    ];
    let hub = hub.into_iter().map(|(name, path)| pipeline(name, path));
    let hub = std::iter::once(root)
        .chain(hub)
        .chain(below_hub.into_iter().flat_map(Route::and_of_versions));
    by_itself.chain(below).chain(hub).collect()
}

fn at(address: &Address, below: &str) -> Route {
    let path = format!("{below}/{}", address.path.join("/"));
    let of_model = if below.is_empty() { "" } else { "model_" };
    let name = format!("{of_model}{}", address.path.join("_"));
    of(address.operation, name, path)
}

fn pipeline(name: &str, path: &str) -> Route {
    of(Operation::Hub(None), name.to_owned(), path.to_owned())
}

fn of(operation: Operation, name: String, path: String) -> Route {
    let family = match operation.family_and_need().0 {
        Clients::OpenAi => OPENAI,
        Clients::TextEmbeddingsInference => TEI,
        Clients::Rerank => RERANK,
        Clients::HuggingFace => HUB,
    };
    let (summary, takes, gives) = bodies(operation);
    let method = if takes.is_empty() { Method::GET } else { Method::POST };
    family.post(name, path, summary).by(method).takes(takes).gives(gives)
}

#[cfg(test)]
mod tests {
    use crate::{Embeddings, settings::TextSettings};
    use frontend::http::{listing::misled, protocol::Protocol};

    #[test]
    fn every_listed_route_is_taken_at_every_address() {
        for tei_root in [false, true] {
            let settings = TextSettings {
                served_model_name: None,
                truncates: true,
                tei_root,
                tei_batch_status: 422,
            };
            let protocol = Embeddings { settings: settings.into() };
            assert_eq!(misled(&protocol), [""; 0]);
            assert_eq!(protocol.routes().len(), 3 * super::ADDRESSES.len() + 4 + 6);
        }
    }
}
