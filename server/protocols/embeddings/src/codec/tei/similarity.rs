//! `/similarity`: how like a text others are.

use std::sync::Arc;

use super::inputs;
use crate::codec::{
    cost::TextCost,
    terms::Terms,
    texts::{self, Column},
};
use formats::{
    EncodedReply,
    json::{JsonReader, Token},
    reply_size::{self, TextForm},
    vectors,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse, Parameter},
    signature::Signature,
    task::{SCORE, SENTENCES, SOURCE_SENTENCE, Task},
};

/// What the reply needs of its request.
#[derive(Debug, Clone)]
pub struct SimilarityFormat {
    cost: TextCost,
}

/// `{"inputs": {"source_sentence", "sentences"}, "parameters"?: {..}}`.
///
/// # Errors
/// What is wrong with it.
pub fn decode(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, SimilarityFormat), Error> {
    let most = signature.most_rows.unwrap_or(usize::MAX);
    let (mut source, mut sentences) = (None, None);
    let mut parameters = Vec::new();
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "inputs" => reader.object(|reader, key| match &*key {
                "source_sentence" => {
                    let mut column = Column::new(grant);
                    let text = texts::text(reader)?;
                    column.push(reader, &text)?;
                    source = Some(column);
                    Ok(())
                }
                "sentences" => {
                    sentences = Some(texts::column(reader, most)?);
                    Ok(())
                }
                _ => reader.skip_value(),
            }),
            "parameters" if reader.peek()? == Token::Null => reader.null(),
            "parameters" => reader.object(|reader, key| {
                inputs::read_known(reader, &key, &["prompt_name"], &mut parameters)
            }),
            _ => reader.skip_value(),
        })
    })?;
    let missing =
        |key: &str| Error::InvalidRequest(format!("inputs: expected the key '{key}', found none"));
    let source: Column<'_> = source.ok_or_else(|| missing("source_sentence"))?;
    let sentences: Column<'_> = sentences.ok_or_else(|| missing("sentences"))?;
    parameters.extend(inputs::truncation(&terms, &parameters));
    parameters.push(("similarity".into(), Parameter::Text("cosine".into())));
    let characters = source.characters + sentences.characters;
    let inputs = vec![source.finish(SOURCE_SENTENCE)?, sentences.finish_in(SENTENCES, 1)?];
    let request = texts::request(Task::SentenceSimilarity, inputs, &[SCORE], parameters);
    Ok((request, SimilarityFormat { cost: TextCost { characters, terms } }))
}

/// `[..]`: the cosine of each.
///
/// # Errors
/// When the response does not say it.
pub fn encode(
    format: &SimilarityFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| reply_size::of_response(response, TextForm::PLAIN, loose))?;
    let mut out = Vec::new();
    vectors::write_list(&mut out, &vectors::output(response, SCORE)?.to_bytes());
    format.cost.reply(out, response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{DataType, NamedTensor, Shape, Tensor};
    use formats::samples;
    use inference::task::TOKENS;

    fn encode(
        format: &SimilarityFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(format, signature, response, &Grant::all(0))
    }

    fn read(body: &str) -> Result<(InferenceRequest, SimilarityFormat), Error> {
        let inputs = ["source_sentence BYTES [1]", "sentences BYTES [-1]"];
        let signature = samples::model(3, &inputs, &[]);
        let terms = Terms { truncates: false, device: "gpu", ..crate::codec::terms::sample() };
        decode(&signature, Arc::new(terms), body.as_bytes(), samples::grant())
    }

    #[test]
    fn sentences_are_one_row_and_their_cosines_a_list() {
        let body = r#"{"inputs":{"source_sentence":"a","sentences":["b","c"]},"parameters":{"prompt_name":"q","x":1}}"#;
        let (request, format) = read(body).unwrap();
        let expected = "source_sentence BYTES [1,1] [\"a\"]\nsentences BYTES [1,2] [\"b\",\"c\"]\n";
        assert_eq!(samples::show(&request), expected);
        let expected: [(Arc<str>, Parameter); 3] = [
            ("prompt_name".into(), Parameter::Text("q".into())),
            ("truncate".into(), Parameter::Bool(false)),
            ("similarity".into(), Parameter::Text("cosine".into())),
        ];
        assert_eq!(request.parameters, expected);
        let scores = Tensor::from_vec(Shape::new(&[1, 2]), vec![1.0f32, 0.25]).unwrap();
        let mut response = samples::only(SCORE, scores);
        let tokens = Tensor::zeros(DataType::Int64, Shape::new(&[1, 1])).unwrap();
        response.outputs.push(NamedTensor { name: TOKENS.into(), tensor: tokens });
        let reply = encode(&format, &samples::model(3, &[], &[]), &response).unwrap();
        assert_eq!(samples::body(&reply), "[1.0,0.25]");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = read(r#"{"inputs":{"source_sentence":"a"}}"#).unwrap_err().to_string();
        assert!(error.contains("'sentences'"), "{error}");
        let empty = read(r#"{"inputs":{"source_sentence":"a","sentences":[]}}"#).unwrap_err();
        assert!(matches!(empty, Error::Empty(_)), "{empty}");
        assert!(read("{}").is_err());
    }
}
