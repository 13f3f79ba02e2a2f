//! `/predict`: the classes of texts and of pairs of texts.

use std::{borrow::Cow, sync::Arc};

use super::{inputs, results};
use crate::codec::{
    cost::TextCost,
    terms::Terms,
    texts::{self, Column},
};
use formats::{
    EncodedReply,
    json::{JsonReader, Token},
    parameter, rows,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
    task::{RESULT, TEXT, TEXT_PAIR, Task},
};

/// What the reply needs of its request.
#[derive(Debug, Clone)]
pub struct PredictFormat {
    /// Was it one text or one pair, and no batch?
    is_single: bool,
    cost: TextCost,
}

/// Texts, and what each is paired with, where it is: an empty text stands for none.
struct Pairs<'g> {
    texts: Column<'g>,
    others: Column<'g>,
    has_others: bool,
    is_single: bool,
}

/// `{"inputs", "raw_scores"?, "truncate"?, "truncation_direction"?}`.
///
/// # Errors
/// What is wrong with it.
pub fn decode(
    signature: &Signature,
    terms: Arc<Terms>,
    body: &[u8],
    grant: &Grant,
) -> Result<(InferenceRequest, PredictFormat), Error> {
    let most = signature.most_rows.unwrap_or(usize::MAX);
    let mut pairs = Pairs {
        texts: Column::new(grant),
        others: Column::new(grant),
        has_others: false,
        is_single: false,
    };
    let read = |reader: &mut JsonReader<'_>| pairs.read(reader, most);
    let mut parameters = inputs::read(&terms, &["raw_scores"], body, grant, read)?;
    // All classes, best first.
    parameters.push(parameter::all_classes());
    let characters = pairs.texts.characters + pairs.others.characters;
    let mut inputs = vec![pairs.texts.finish(TEXT)?];
    if pairs.has_others {
        inputs.push(pairs.others.finish(TEXT_PAIR)?);
    }
    let request = texts::request(Task::TextClassification, inputs, &[RESULT], parameters);
    let cost = TextCost { characters, terms };
    Ok((request, PredictFormat { is_single: pairs.is_single, cost }))
}

impl Pairs<'_> {
    /// A text, a pair, or a list of lists of one or two texts.
    fn read(&mut self, reader: &mut JsonReader<'_>, most: usize) -> Result<(), Error> {
        self.is_single = true;
        if reader.peek()? != Token::Array {
            let text = reader.string()?;
            return self.push(reader, &text, "");
        }
        let start = reader.mark();
        let first = rows::first_item(reader, &start)?;
        let first = first.ok_or_else(|| texts::empty_list(reader, &start))?;
        if reader.revisit(first, JsonReader::peek)? != Token::Array {
            return self.read_pair(reader);
        }
        self.is_single = false;
        texts::list(reader, most, |reader| self.read_pair(reader))
    }

    /// A list of one text or two.
    fn read_pair<'a>(&mut self, reader: &mut JsonReader<'a>) -> Result<(), Error> {
        let mut texts: Vec<Cow<'a, str>> = Vec::with_capacity(2);
        let start = reader.mark();
        reader.array(|reader, at| {
            if at > 1 {
                return Err(reader.error("expected one text or two, found more"));
            }
            texts.push(reader.string()?);
            Ok(())
        })?;
        match texts.as_slice() {
            [] => Err(texts::empty_list(reader, &start)),
            [text] => self.push(reader, text, ""),
            [text, other, ..] => {
                self.has_others = true;
                self.push(reader, text, other)
            }
        }
    }

    fn push(&mut self, reader: &JsonReader<'_>, text: &str, other: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Err(texts::empty(reader));
        }
        self.texts.push(reader, text)?;
        self.others.push(reader, other)
    }
}

