//! Bodies that ask for a ranking.

use std::sync::Arc;

use super::{
    documents,
    reply::{RerankFormat, Style},
};
use crate::codec::{
    cost::TextCost,
    terms::Terms,
    texts::{self, Column},
};
use formats::{
    json::{JsonReader, Token},
    parameter,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, Parameter},
    signature::Signature,
    task::{QUERY, SCORE, TEXTS, Task},
};

/// Tokens of a document that are read, where a client of Cohere's second version does not say.
const USUAL_DOCUMENT: i64 = 4096;

/// `{"query", "documents", "top_n"?, "max_tokens_per_doc"?}`.
///
/// # Errors
/// What is wrong with it, with the parameter that is at fault where it is one.
pub fn decode_v2(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, RerankFormat), Error> {
    read(signature, terms, Style::CohereV2, body, grant)
}

/// `{"query", "documents", "top_n"?, "return_documents"?, "raw_scores"?, ..}`.
///
/// # Errors
/// As of [`decode_v2`].
pub fn decode_v1(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, RerankFormat), Error> {
    read(signature, terms, Style::V1, body, grant)
}

/// `{"query", "texts", "raw_scores"?, "return_text"?, "truncate"?, "truncation_direction"?}`.
///
/// # Errors
/// As of [`decode_v2`].
pub fn decode_texts(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, RerankFormat), Error> {
    read(signature, terms, Style::Tei, body, grant)
}

/// The same, or where it has `documents` in place of `texts`, the body of [`decode_v1`].
///
/// # Errors
/// As of [`decode_v2`].
pub fn decode_documents(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, RerankFormat), Error> {
    let mut has_documents = false;
    JsonReader::preview(body, grant)?.object(|reader, key| {
        has_documents |= &*key == "documents";
        reader.skip_value()
    })?;
    let style = if has_documents { Style::V1 } else { Style::Tei };
    read(signature, terms, style, body, grant)
}

/// What has been read of a body.
#[derive(Default)]
struct Asked<'g> {
    query: Option<Column<'g>>,
    documents: Option<Column<'g>>,
    most: Option<usize>,
    returns_documents: bool,
    parameters: Vec<(Arc<str>, Parameter)>,
}

fn read(
    signature: &Signature,
    terms: Arc<Terms>,
    style: Style,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, RerankFormat), Error> {
    let most = signature.most_rows.unwrap_or(usize::MAX);
    let list = style.list();
    let mut asked = Asked::default();
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "query" => {
                asked.query = Some(documents::read_one(reader)?);
                Ok(())
            }
            key if key == list => {
                asked.documents = Some(documents::read_list(reader, most)?);
                Ok(())
            }
            _ if reader.peek()? == Token::Null => reader.null(),
            "top_n" => {
                asked.most = Some(count(reader, "top_n")?);
                Ok(())
            }
            "return_documents" | "return_text" => {
                asked.returns_documents = reader.bool()? && style != Style::CohereV2;
                Ok(())
            }
            "max_tokens_per_doc" if style != Style::Tei => {
                let value = Parameter::Int(count(reader, "max_tokens_per_doc")? as i64);
                asked.parameters.push((MAX_TOKENS.into(), value));
                Ok(())
            }
            "raw_scores" | "truncate" => {
                asked.parameters.push((key.as_ref().into(), Parameter::Bool(reader.bool()?)));
                Ok(())
            }
            // `Left` and `Right` there.
            "truncation_direction" => {
                let side = parameter::in_lower_case(reader)?;
                asked.parameters.push((key.as_ref().into(), side));
                Ok(())
            }
            "prompt_name" => {
                let name = parameter::scalar(reader, &key)?;
                asked.parameters.push((key.as_ref().into(), name));
                Ok(())
            }
            // Of the service, as `model` and `max_chunks_per_doc`, and of other servers.
            _ => reader.skip_value(),
        })
    })?;
    request(signature, terms, style, asked)
}

/// The parameter with the tokens of a document that are read.
const MAX_TOKENS: &str = "max_tokens_per_doc";

