//! Classes of texts, as infinity's clients ask for them. Source: <https://github.com/michaelfeil/infinity>.

use std::sync::Arc;

use crate::codec::{cost::TextCost, reply_id, terms::Terms, texts, usage};
use formats::{
    EncodedReply,
    json::{JsonReader, Token, write},
    parameter,
    reply_size::{self, TextForm},
    vectors,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse, Parameter},
    signature::Signature,
    task::{LABEL, SCORE, Task},
};

/// What a reply needs of its request.
#[derive(Debug, Clone)]
pub struct ClassifyFormat {
    cost: TextCost,
}

/// `{"input", "raw_scores"?}`.
///
/// # Errors
/// What is wrong with it, with the parameter that is at fault where it is one.
pub fn decode(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, ClassifyFormat), Error> {
    let most = signature.most_rows.unwrap_or(usize::MAX);
    let (mut texts, mut is_raw) = (None, false);
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "input" => {
                texts = Some(texts::read(reader, most)?);
                Ok(())
            }
            "raw_scores" if reader.peek()? != Token::Null => {
                is_raw = reader.bool()?;
                Ok(())
            }
            _ => reader.skip_value(),
        })
    })?;
    let texts = texts.ok_or_else(|| parameter::missing("input"))?;
    let parameters = vec![
        // All classes.
        parameter::all_classes(),
        ("raw_scores".into(), Parameter::Bool(is_raw)),
        ("truncate".into(), Parameter::Bool(terms.truncates)),
    ];
    let cost = TextCost { characters: texts.characters, terms };
    let task = Task::TextClassification;
    let request = texts::request(task, vec![texts.input], &[LABEL, SCORE], parameters);
    Ok((request, ClassifyFormat { cost }))
}

/// `{"object":"classify","id","model","data":[[{"score","label"}]],"usage"}`: for each text its classes, best first.
///
/// # Errors
/// When the response has no classes.
pub fn encode(
    format: &ClassifyFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| reply_size::of_response(response, TextForm::LABELLED, loose))?;
    let tokens = vectors::tokens(response)?;
    let labels = vectors::output(response, LABEL)?;
    let scores = vectors::output(response, SCORE)?;
    let rows = scores.shape().rows().unwrap_or(0);
    let classes = scores.elements().checked_div(rows).unwrap_or(0);
    let bytes = scores.to_bytes();
    let scores = bytes.chunks_exact(size_of::<f32>()).map(bytemuck::pod_read_unaligned::<f32>);
    let mut classified = labels.strings().zip(scores);
    let mut out = b"{\"object\":\"classify\",\"id\":".to_vec();
    write::string(&mut out, &reply_id::new());
    out.extend_from_slice(b",\"model\":");
    write::string(&mut out, &format.cost.terms.shown_name);
    out.extend_from_slice(b",\"data\":[");
    for _ in 0..rows {
        write::item(&mut out);
        out.push(b'[');
        for (label, score) in classified.by_ref().take(classes) {
            write::item(&mut out);
            out.extend_from_slice(b"{\"score\":");
            write::number(&mut out, score);
            out.extend_from_slice(b",\"label\":");
            write::string(&mut out, std::str::from_utf8(label).unwrap_or_default());
            out.push(b'}');
        }
        out.push(b']');
    }
    out.push(b']');
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
        format: &ClassifyFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(format, signature, response, &Grant::all(0))
    }

    fn read(body: &str) -> Result<(InferenceRequest, ClassifyFormat), Error> {
        let signature = samples::model(3, &["text BYTES [1]"], &[]);
        decode(
            &signature,
            Arc::new(crate::codec::terms::sample()),
            body.as_bytes(),
            samples::grant(),
        )
    }

    #[test]
    fn all_classes_of_each_text_are_asked_for() {
        let (request, _) = read(r#"{"input":["a","b"],"model":"m","raw_scores":true}"#).unwrap();
        assert_eq!(samples::show(&request), "text BYTES [2,1] [\"a\",\"b\"]\n");
        assert_eq!(request.parameters[0].1, Parameter::Text("null".into()));
        assert_eq!(request.parameters[1].1, Parameter::Bool(true));
        assert_eq!(read("{}").unwrap_err().parameter(), Some("input"));
    }

    #[test]
    fn each_text_has_a_list_of_classes() {
        let (_, format) = read(r#"{"input":["a","b"]}"#).unwrap();
        let scores = Tensor::from_vec(Shape::new(&[2, 2]), vec![0.75f32, 0.25, 0.5, 0.5]);
        let labels = Tensor::from_strings(Shape::new(&[2, 2]), ["x", "y", "y", "x"]);
        let tokens = Tensor::from_vec(Shape::new(&[2, 1]), vec![4i64, 5]).unwrap();
        let mut response = samples::only(SCORE, scores.unwrap());
        let named = |name: &str, tensor| NamedTensor { name: name.into(), tensor };
        response.outputs.extend([named(LABEL, labels.unwrap()), named(TOKENS, tokens)]);
        let reply = encode(&format, &samples::model(3, &[], &[]), &response).unwrap();
        let expected = r#""model":"m","data":[[{"score":0.75,"label":"x"},{"score":0.25,"label":"y"}],[{"score":0.5,"label":"y"},{"score":0.5,"label":"x"}]],"usage":{"prompt_tokens":9,"total_tokens":9}}"#;
        assert!(samples::body(&reply).ends_with(expected));
    }
}
