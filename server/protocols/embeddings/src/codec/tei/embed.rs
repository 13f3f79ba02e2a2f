//! `/embed`: a vector for each text.

use std::sync::Arc;

use super::inputs;
use crate::codec::{cost::TextCost, terms::Terms, texts};
use formats::{
    EncodedReply,
    json::write,
    reply_size::{self, TextForm},
    vectors::{self, Vectors},
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
    task::{EMBEDDING, Task},
};

/// What the reply needs of its request.
#[derive(Debug, Clone)]
pub struct EmbedFormat {
    cost: TextCost,
}

/// Parameters of a request beside those that all routes have.
const PARAMETERS: &[&str] = &["normalize", "dimensions", "prompt_name"];

/// `{"inputs", "truncate"?, "truncation_direction"?, "prompt_name"?, "normalize"?, "dimensions"?}`.
///
/// # Errors
/// What is wrong with it.
pub fn decode(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, EmbedFormat), Error> {
    let (texts, parameters) = inputs::read_texts(signature, &terms, PARAMETERS, body, grant)?;
    let cost = TextCost { characters: texts.characters, terms };
    let task = Task::SentenceEmbedding;
    let request = texts::request(task, vec![texts.input], &[EMBEDDING], parameters);
    Ok((request, EmbedFormat { cost }))
}

/// `[[..]]`: a list of numbers for each text, also for one.
///
/// # Errors
/// When a vector is not one of numbers.
pub fn encode(
    format: &EmbedFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| reply_size::of_response(response, TextForm::PLAIN, loose))?;
    let mut out = b"[".to_vec();
    for vector in Vectors::of(response)?.rows() {
        write::item(&mut out);
        vectors::write_list(&mut out, &vector);
    }
    out.push(b']');
    format.cost.reply(out, response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::{NamedTensor, Shape, Tensor};
    use formats::samples;
    use inference::{request::Parameter, task::TOKENS};

    fn encode(
        format: &EmbedFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(format, signature, response, &Grant::all(0))
    }

    fn read(body: &str) -> Result<(InferenceRequest, EmbedFormat), Error> {
        let signature = samples::model(3, &["text BYTES [1]"], &["embedding FP32 [-1]"]);
        decode(
            &signature,
            Arc::new(crate::codec::terms::sample()),
            body.as_bytes(),
            samples::grant(),
        )
    }

    #[test]
    fn parameters_are_those_of_the_model_in_its_words() {
        let body = r#"{"inputs":"a","truncation_direction":"Left","normalize":false,"prompt_name":null,"other":1}"#;
        let (request, _) = read(body).unwrap();
        let expected: [(Arc<str>, Parameter); 3] = [
            ("truncation_direction".into(), Parameter::Text("left".into())),
            ("normalize".into(), Parameter::Bool(false)),
            ("truncate".into(), Parameter::Bool(true)),
        ];
        assert_eq!(request.parameters, expected);
        let (request, _) = read(r#"{"inputs":["a"],"truncate":false}"#).unwrap();
        assert_eq!(request.parameters, [("truncate".into(), Parameter::Bool(false))]);
        assert!(read("{}").is_err());
        assert!(read(r#"{"inputs":"a","normalize":1}"#).is_err());
    }

    #[test]
    fn a_reply_is_a_list_of_vectors() {
        let (_, format) = read(r#"{"inputs":"aé"}"#).unwrap();
        let vector = Tensor::from_vec(Shape::new(&[1, 2]), vec![1.0f32, -0.5]).unwrap();
        let tokens = Tensor::from_vec(Shape::new(&[1, 1]), vec![4i64]).unwrap();
        let mut response = samples::only(EMBEDDING, vector);
        response.outputs.push(NamedTensor { name: TOKENS.into(), tensor: tokens });
        let reply = encode(&format, &samples::model(3, &[], &[]), &response).unwrap();
        assert_eq!(samples::body(&reply), "[[1.0,-0.5]]");
        let headers = reply.headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let expected = ["x-compute-type: cpu", "x-compute-characters: 2", "x-compute-tokens: 4"];
        assert_eq!(headers.collect::<Vec<_>>(), expected);
    }
}
