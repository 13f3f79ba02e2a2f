//! Rows of the tasks that need more than the text's classes or vector: entities, answers, masks, candidates.

use std::sync::Arc;

use audio::StillWanted;

use crate::{
    context::{Context, ContextKind, WorkKind},
    error::RowError,
    head::{
        answer::{MOST_ANSWERS, Question},
        entail::{Candidates, entailment},
        entities::Scored,
        mask::{MaskWork, Masked, check_fills},
    },
    hypothesis::Hypothesis,
    parts::Parts,
    request::{Parameters, Strategy, TopK},
    rows::Texts,
    side::Side,
    step::Prepared,
    task::Classes,
    text::{self, Detail, Encode, Truncation, target_ids},
};

fn wrong(name: &str, problem: String) -> RowError {
    RowError::Parameter { name: name.to_owned(), problem }
}

/// The windows of a text whose tokens are classified.
pub(crate) fn entities(
    parts: &Parts,
    parameters: &Parameters,
    text: &str,
) -> Result<Prepared, RowError> {
    let strategy = parameters.strategy;
    let encoding = match parameters.stride {
        None => {
            let texts = Texts::new(parts, parameters, true);
            texts.encode(text, None, text::Strategy::LongestFirst, Detail::Characters)?
        }
        Some(_) if strategy == Strategy::None => {
            let problem = "windows need another aggregation_strategy than none".to_owned();
            return Err(wrong("stride", problem));
        }
        Some(stride) => {
            let truncation = Truncation {
                side: parts.task.truncation_side,
                stride: Some(stride),
                ..Truncation::right(parts.task.max_tokens)
            };
            windows(parts, (text, None), truncation)?
        }
    };
    let texts = Texts::new(parts, parameters, true);
    let is_cut = parameters.stride.is_none() && encoding.is_cut();
    let row = |window| texts.row(window, is_cut, WorkKind::TokenScores);
    let rows = encoding.windows.iter().map(row).collect::<Result<_, _>>()?;
    let ignored = parameters.ignore_labels.clone().unwrap_or_else(|| vec!["O".to_owned()]);
    let scored = Scored {
        text: text.to_owned(),
        windows: encoding.windows,
        strategy,
        ignored,
        unknown: parts.special.unknown,
    };
    Ok(Prepared { rows, context: Context(ContextKind::Entities(Box::new(scored))) })
}

/// A text or a pair in as many windows as it takes.
fn windows(
    parts: &Parts,
    (text, pair): (&str, Option<&str>),
    truncation: Truncation,
) -> Result<text::Encoding, RowError> {
    let text = parts.limits.whole(text)?;
    let pair = pair.map(|it| parts.limits.whole(it)).transpose()?;
    let how = Encode {
        add_special_tokens: true,
        detail: Detail::Characters,
        truncation: Some(truncation),
    };
    parts.tokenizer.encode(text, pair, &how)
}

/// The windows of a question and its context.
pub(crate) fn answers(
    parts: &Parts,
    parameters: &Parameters,
    question: &str,
    context: &str,
) -> Result<Prepared, RowError> {
    if question.is_empty() || context.is_empty() {
        return Err(RowError::Input("neither question nor context may be empty".to_owned()));
    }
    let given = &parameters.answer;
    let most = parts.task.max_tokens;
    let longest = given.max_seq_len.map_or(most.min(384), |it| it.min(most));
    let stride = given.doc_stride.unwrap_or((longest / 2).min(128));
    if stride > longest {
        return Err(wrong("doc_stride", format!("it is {stride}, a window has {longest} tokens")));
    }
    let asks_first = parts.task.padding_side == Side::Right;
    let (sequence, strategy) = match asks_first {
        true => (1, text::Strategy::OnlySecond),
        false => (0, text::Strategy::OnlyFirst),
    };
    let pair = if asks_first { (question, Some(context)) } else { (context, Some(question)) };
    let side = parts.task.truncation_side;
    let truncation = Truncation { max_length: longest, strategy, side, stride: Some(stride) };
    let encoding = windows(parts, pair, truncation)?;
    let may_answer = |window: &text::Encoded| -> Vec<bool> {
        let tokens = window.ids.iter().zip(&window.sequences);
        // The reference marks nothing as forbidden where the context comes first.
        let may = |(id, of): (&u32, &Option<usize>)| {
            !asks_first || *of == Some(1) || Some(*id) == parts.special.first
        };
        tokens.map(may).collect()
    };
    let allowed: Vec<Vec<bool>> = encoding.windows.iter().map(may_answer).collect();
    let texts = Texts::new(parts, parameters, true);
    let row = |(window, allowed): (&text::Encoded, &Vec<bool>)| {
        texts.row(window, false, WorkKind::Span(allowed.clone()))
    };
    let rows = encoding.windows.iter().zip(&allowed).map(row).collect::<Result<_, _>>()?;
    let top_k = count(parameters.top_k, 1);
    if top_k > MOST_ANSWERS {
        let problem = format!("at most {MOST_ANSWERS} answers to a question are given");
        return Err(wrong("top_k", problem));
    }
    let asked = Question {
        context: context.to_owned(),
        windows: encoding.windows,
        allowed,
        sequence,
        top_k,
        parameters: given.clone(),
    };
    Ok(Prepared { rows, context: Context(ContextKind::Answers(Box::new(asked))) })
}

