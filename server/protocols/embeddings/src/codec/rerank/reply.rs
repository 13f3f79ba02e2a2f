//! Rankings, in the form of the server that was asked.

use backend::Tensor;

use super::{
    documents::texts_of,
    ranking::{best, scores},
};
use crate::codec::{cost::TextCost, reply_id, usage};
use formats::{
    EncodedReply,
    json::write,
    reply_size::{self, TextForm},
    vectors,
};
use inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};

/// Whose body it is, and whose reply is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Cohere's second version.
    CohereV2,
    /// Cohere's first version, Jina, infinity, vLLM.
    V1,
    /// Text Embeddings Inference.
    Tei,
}

impl Style {
    /// The key of the documents in a body.
    pub(super) fn list(self) -> &'static str {
        match self {
            Style::CohereV2 | Style::V1 => "documents",
            Style::Tei => "texts",
        }
    }
}

/// What a reply needs of its request.
#[derive(Debug, Clone)]
pub struct RerankFormat {
    pub(super) style: Style,
    /// Most documents of the reply.
    pub(super) most: Option<usize>,
    /// The documents, where the reply repeats them.
    pub(super) documents: Option<Tensor>,
    /// Does the model compare vectors, and give no score for a pair?
    pub(super) is_by_vectors: bool,
    pub(super) cost: TextCost,
}

impl RerankFormat {
    /// Bytes that the documents in the reply take at most.
    pub fn repeated(&self) -> usize {
        self.documents.as_ref().map_or(0, write::text_length)
    }
}

/// What a reply says of a model that compares vectors.
const BY_VECTORS: &str =
    "the model gives embeddings: documents are ranked by the cosine of theirs and the query's";

/// The ranking.
///
/// # Errors
/// When the response has no scores.
pub fn encode(
    format: &RerankFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| {
        let scores = reply_size::of_response(response, TextForm::LABELLED, loose);
        scores.saturating_add(format.repeated())
    })?;
    let tokens = vectors::tokens(response)?;
    let ranking = best(&scores(response)?, format.most);
    let mut out = Vec::new();
    match format.style {
        Style::Tei => list(&mut out, format, &ranking),
        Style::CohereV2 => {
            head(&mut out);
            results(&mut out, format, &ranking);
            meta(&mut out, format, "2");
            out.push(b'}');
        }
        Style::V1 => {
            head(&mut out);
            write::key(&mut out, "model");
            write::string(&mut out, &format.cost.terms.shown_name);
            write::key(&mut out, "object");
            write::string(&mut out, "rerank");
            results(&mut out, format, &ranking);
            usage::write(&mut out, tokens);
            meta(&mut out, format, "1");
            out.push(b'}');
        }
    }
    format.cost.reply(out, response)
}

fn head(out: &mut Vec<u8>) {
    out.push(b'{');
    write::key(out, "id");
    write::string(out, &reply_id::new());
}

/// `"results": [{"index","relevance_score","document"?}]`.
fn results(out: &mut Vec<u8>, format: &RerankFormat, ranking: &[(usize, f32)]) {
    write::key(out, "results");
    ranked(out, format, ranking, "relevance_score", |out, text| {
        write::key(out, "document");
        out.push(b'{');
        write::key(out, "text");
        write::string(out, text);
        out.push(b'}');
    });
}

/// `[{"index","score","text"?}]`.
fn list(out: &mut Vec<u8>, format: &RerankFormat, ranking: &[(usize, f32)]) {
    ranked(out, format, ranking, "score", |out, text| {
        write::key(out, "text");
        write::string(out, text);
    });
}

/// A list of objects, each with an index, a score under that key, and the document where the reply repeats it.
fn ranked(
    out: &mut Vec<u8>,
    format: &RerankFormat,
    ranking: &[(usize, f32)],
    score_key: &str,
    write_document: impl Fn(&mut Vec<u8>, &str),
) {
    out.push(b'[');
    let documents = texts_of(format.documents.as_ref());
    for &(index, score) in ranking {
        write::item(out);
        out.push(b'{');
        write::key(out, "index");
        write::number(out, index as u64);
        write::key(out, score_key);
        write::number(out, score);
        if let Some(text) = documents.get(index) {
            write_document(out, text);
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// `"meta": {"api_version","billed_units","warnings"?}`.
fn meta(out: &mut Vec<u8>, format: &RerankFormat, version: &str) {
    write::key(out, "meta");
    out.extend_from_slice(b"{\"api_version\":{\"version\":");
    write::string(out, version);
    out.extend_from_slice(b"},\"billed_units\":{\"search_units\":1}");
    if format.is_by_vectors {
        write::key(out, "warnings");
        out.push(b'[');
        write::string(out, BY_VECTORS);
        out.push(b']');
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use backend::{NamedTensor, Shape};
    use formats::samples;
    use inference::task::{SCORE, TOKENS};

    fn encode(
        format: &RerankFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(format, signature, response, &Grant::all(0))
    }

    fn format(style: Style) -> RerankFormat {
        let documents = Tensor::from_strings(Shape::new(&[1, 2]), ["a", "b \"c\""]).unwrap();
        RerankFormat {
            style,
            most: None,
            documents: Some(documents),
            is_by_vectors: false,
            cost: TextCost { characters: 3, terms: Arc::new(crate::codec::terms::sample()) },
        }
    }

    /// What is said of two documents, without the part that differs each time.
    fn says(format: &RerankFormat) -> String {
        let scores = Tensor::from_vec(Shape::new(&[1, 2]), vec![0.25f32, 0.5]).unwrap();
        let mut response = samples::only(SCORE, scores);
        let tensor = Tensor::from_vec(Shape::new(&[1, 1]), vec![9i64]).unwrap();
        response.outputs.push(NamedTensor { name: TOKENS.into(), tensor });
        let reply = encode(format, &samples::model(1, &[], &[]), &response).unwrap();
        assert!(reply.headers.contains(&("x-compute-tokens", "9".to_owned())));
        let text = samples::body(&reply);
        match text.strip_prefix("{\"id\":\"") {
            Some(rest) => format!("{{{}", rest.split_once("\",").unwrap().1),
            None => text,
        }
    }

    #[test]
    fn each_server_has_its_form() {
        let expected = r#"{"model":"m","object":"rerank","results":[{"index":1,"relevance_score":0.5,"document":{"text":"b \"c\""}},{"index":0,"relevance_score":0.25,"document":{"text":"a"}}],"usage":{"prompt_tokens":9,"total_tokens":9},"meta":{"api_version":{"version":"1"},"billed_units":{"search_units":1}}}"#;
        assert_eq!(says(&format(Style::V1)), expected);
        let short = RerankFormat { most: Some(1), documents: None, ..format(Style::CohereV2) };
        let expected = r#"{"results":[{"index":1,"relevance_score":0.5}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}"#;
        assert_eq!(says(&short), expected);
        let expected =
            r#"[{"index":1,"score":0.5,"text":"b \"c\""},{"index":0,"score":0.25,"text":"a"}]"#;
        assert_eq!(says(&format(Style::Tei)), expected);
    }

    #[test]
    fn a_ranking_by_vectors_says_so() {
        let text = says(&RerankFormat { is_by_vectors: true, ..format(Style::CohereV2) });
        let warnings =
            r#","warnings":["the model gives embeddings: documents are ranked by the cosine"#;
        assert!(text.contains(warnings), "{text}");
    }
}