fn request(
    signature: &Signature,
    terms: Arc<Terms>,
    style: Style,
    asked: Asked<'_>,
) -> Result<(InferenceRequest, RerankFormat), Error> {
    let query = asked.query.ok_or_else(|| parameter::missing("query"))?;
    let documents = asked.documents.ok_or_else(|| parameter::missing(style.list()))?;
    let mut parameters = asked.parameters;
    let usual = [
        ("truncate", Parameter::Bool(terms.truncates)),
        ("raw_scores", Parameter::Bool(false)),
        (MAX_TOKENS, Parameter::Int(USUAL_DOCUMENT)),
    ];
    for (name, value) in usual {
        let is_said = parameters.iter().any(|(it, _)| &**it == name);
        if !is_said && (name != MAX_TOKENS || style == Style::CohereV2) {
            parameters.push((name.into(), value));
        }
    }
    // There the query counts with each text.
    let times = if style == Style::Tei { documents.count() } else { 1 };
    let characters = query.characters * times + documents.characters;
    let (query, documents) = (query.finish_in(QUERY, 1)?, documents.finish_in(TEXTS, 1)?);
    let format = RerankFormat {
        style,
        most: asked.most,
        documents: asked.returns_documents.then(|| documents.tensor.clone()),
        is_by_vectors: signature.pipeline.as_ref().is_some_and(|it| it.task != Task::Rerank),
        cost: TextCost { characters, terms },
    };
    let inputs = vec![query, documents];
    Ok((texts::request(Task::Rerank, inputs, &[SCORE], parameters), format))
}

/// A count from 1 on.
fn count(reader: &mut JsonReader<'_>, name: &str) -> Result<usize, Error> {
    match reader.usize()? {
        0 => Err(parameter::invalid(name, format!("{name}: expected a count from 1 on, found 0"))),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples;

    fn signature() -> Signature {
        let ports = ["query BYTES [1]", "texts BYTES [-1]"];
        samples::model(3, &ports, &["score FP32 [-1]"])
    }

    fn terms() -> Arc<Terms> {
        Arc::new(crate::codec::terms::sample())
    }

    fn parameters(request: &InferenceRequest) -> String {
        let one = |(name, value): &(Arc<str>, Parameter)| format!("{name}={value:?} ");
        request.parameters.iter().map(one).collect()
    }

    #[test]
    fn a_query_and_documents_are_one_row() {
        let body = r#"{"model":"m","query":"q","documents":["a",{"text":"b","id":7}],"top_n":1,"max_chunks_per_doc":9}"#;
        let (request, format) =
            decode_v1(&signature(), terms(), body.as_bytes(), samples::grant()).unwrap();
        let expected = "query BYTES [1,1] [\"q\"]\ntexts BYTES [1,2] [\"a\",\"b\"]\n";
        assert_eq!(samples::show(&request), expected);
        assert_eq!((format.most, format.documents.is_none()), (Some(1), true));
        assert_eq!(parameters(&request), "truncate=Bool(true) raw_scores=Bool(false) ");
        let (request, _) =
            decode_v2(&signature(), terms(), body.as_bytes(), samples::grant()).unwrap();
        assert!(parameters(&request).ends_with("max_tokens_per_doc=Int(4096) "));
    }

    #[test]
    fn at_one_address_the_key_says_whose_body_it_is() {
        let style = |body: &str| {
            decode_documents(&signature(), terms(), body.as_bytes(), samples::grant()).unwrap().1
        };
        let texts =
            r#"{"query":"q","texts":["a"],"return_text":true,"truncation_direction":"Left"}"#;
        assert_eq!(style(texts).style, Style::Tei);
        assert!(style(texts).documents.is_some());
        assert_eq!(style(r#"{"query":"q","documents":["a"]}"#).style, Style::V1);
        let (request, _) =
            decode_texts(&signature(), terms(), texts.as_bytes(), samples::grant()).unwrap();
        assert!(parameters(&request).starts_with("truncation_direction=Text(\"left\") "));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_parameter() {
        let error = |body: &str| {
            decode_v1(&signature(), terms(), body.as_bytes(), samples::grant()).unwrap_err()
        };
        let parameter = |body: &str| error(body).parameter().map(str::to_owned);
        assert_eq!(parameter(r#"{"query":"q"}"#).as_deref(), Some("documents"));
        assert_eq!(parameter(r#"{"documents":["a"]}"#).as_deref(), Some("query"));
        let none = r#"{"query":"q","documents":["a"],"top_n":0}"#;
        assert_eq!(parameter(none).as_deref(), Some("top_n"));
        for empty in [r#"{"query":"","documents":["a"]}"#, r#"{"query":"q","documents":[]}"#] {
            assert!(matches!(error(empty), Error::Empty(_)), "{empty}");
        }
        let many = r#"{"query":"q","documents":["a","b","c","d"]}"#;
        assert_eq!(error(many), Error::TooManyInputs { given: 4, most: 3 });
        let image = r#"{"query":"q","documents":[{"image":"x"}]}"#;
        assert!(error(image).to_string().contains("an object with the key 'text'"));
    }
}