/// `[{"label","score"}]` of a text or a pair, best first; of a batch a list of these.
///
/// # Errors
/// When the response does not say it.
pub fn encode(
    format: &PredictFormat,
    _: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|_| results::joined(response))?;
    let rows = results::rows(response)?;
    let reply = match (format.is_single, rows.as_slice()) {
        (true, [only]) => only.to_vec(),
        _ => results::list(&rows),
    };
    format.cost.reply(reply, response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples;

    fn encode(
        format: &PredictFormat,
        signature: &Signature,
        response: &InferenceResponse,
    ) -> Result<EncodedReply, Error> {
        super::encode(format, signature, response, &Grant::all(0))
    }

    fn read(inputs: &str) -> Result<(InferenceRequest, PredictFormat), Error> {
        let signature = samples::model(3, &["text BYTES [1]", "text_pair? BYTES [1]"], &[]);
        let body = format!("{{\"inputs\":{inputs},\"raw_scores\":true}}");
        decode(
            &signature,
            Arc::new(crate::codec::terms::sample()),
            body.as_bytes(),
            samples::grant(),
        )
    }

    #[track_caller]
    fn check(inputs: &str, expected: &str, is_single: bool) {
        let (request, format) = read(inputs).unwrap();
        assert_eq!(samples::show(&request), expected);
        assert_eq!(format.is_single, is_single);
    }

    #[test]
    fn a_text_a_pair_and_a_batch_of_both_are_rows() {
        check("\"a\"", "text BYTES [1,1] [\"a\"]\n", true);
        check("[\"a\"]", "text BYTES [1,1] [\"a\"]\n", true);
        let pair = "text BYTES [1,1] [\"a\"]\ntext_pair BYTES [1,1] [\"b\"]\n";
        check("[\"a\",\"b\"]", pair, true);
        check("[[\"a\"]]", "text BYTES [1,1] [\"a\"]\n", false);
        let both = "text BYTES [2,1] [\"a\",\"b\"]\ntext_pair BYTES [2,1] [\"\",\"c\"]\n";
        check("[[\"a\"],[\"b\",\"c\"]]", both, false);
        let parameters = read("\"a\"").unwrap().0.parameters;
        let names: Vec<&str> = parameters.iter().map(|it| &*it.0).collect();
        assert_eq!(names, ["raw_scores", "truncate", "top_k"]);
    }

    #[test]
    fn what_is_neither_is_refused() {
        for wrong in ["[\"a\",\"b\",\"c\"]", "7", "[7]", "[[\"a\"],\"b\"]", "[[\"a\",\"b\",\"c\"]]"]
        {
            assert!(matches!(read(wrong), Err(Error::InvalidRequest(_))), "{wrong}");
        }
        for empty in ["\"\"", "[]", "[[]]", "[[\"\"]]"] {
            assert!(matches!(read(empty), Err(Error::Empty(_))), "{empty}");
        }
        let many = read("[[\"a\"],[\"a\"],[\"a\"],[\"a\"]]").unwrap_err();
        assert_eq!(many, Error::TooManyInputs { given: 4, most: 3 });
    }

    #[test]
    fn one_is_answered_by_its_classes_and_a_batch_by_a_list_of_them() {
        use backend::{NamedTensor, Shape, Tensor};
        use inference::task::TOKENS;
        let (_, one) = read("\"a\"").unwrap();
        let (_, batch) = read("[[\"a\"]]").unwrap();
        let result = Tensor::from_strings(Shape::new(&[1, 1]), ["[1]"]).unwrap();
        let mut response = samples::only(RESULT, result);
        let tokens = Tensor::from_vec(Shape::new(&[1, 1]), vec![4i64]).unwrap();
        response.outputs.push(NamedTensor { name: TOKENS.into(), tensor: tokens });
        let signature = samples::model(3, &[], &[]);
        assert_eq!(samples::body(&encode(&one, &signature, &response).unwrap()), "[1]");
        assert_eq!(samples::body(&encode(&batch, &signature, &response).unwrap()), "[[1]]");
    }
}
