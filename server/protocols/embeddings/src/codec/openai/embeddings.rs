//! Embeddings: texts to vectors, as numbers or as base64 of their bytes.

use std::sync::Arc;

use crate::codec::{cost::TextCost, terms::Terms, texts, usage};
use formats::{
    EncodedReply,
    json::{JsonReader, Token, write},
    parameter,
    reply_size::{self, TextForm},
    vectors::{self, Vectors},
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse, Parameter},
    signature::Signature,
    task::{EMBEDDING, Task},
};

/// The form of a reply.
#[derive(Debug, Clone)]
pub struct EmbeddingsFormat {
    /// Are vectors base64 of their bytes, and not lists of numbers?
    pub is_base64: bool,
    cost: TextCost,
}

/// `{"input", "encoding_format"?, "dimensions"?, ..}`.
///
/// # Errors
/// What is wrong with it, with the parameter that is at fault where it is one.
pub fn decode(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, EmbeddingsFormat), Error> {
    let most = signature.most_rows.unwrap_or(usize::MAX);
    let (mut texts, mut is_base64) = (None, false);
    let mut parameters: Vec<(Arc<str>, Parameter)> = Vec::new();
    let (mut truncates, mut use_type) = (terms.truncates, None);
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "input" => {
                texts = Some(texts::read(reader, most)?);
                Ok(())
            }
            _ if reader.peek()? == Token::Null => reader.null(),
            "encoding_format" => {
                is_base64 = match &*reader.string()? {
                    "float" => false,
                    "base64" => true,
                    other => return Err(unknown_format(other)),
                };
                Ok(())
            }
            "truncate" => {
                truncates = reader.bool()?;
                Ok(())
            }
            "input_type" => {
                let given = reader.string()?;
                use_type = Some(reader.owned(given)?);
                Ok(())
            }
            "dimensions" | "prompt_name" | "normalize" => {
                parameters.push((key.as_ref().into(), parameter::scalar(reader, &key)?));
                Ok(())
            }
            // Of the service, as `user`, and of other servers.
            _ => reader.skip_value(),
        })
    })?;
    let texts = texts.ok_or_else(|| parameter::missing("input"))?;
    let has_prompt = parameters.iter().any(|(name, _)| &**name == "prompt_name");
    let prompt = use_type.as_deref().filter(|_| !has_prompt).and_then(|it| prompt_for(&terms, it));
    parameters.extend(prompt.map(|it| ("prompt_name".into(), Parameter::Text(it.into()))));
    parameters.push(("truncate".into(), Parameter::Bool(truncates)));
    let cost = TextCost { characters: texts.characters, terms };
    let task = Task::SentenceEmbedding;
    let request = texts::request(task, vec![texts.input], &[EMBEDDING], parameters);
    Ok((request, EmbeddingsFormat { is_base64, cost }))
}

/// The prompt for texts of that `input_type`, where the model has one: that of its name, as `query`, or of what is
/// behind Cohere's `search_`.
fn prompt_for<'a>(terms: &'a Terms, input_type: &str) -> Option<&'a str> {
    let name = input_type.strip_prefix("search_").unwrap_or(input_type);
    terms.prompts.iter().map(String::as_str).find(|it| *it == name)
}

fn unknown_format(given: &str) -> Error {
    let given: String = given.chars().take(40).collect();
    let problem = format!("encoding_format: expected float or base64, given '{given}'");
    parameter::invalid("encoding_format", problem)
}

/// Bytes that [`encode`] takes at most beside the outputs. An estimate of up to `loose` bytes may be rough.
fn bound(format: &EmbeddingsFormat, response: &InferenceResponse, loose: usize) -> usize {
    match format.is_base64 {
        true => {
            let rows = response.outputs.iter().filter_map(|it| it.tensor.shape().rows());
            let bytes = response.outputs.iter().map(|it| it.tensor.byte_len());
            let beside = rows.max().unwrap_or(0).saturating_mul(TextForm::LABELLED.element);
            bytes.sum::<usize>() / 3 * 4 + beside
        }
        false => reply_size::of_response(response, TextForm::PLAIN, loose),
    }
}

