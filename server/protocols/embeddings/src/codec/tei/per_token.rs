//! `/embed_all` and `/embed_sparse`: a vector for each token of a text, or a sparse one for each text.

use std::sync::Arc;

use super::{inputs, results};
use crate::codec::{cost::TextCost, terms::Terms, texts};
use formats::EncodedReply;
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
    task::{RESULT, Task},
};

/// What the reply needs of its request.
#[derive(Debug, Clone)]
pub struct PerTokenFormat {
    cost: TextCost,
}

/// `{"inputs", "truncate"?, "truncation_direction"?, "prompt_name"?}` of `/embed_all`.
///
/// # Errors
/// What is wrong with it.
pub fn decode_all(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, PerTokenFormat), Error> {
    decode(Task::FeatureExtraction, signature, terms, body, grant)
}

/// The same of `/embed_sparse`.
///
/// # Errors
/// What is wrong with it.
pub fn decode_sparse(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, PerTokenFormat), Error> {
    decode(Task::SparseEmbedding, signature, terms, body, grant)
}

fn decode(
    task: Task,
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, PerTokenFormat), Error> {
    let (texts, parameters) = inputs::read_texts(signature, &terms, &["prompt_name"], body, grant)?;
    let cost = TextCost { characters: texts.characters, terms };
    let request = texts::request(task, vec![texts.input], &[RESULT], parameters);
    Ok((request, PerTokenFormat { cost }))
}

/// `[[[..]]]`: for each text a vector for each token.
///
/// # Errors
/// When the response does not say it.
pub fn encode_all(
    format: &PerTokenFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|_| results::joined(response))?;
    let rows = results::rows(response)?;
    // Each row is a list of one text.
    let rows = rows.into_iter();
    let texts = rows.filter_map(|it| it.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]")));
    let texts: Vec<&[u8]> = texts.collect();
    format.cost.reply(results::list(&texts), response)
}

/// `[[{"index","value"}]]`: for each text the values above zero.
///
/// # Errors
/// When the response does not say it.
pub fn encode_sparse(
    format: &PerTokenFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|_| results::joined(response))?;
    let rows = results::rows(response)?;
    format.cost.reply(results::list(&rows), response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{NamedTensor, Shape, Tensor};
    use formats::samples;
    use inference::task::TOKENS;

    fn encode_sparse(
        format: &PerTokenFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode_sparse(format, signature, response, &Grant::all(0))
    }

    fn encode_all(
        format: &PerTokenFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode_all(format, signature, response, &Grant::all(0))
    }

    fn response(rows: &[&str]) -> InferenceResponse {
        let result = Tensor::from_strings(Shape::new(&[rows.len(), 1]), rows).unwrap();
        let mut response = samples::only(RESULT, result);
        let tokens = Tensor::from_vec(Shape::new(&[1, 1]), vec![4i64]).unwrap();
        response.outputs.push(NamedTensor { name: TOKENS.into(), tensor: tokens });
        response
    }

    #[test]
    fn texts_are_lists_of_their_tokens() {
        let signature = samples::model(3, &["text BYTES [1]"], &[]);
        let terms = Arc::new(crate::codec::terms::sample());
        let body = br#"{"inputs":["a","b"],"prompt_name":"query","normalize":true}"#;
        let (request, format) =
            decode_all(&signature, terms.clone(), body, samples::grant()).unwrap();
        assert_eq!(request.task, Some(Task::FeatureExtraction));
        let names: Vec<&str> = request.parameters.iter().map(|it| &*it.0).collect();
        assert_eq!(names, ["prompt_name", "truncate"]);
        let two = response(&["[[[1.0],[2.0]]]", "[[[3.0]]]"]);
        let reply = encode_all(&format, &signature, &two).unwrap();
        assert_eq!(samples::body(&reply), "[[[1.0],[2.0]],[[3.0]]]");
        let (request, format) = decode_sparse(&signature, terms, body, samples::grant()).unwrap();
        assert_eq!(request.task, Some(Task::SparseEmbedding));
        let one = response(&["[{\"index\":1,\"value\":0.5}]"]);
        let reply = encode_sparse(&format, &signature, &one).unwrap();
        assert_eq!(samples::body(&reply), "[[{\"index\":1,\"value\":0.5}]]");
    }
}
