//! The step `answer`: logits of first and last tokens to answers in the context, as JSON.

use backend::{BackendError, NamedTensor};
use inference::task::{RESULT, TEXT_PAIR};

use super::{
    call::{Call, invalid},
    kept::{Kept, MASK},
    kind::{Opened, Run},
    ports::{FLOATS, INTEGERS, TEXT, optional, port, spec},
    settings::StepSettings,
    windows::{offsets, same_tokens},
};
use crate::{
    head::answer::{MOST_ANSWERS, Question, answers, probabilities},
    outputs::RowOutput,
    reply::Reply,
    request::AnswerParameters,
    result::{ResultForm, result_json},
    text::Encoded,
};

pub(super) const PARAMETERS: &[&str] =
    &["top_k", "max_answer_len", "handle_impossible_answer", "align_to_words"];

const START: &str = "start_logits";
const END: &str = "end_logits";
const WORDS: &str = "word_ids";

struct Answers {
    top_k: usize,
    parameters: AnswerParameters,
    /// Are all rows windows of one context?
    is_unbatched: bool,
}

/// Opens it.
///
/// # Errors
/// When a parameter is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let usual = AnswerParameters::default();
    let top_k = settings.count("top_k")?.unwrap_or(1);
    if top_k > MOST_ANSWERS {
        let problem = format!("at most {MOST_ANSWERS} answers to a question are given");
        return Err(settings.wrong("top_k", problem));
    }
    let parameters = AnswerParameters {
        max_answer_len: settings.count("max_answer_len")?.unwrap_or(usual.max_answer_len),
        handle_impossible_answer: settings.flag("handle_impossible_answer")?.unwrap_or(false),
        align_to_words: settings.flag("align_to_words")?.unwrap_or(true),
        ..usual
    };
    let is_unbatched = settings.is_unbatched();
    let one_text = if is_unbatched { vec![Some(1)] } else { vec![None, Some(1)] };
    let spec = spec(
        settings.source,
        &[
            port(START, FLOATS, &[None, None]),
            port(END, FLOATS, &[None, None]),
            port("offsets", INTEGERS, &[None, None, Some(2)]),
            port(WORDS, INTEGERS, &[None, None]),
            port(TEXT_PAIR, TEXT, &one_text),
            optional(MASK, INTEGERS, &[None, None]),
        ],
        &[port(RESULT, TEXT, &one_text)],
    );
    Ok(Opened { spec, run: Box::new(Answers { top_k, parameters, is_unbatched }) })
}

impl Run for Answers {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let contexts = call.texts(TEXT_PAIR)?;
        let (start, end) = (call.floats(START)?, call.floats(END)?);
        let (places, words) = (call.integers("offsets")?, call.integers(WORDS)?);
        let &[rows, length] = &*start.dims else {
            return Err(invalid(START, &format!("its shape is {:?}", start.dims)));
        };
        if end.dims != start.dims {
            return Err(invalid(END, "it has another shape than 'start_logits'"));
        }
        same_tokens(&[("offsets", &places), (WORDS, &words)], rows, length)?;
        if !self.is_unbatched && contexts.len() != rows {
            return Err(invalid(TEXT_PAIR, "it has not as many rows as 'start_logits'"));
        }
        let kept = Kept::of(call, START, [rows, length])?;
        let result = |(number, context): (usize, &&str)| {
            call.check()?;
            let of_text = if self.is_unbatched { 0..rows } else { number..number + 1 };
            let characters = context.chars().count();
            let (mut windows, mut allowed, mut spans) = (Vec::new(), Vec::new(), Vec::new());
            for row in of_text.filter(|it| kept.count(*it) > 0) {
                let words = kept.select(row, words.row(row), 1);
                let words: Vec<Option<u32>> =
                    words.iter().map(|it| u32::try_from(*it).ok()).collect();
                // The first token stands for "no answer".
                let may = words.iter().enumerate().map(|(at, it)| at == 0 || it.is_some());
                let may: Vec<bool> = may.collect();
                let scores = |name, values: &[f32]| {
                    let values = kept.select(row, values, 1);
                    let dims = vec![values.len()];
                    probabilities(&RowOutput { name, dims, values }, &may)
                };
                spans.push((scores(START, start.row(row))?, scores(END, end.row(row))?));
                let places = kept.select(row, places.row(row), 2);
                // Those of the question are places in another text.
                let of_context = |token: usize| words.get(token).is_some_and(Option::is_some);
                windows.push(Encoded {
                    ids: vec![0; words.len()],
                    offsets: offsets(&places, (row, characters), of_context)?,
                    sequences: words.iter().map(|it| it.map(|_| 1)).collect(),
                    words,
                    ..Encoded::default()
                });
                allowed.push(may);
            }
            let question = Question {
                context: (*context).to_owned(),
                windows,
                allowed,
                sequence: 1,
                top_k: self.top_k,
                parameters: self.parameters.clone(),
            };
            let reply = Reply::Answers(answers(&question, spans));
            Ok(result_json(&reply, &ResultForm { text: context, is_best_only: false }))
        };
        let results = contexts.iter().enumerate().map(result);
        let results = results.collect::<Result<Vec<String>, BackendError>>()?;
        let dims = [contexts.len(), 1];
        let dims = if self.is_unbatched { &dims[..1] } else { &dims[..] };
        Ok(vec![call.text_output(RESULT, dims, results)?])
    }
}
