//! `/info`: what the server says of the model that answers.

use formats::{EncodedReply, json::write};

/// What is said of a model.
#[derive(Debug, Clone)]
pub struct Info<'a> {
    /// Its name.
    pub model: &'a str,
    /// What replies call it.
    pub shown_name: &'a str,
    /// The type that it computes with, as `float32`.
    pub dtype: &'a str,
    /// What it makes of texts.
    pub kind: ModelKind<'a>,
    /// Requests at the same time, at most.
    pub most_requests: usize,
    /// Tokens of a text, at most.
    pub most_tokens: usize,
    /// Tokens of a run, at most.
    pub most_batch_tokens: usize,
    /// Rows of a run, at most; `None` where it is not bounded.
    pub most_batch_rows: Option<usize>,
    /// Texts of a request, at most.
    pub most_texts: usize,
    /// Threads that make tokens.
    pub tokenizers: usize,
    /// Are texts that are too long cut where a request does not say?
    pub truncates: bool,
    /// Of the server.
    pub version: &'a str,
}

/// What a model makes of texts.
#[derive(Debug, Clone)]
pub enum ModelKind<'a> {
    /// A vector, pooled so.
    Embedding {
        /// How the vectors of tokens become one.
        pooling: &'a str,
    },
    /// A class of these.
    Classifier(Vec<&'a str>),
    /// A rank; the classes of its graph.
    Reranker(Vec<&'a str>),
    /// Something else, by the name of its task.
    Other(&'a str),
}

/// The reply.
pub fn write_info(info: &Info<'_>) -> EncodedReply {
    let mut out = b"{".to_vec();
    text(&mut out, "model_id", info.model);
    null(&mut out, "model_sha");
    text(&mut out, "model_dtype", info.dtype);
    text(&mut out, "served_model_name", info.shown_name);
    write::key(&mut out, "model_type");
    model_type(&mut out, &info.kind);
    number(&mut out, "max_concurrent_requests", info.most_requests);
    number(&mut out, "max_input_length", info.most_tokens);
    number(&mut out, "max_batch_tokens", info.most_batch_tokens);
    match info.most_batch_rows {
        Some(rows) => number(&mut out, "max_batch_requests", rows),
        None => null(&mut out, "max_batch_requests"),
    }
    number(&mut out, "max_client_batch_size", info.most_texts);
    write::key(&mut out, "auto_truncate");
    write::bool(&mut out, info.truncates);
    number(&mut out, "tokenization_workers", info.tokenizers);
    text(&mut out, "version", info.version);
    null(&mut out, "sha");
    null(&mut out, "docker_label");
    out.push(b'}');
    EncodedReply::json(out)
}

fn model_type(out: &mut Vec<u8>, kind: &ModelKind<'_>) {
    let key = match kind {
        ModelKind::Embedding { .. } => "embedding",
        ModelKind::Classifier(_) => "classifier",
        ModelKind::Reranker(_) => "reranker",
        ModelKind::Other(_) => "other",
    };
    out.push(b'{');
    write::key(out, key);
    out.push(b'{');
    match kind {
        ModelKind::Embedding { pooling } => text(out, "pooling", pooling),
        ModelKind::Classifier(labels) | ModelKind::Reranker(labels) => {
            write::key(out, "id2label");
            out.push(b'{');
            labels.iter().enumerate().for_each(|(id, label)| text(out, &id.to_string(), label));
            out.push(b'}');
            write::key(out, "label2id");
            out.push(b'{');
            labels.iter().enumerate().for_each(|(id, label)| number(out, label, id));
            out.push(b'}');
        }
        ModelKind::Other(task) => text(out, "task", task),
    }
    out.extend_from_slice(b"}}");
}

fn text(out: &mut Vec<u8>, key: &str, value: &str) {
    write::key(out, key);
    write::string(out, value);
}

fn number(out: &mut Vec<u8>, key: &str, value: usize) {
    write::key(out, key);
    write::number(out, value as u64);
}

fn null(out: &mut Vec<u8>, key: &str) {
    write::key(out, key);
    out.extend_from_slice(b"null");
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples::body;

    #[test]
    fn classes_stand_in_both_directions() {
        let info = Info {
            model: "m",
            shown_name: "n",
            dtype: "float32",
            kind: ModelKind::Classifier(vec!["NO", "YES"]),
            most_requests: 512,
            most_tokens: 48,
            most_batch_tokens: 384,
            most_batch_rows: None,
            most_texts: 32,
            tokenizers: 2,
            truncates: true,
            version: "1",
        };
        let text = body(&write_info(&info));
        let kind = r#""model_type":{"classifier":{"id2label":{"0":"NO","1":"YES"},"label2id":{"NO":0,"YES":1}}}"#;
        assert!(text.contains(kind), "{text}");
        let head =
            r#"{"model_id":"m","model_sha":null,"model_dtype":"float32","served_model_name":"n","#;
        assert!(text.starts_with(head), "{text}");
        assert!(text.ends_with(r#""version":"1","sha":null,"docker_label":null}"#), "{text}");
        let kind = ModelKind::Embedding { pooling: "mean" };
        let text = body(&write_info(&Info { kind, ..info }));
        assert!(text.contains(r#""model_type":{"embedding":{"pooling":"mean"}}"#), "{text}");
    }
}
