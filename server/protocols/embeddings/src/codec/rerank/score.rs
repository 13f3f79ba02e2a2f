//! Scores of pairs of texts, as vLLM's clients ask for them: one text with each of several, or one by one.

use std::sync::Arc;

use super::{documents, ranking::scores};
use crate::codec::{
    cost::TextCost,
    reply_id,
    terms::Terms,
    texts::{self, Column},
    usage,
};
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
    task::{QUERY, SCORE, TEXTS, Task},
};

/// What a reply needs of its request.
#[derive(Debug, Clone)]
pub struct ScoreFormat {
    cost: TextCost,
}

/// `{"text_1", "text_2"}`, each a text or a list of texts.
///
/// # Errors
/// What is wrong with it, with the parameter that is at fault where it is one.
pub fn decode(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, ScoreFormat), Error> {
    let most = signature.most_rows.unwrap_or(usize::MAX);
    let (mut first, mut second) = (None, None);
    JsonReader::document(body, grant, |reader| {
        reader.object(|reader, key| match &*key {
            "text_1" => {
                first = Some(read(reader, most)?);
                Ok(())
            }
            "text_2" => {
                second = Some(read(reader, most)?);
                Ok(())
            }
            _ => reader.skip_value(),
        })
    })?;
    let first = first.ok_or_else(|| parameter::missing("text_1"))?;
    let second = second.ok_or_else(|| parameter::missing("text_2"))?;
    let characters = first.characters + second.characters;
    let (one, many) = (first.count(), second.count());
    let rows = match one {
        1 => 1,
        one if one == many => one,
        one => {
            let problem = format!(
                "text_2: expected {one} texts, as many as of text_1, found {many}; one text_1 goes with any number"
            );
            return Err(parameter::invalid("text_2", problem));
        }
    };
    let inputs = vec![first.finish_in(QUERY, rows)?, second.finish_in(TEXTS, rows)?];
    let parameters = vec![
        ("truncate".into(), Parameter::Bool(terms.truncates)),
        ("raw_scores".into(), Parameter::Bool(false)),
    ];
    let request = texts::request(Task::Rerank, inputs, &[SCORE], parameters);
    Ok((request, ScoreFormat { cost: TextCost { characters, terms } }))
}

fn read<'g>(reader: &mut JsonReader<'g>, most: usize) -> Result<Column<'g>, Error> {
    match reader.peek()? {
        Token::Array => documents::read_list(reader, most),
        _ => documents::read_one(reader),
    }
}

/// `{"id","object":"list","model","data":[{"index","object":"score","score"}],"usage"}`.
///
/// # Errors
/// When the response has no scores.
pub fn encode(
    format: &ScoreFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| reply_size::of_response(response, TextForm::LABELLED, loose))?;
    let tokens = vectors::tokens(response)?;
    let mut out = b"{".to_vec();
    write::key(&mut out, "id");
    write::string(&mut out, &reply_id::new());
    out.extend_from_slice(b",\"object\":\"list\",\"model\":");
    write::string(&mut out, &format.cost.terms.shown_name);
    out.extend_from_slice(b",\"data\":[");
    for (index, score) in scores(response)?.into_iter().enumerate() {
        write::item(&mut out);
        out.extend_from_slice(b"{\"index\":");
        write::number(&mut out, index as u64);
        out.extend_from_slice(b",\"object\":\"score\",\"score\":");
        write::number(&mut out, score);
        out.push(b'}');
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
        format: &ScoreFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(format, signature, response, &Grant::all(0))
    }

    fn decoded(body: &str) -> Result<(InferenceRequest, ScoreFormat), Error> {
        decode(
            &samples::model(3, &[], &[]),
            Arc::new(crate::codec::terms::sample()),
            body.as_bytes(),
            samples::grant(),
        )
    }

    #[track_caller]
    fn reads(body: &str, expected: &str) {
        assert_eq!(samples::show(&decoded(body).unwrap().0), expected);
    }

    #[test]
    fn one_goes_with_each_and_several_go_one_by_one() {
        let one = "query BYTES [1,1] [\"a\"]\ntexts BYTES [1,2] [\"b\",\"c\"]\n";
        reads(r#"{"text_1":"a","text_2":["b","c"],"model":"m"}"#, one);
        reads(r#"{"text_1":["a"],"text_2":["b","c"]}"#, one);
        let both = "query BYTES [2,1] [\"a\",\"b\"]\ntexts BYTES [2,1] [\"c\",\"d\"]\n";
        reads(r#"{"text_1":["a","b"],"text_2":["c","d"]}"#, both);
        let error = decoded(r#"{"text_1":["a","b"],"text_2":"c"}"#).unwrap_err();
        assert_eq!(error.parameter(), Some("text_2"));
        assert_eq!(decoded(r#"{"text_2":"c"}"#).unwrap_err().parameter(), Some("text_1"));
    }

    #[test]
    fn scores_keep_the_order_of_the_request() {
        let (_, format) = decoded(r#"{"text_1":"a","text_2":["b","c"]}"#).unwrap();
        let scores = Tensor::from_vec(Shape::new(&[1, 2]), vec![0.25f32, 0.5]).unwrap();
        let mut response = samples::only(SCORE, scores);
        let tensor = Tensor::from_vec(Shape::new(&[1, 1]), vec![9i64]).unwrap();
        response.outputs.push(NamedTensor { name: TOKENS.into(), tensor });
        let reply = encode(&format, &samples::model(1, &[], &[]), &response).unwrap();
        let expected = r#","object":"list","model":"m","data":[{"index":0,"object":"score","score":0.25},{"index":1,"object":"score","score":0.5}],"usage":{"prompt_tokens":9,"total_tokens":9}}"#;
        assert!(samples::body(&reply).ends_with(expected));
    }
}
