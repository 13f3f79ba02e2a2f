//! The step `entities`: logits of tokens to the entities of a text, as JSON.

use std::sync::Arc;

use backend::{BackendError, NamedTensor};
use inference::task::{RESULT, TEXT as TEXT_INPUT};

use super::{
    call::{Call, invalid},
    classes,
    kept::{Kept, MASK},
    kind::{Opened, Run},
    ports::{FLOATS, INTEGERS, TEXT, optional, port, spec},
    settings::StepSettings,
    vocabulary::{self, Vocabulary},
    windows::{offsets, same_tokens},
};
use crate::{
    head::entities::{Scored, entities, token_scores},
    outputs::RowOutput,
    reply::Reply,
    request::Strategy,
    result::{ResultForm, result_json},
    text::Encoded,
};

pub(super) const PARAMETERS: &[&str] = &["labels", "file", "strategy", "ignore_labels"];

const LOGITS: &str = "logits";
const IDS: &str = "input_ids";
const SPECIAL: &str = "special_tokens_mask";

struct Entities {
    vocabulary: Vocabulary,
    labels: Vec<Arc<str>>,
    strategy: Strategy,
    ignored: Vec<String>,
    /// Are all rows windows of one text?
    is_unbatched: bool,
}

/// Opens it.
///
/// # Errors
/// When a parameter or a file is wrong.
pub(super) fn open(settings: &StepSettings<'_>) -> Result<Opened, BackendError> {
    let labels = classes::read(settings)?.labels;
    let vocabulary = vocabulary::open(settings, false)?;
    let known = Strategy::ALL.map(Strategy::name);
    let strategy = settings.named("strategy", &known, Strategy::from_name)?.unwrap_or_default();
    let ignored = settings.list("ignore_labels").unwrap_or_else(|| vec!["O".to_owned()]);
    let is_unbatched = settings.is_unbatched();
    let one_text = if is_unbatched { vec![Some(1)] } else { vec![None, Some(1)] };
    let spec = spec(
        settings.source,
        &[
            port(LOGITS, FLOATS, &[None, None, Some(labels.len())]),
            port("offsets", INTEGERS, &[None, None, Some(2)]),
            port(IDS, INTEGERS, &[None, None]),
            port(SPECIAL, INTEGERS, &[None, None]),
            port(TEXT_INPUT, TEXT, &one_text),
            optional(MASK, INTEGERS, &[None, None]),
        ],
        &[port(RESULT, TEXT, &one_text)],
    );
    let step = Entities { vocabulary, labels, strategy, ignored, is_unbatched };
    Ok(Opened { spec, run: Box::new(step) })
}

impl Run for Entities {
    fn run(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let texts = call.texts(TEXT_INPUT)?;
        let logits = call.floats(LOGITS)?;
        let &[rows, length, classes] = &*logits.dims else {
            return Err(invalid(LOGITS, &format!("its shape is {:?}", logits.dims)));
        };
        let (ids, special) = (call.integers(IDS)?, call.integers(SPECIAL)?);
        let places = call.integers("offsets")?;
        same_tokens(&[(IDS, &ids), (SPECIAL, &special), ("offsets", &places)], rows, length)?;
        let kept = Kept::of(call, LOGITS, [rows, length])?;
        let of_text = |text: usize| if self.is_unbatched { 0..rows } else { text..text + 1 };
        if !self.is_unbatched && texts.len() != rows {
            return Err(invalid(TEXT_INPUT, "it has not as many rows as 'logits'"));
        }
        let result = |(number, text): (usize, &&str)| {
            call.check()?;
            let characters = text.chars().count();
            let window = |row: usize| {
                let id = |it: &i64| {
                    u32::try_from(*it).map_err(|_| invalid(IDS, &format!("{it} is no id")))
                };
                let ids = kept.select(row, ids.row(row), 1);
                let special = kept.select(row, special.row(row), 1);
                let places = kept.select(row, places.row(row), 2);
                Ok(Encoded {
                    ids: ids.iter().map(id).collect::<Result<_, _>>()?,
                    is_special: special.iter().map(|it| *it != 0).collect(),
                    offsets: offsets(&places, (row, characters), |_| true)?,
                    ..Encoded::default()
                })
            };
            let scores = |row: usize| {
                let values = kept.select(row, logits.row(row), classes);
                let dims = vec![kept.count(row), classes];
                Ok(token_scores(&RowOutput { name: LOGITS, dims, values })?)
            };
            let windows = of_text(number).map(window).collect::<Result<_, BackendError>>()?;
            let scores = of_text(number).map(scores);
            let scores = scores.collect::<Result<Vec<Vec<f32>>, BackendError>>()?;
            let scored = Scored {
                text: (*text).to_owned(),
                windows,
                strategy: self.strategy,
                ignored: self.ignored.clone(),
                unknown: self.vocabulary.special.unknown,
            };
            let tokenizer = &self.vocabulary.tokenizer;
            let found = entities(tokenizer, &self.labels, &scored, &scores, LOGITS)?;
            let form = ResultForm { text, is_best_only: false };
            Ok(result_json(&Reply::Entities(found), &form))
        };
        let results = texts.iter().enumerate().map(result);
        let results = results.collect::<Result<Vec<String>, BackendError>>()?;
        let dims = [texts.len(), 1];
        let dims = if self.is_unbatched { &dims[..1] } else { &dims[..] };
        Ok(vec![call.text_output(RESULT, dims, results)?])
    }
}