/// `null` is as nothing for these tasks, as in the reference.
fn count(top_k: TopK, usual: usize) -> usize {
    match top_k {
        TopK::Default | TopK::All => usual,
        TopK::Best(count) => count,
    }
}

/// A text with masks as one row.
pub(crate) fn fills(
    parts: &Parts,
    parameters: &Parameters,
    text: &str,
    wanted: StillWanted<'_>,
) -> Result<Prepared, RowError> {
    let Some((mask, written)) = &parts.special.mask else {
        return Err(RowError::Input("the tokenizer has no mask token".to_owned()));
    };
    let texts = Texts::new(parts, parameters, false);
    let encoding = texts.encode(text, None, text::Strategy::LongestFirst, Detail::Ids)?;
    let ids = encoding.windows[0].ids.clone();
    let positions: Vec<usize> = (0..ids.len()).filter(|at| ids[*at] == *mask).collect();
    if positions.is_empty() {
        let problem = format!("the text has no mask: write {written} where a word is to be found");
        return Err(RowError::Input(problem));
    }
    let targets = parameters
        .targets
        .as_ref()
        .map(|it| target_ids(&parts.tokenizer, parts.limits, it, wanted))
        .transpose()?;
    let top_k = count(parameters.top_k, 5);
    let choice = targets.as_ref().map_or(parts.tokenizer.vocabulary(), |it| it.len());
    check_fills((ids.len(), positions.len()), top_k, choice)
        .map_err(|it| wrong("top_k", it.to_string()))?;
    let work = WorkKind::Fills(MaskWork { positions: positions.clone(), top_k, targets });
    let rows = vec![texts.only_row(&encoding, work)?];
    let masked = Masked { ids, positions, pad: parts.special.pad };
    Ok(Prepared { rows, context: Context(ContextKind::Fills(masked)) })
}

/// A row for each label that a text may have.
pub(crate) fn candidates(
    parts: &Parts,
    parameters: &Parameters,
    classes: &Classes,
    (text, labels): (&str, &[&str]),
    wanted: StillWanted<'_>,
) -> Result<Prepared, RowError> {
    if labels.is_empty() {
        return Err(wrong("candidate_labels", "at least one label is needed".to_owned()));
    }
    if text.is_empty() {
        return Err(RowError::Input("the text is empty".to_owned()));
    }
    let hypothesis = Hypothesis::of(parameters, "This example is {}.", parts.limits)?;
    let texts = Texts::new(parts, parameters, true);
    let sentences = labels.iter().map(|it| hypothesis.about(it));
    let only_first = text::Strategy::OnlyFirst;
    let encodings = texts.encode_pairs(text, sentences, only_first, "label", wanted)?;
    let row = |it| texts.only_row(it, WorkKind::Logits);
    let rows = encodings.iter().map(row).collect::<Result<_, _>>()?;
    let candidates = Candidates {
        labels: labels.iter().map(|it| Arc::from(*it)).collect(),
        is_multi: parameters.multi_label,
        entailment: entailment(&classes.labels),
    };
    Ok(Prepared { rows, context: Context(ContextKind::Candidates(candidates)) })
}