/// `{"object":"list","data":[{"object":"embedding","embedding":..,"index":0}],"model","usage"}`.
///
/// # Errors
/// When a vector is not one of numbers.
pub fn encode(
    format: &EmbeddingsFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| bound(format, response, loose))?;
    let tokens = vectors::tokens(response)?;
    let mut out = b"{\"object\":\"list\",\"data\":[".to_vec();
    for (index, vector) in Vectors::of(response)?.rows().enumerate() {
        write::item(&mut out);
        out.extend_from_slice(b"{\"object\":\"embedding\",\"embedding\":");
        match format.is_base64 {
            true => vectors::write_base64(&mut out, &vector),
            false => vectors::write_list(&mut out, &vector),
        }
        write::key(&mut out, "index");
        write::number(&mut out, index as u64);
        out.push(b'}');
    }
    out.push(b']');
    write::key(&mut out, "model");
    write::string(&mut out, &format.cost.terms.shown_name);
    usage::write(&mut out, tokens);
    out.push(b'}');
    format.cost.reply(out, response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{NamedTensor, Shape, Tensor};
    use formats::samples;
    use inference::task::TOKENS;

    fn encode(
        format: &EmbeddingsFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(format, signature, response, &Grant::all(0))
    }

    fn read(body: &str) -> Result<(InferenceRequest, EmbeddingsFormat), Error> {
        let signature = samples::model(3, &["text BYTES [1]"], &["embedding FP32 [-1]"]);
        decode(
            &signature,
            Arc::new(crate::codec::terms::sample()),
            body.as_bytes(),
            samples::grant(),
        )
    }

    fn response() -> InferenceResponse {
        let vectors =
            Tensor::from_vec(Shape::new(&[2, 3]), vec![1.0f32, 2.5, -3.0, 0.1, 1e-7, 0.0]);
        let tokens = Tensor::from_vec(Shape::new(&[2, 1]), vec![4i64, 5]);
        let outputs = [(EMBEDDING, vectors), (TOKENS, tokens)];
        let outputs =
            outputs.map(|(name, it)| NamedTensor { name: name.into(), tensor: it.unwrap() });
        InferenceResponse {
            outputs: outputs.into(),
            ..samples::only("x", Tensor::zeros(backend::DataType::Int64, Shape::new(&[1])).unwrap())
        }
    }

    #[test]
    fn texts_are_rows_and_what_concerns_the_service_is_passed_over() {
        let body = r#"{"input":["a","b"],"model":"x","user":"u","encoding_format":"base64","dimensions":2,"extra":[1]}"#;
        let (request, format) = read(body).unwrap();
        assert_eq!(samples::show(&request), "text BYTES [2,1] [\"a\",\"b\"]\n");
        assert_eq!(request.outputs, [EMBEDDING.into(), TOKENS.into()] as [Arc<str>; 2]);
        let dimensions = ("dimensions".into(), Parameter::Int(2));
        assert_eq!(request.parameters, [dimensions, ("truncate".into(), Parameter::Bool(true))]);
        assert!(format.is_base64);
        assert!(!read(r#"{"input":"a","encoding_format":null}"#).unwrap().1.is_base64);
        let (request, _) = read(r#"{"input":"a","truncate":false}"#).unwrap();
        assert_eq!(request.parameters, [("truncate".into(), Parameter::Bool(false))]);
    }

    #[test]
    fn the_type_of_an_input_names_its_prompt_where_there_is_one() {
        let signature = samples::model(3, &["text BYTES [1]"], &["embedding FP32 [-1]"]);
        let prompts = vec!["query".to_owned()];
        let terms = Arc::new(Terms { prompts, ..crate::codec::terms::sample() });
        let prompt = |body: &str| {
            let (request, _) =
                decode(&signature, terms.clone(), body.as_bytes(), samples::grant()).unwrap();
            let mut parameters = request.parameters.into_iter();
            parameters.find(|it| &*it.0 == "prompt_name").map(|it| it.1)
        };
        let query = Some(Parameter::Text("query".into()));
        assert_eq!(prompt(r#"{"input":"a","input_type":"query"}"#), query);
        assert_eq!(prompt(r#"{"input":"a","input_type":"search_query"}"#), query);
        assert_eq!(prompt(r#"{"input":"a","input_type":"search_document"}"#), None);
        let own = Some(Parameter::Text("mine".into()));
        assert_eq!(prompt(r#"{"input":"a","input_type":"query","prompt_name":"mine"}"#), own);
    }

    #[test]
    fn what_is_wrong_is_named_as_a_parameter() {
        let parameter = |body| read(body).unwrap_err().parameter().map(str::to_owned);
        assert_eq!(parameter("{}").as_deref(), Some("input"));
        assert_eq!(
            parameter(r#"{"input":"a","encoding_format":"int8"}"#).as_deref(),
            Some("encoding_format")
        );
        assert!(matches!(read(r#"{"input":[]}"#), Err(Error::Empty(_))));
    }

    #[test]
    fn vectors_are_numbers_or_base64_of_the_same_bytes() {
        let (_, format) = read(r#"{"input":["a","b"]}"#).unwrap();
        let signature = samples::model(3, &[], &[]);
        let reply = encode(&format, &signature, &response()).unwrap();
        let head = r#"{"object":"list","data":[{"object":"embedding","embedding":"#;
        let tail = r#"],"model":"m","usage":{"prompt_tokens":9,"total_tokens":9}}"#;
        let next = r#","index":0},{"object":"embedding","embedding":"#;
        let numbers = format!(r#"{head}[1.0,2.5,-3.0]{next}[0.1,1e-7,0.0],"index":1}}{tail}"#);
        assert_eq!(samples::body(&reply), numbers);
        assert!(reply.headers.contains(&("x-compute-tokens", "9".to_owned())));
        assert!(reply.headers.contains(&("x-compute-characters", "2".to_owned())));
        let format = EmbeddingsFormat { is_base64: true, ..format };
        let reply = samples::body(&encode(&format, &signature, &response()).unwrap());
        let base64 =
            format!(r#"{head}"AACAPwAAIEAAAEDA"{next}"zczMPZW/1jMAAAAA","index":1}}{tail}"#);
        assert_eq!(reply, base64);
    }

    #[test]
    fn a_vector_that_is_no_number_is_an_error() {
        let mut response = response();
        let odd = vec![1.0, f32::NAN, 0.0];
        response.outputs[0].tensor = Tensor::from_vec(Shape::new(&[1, 3]), odd).unwrap();
        let (_, format) = read(r#"{"input":"a"}"#).unwrap();
        let error = encode(&format, &samples::model(3, &[], &[]), &response).unwrap_err();
        assert_eq!(error.to_string(), "the vector of text 0 is not a number at position 1");
    }
}
