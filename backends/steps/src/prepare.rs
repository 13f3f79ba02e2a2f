//! One input to rows of the graph: which texts, with which prompt, and what becomes of their rows.

use audio::StillWanted;

use crate::{
    context::{Context, ContextKind, WorkKind},
    error::RowError,
    folder::Activation,
    head::embed::{PoolWork, check_dimensions},
    parts::{Parts, tokens_of_prompt},
    request::{Function, Input, Parameters},
    rows::{Texts, still},
    step::{Prepared, Row},
    task::{Embedder, TaskHead},
    tasks,
    text::{Detail, Strategy},
};
use inference::task::Task;

/// The rows of one input, and what is to be remembered of it.
///
/// # Errors
/// When the model has not this task, the task takes no such input, or a text cannot be taken. [`RowError::Stopped`]
/// where it is not `wanted` any more, which is asked between the texts of a list.
pub(crate) fn prepare(
    parts: &Parts,
    task: Task,
    input: &Input<'_>,
    parameters: &Parameters,
    wanted: StillWanted<'_>,
) -> Result<Prepared, RowError> {
    let texts = |truncates| Texts::new(parts, parameters, truncates);
    match (task, &parts.task.head) {
        (
            Task::TextClassification,
            TaskHead::Classifier(classes)
            | TaskHead::Ranker(classes, _)
            | TaskHead::Entailment(classes),
        ) => {
            let function = match (parameters.function, parameters.raw_scores) {
                (Some(function), _) => function,
                (None, Some(true)) => Function::None,
                (None, Some(false) | None) => classes.function,
            };
            let context = ContextKind::Labels { function, top_k: parameters.top_k };
            one_row(&texts(false), input, WorkKind::Logits, context)
        }
        (Task::Rerank, TaskHead::Ranker(_, activation)) => {
            ranking(&texts(true), input, *activation, wanted)
        }
        (Task::Rerank, TaskHead::Embedder(embedder)) => {
            let Input::Ranking(query, others) = input else { return Err(wrong(task)) };
            let similarity = parameters.similarity.unwrap_or(embedder.similarity);
            let context = ContextKind::RankingByVectors { similarity };
            compared(&texts(true), embedder, (query, others), context, wanted)
        }
        (Task::SentenceSimilarity, TaskHead::Embedder(embedder)) => {
            let Input::Sentences(source, others) = input else { return Err(wrong(task)) };
            let similarity = parameters.similarity.unwrap_or(embedder.similarity);
            let context = ContextKind::Similarities { similarity };
            compared(&texts(true), embedder, (source, others), context, wanted)
        }
        (Task::SentenceEmbedding, TaskHead::Embedder(embedder)) => {
            let normalize = Some(parameters.normalize.unwrap_or(true));
            let row = vector_row(&texts(true), embedder, input, normalize)?;
            Ok(Prepared { rows: vec![row], context: Context(ContextKind::Embedding) })
        }
        (Task::FeatureExtraction, TaskHead::Embedder(_)) if parts.outputs.tokens.is_some() => {
            // The reference has no prompts for these, so a folder's usual one is not meant.
            let name = parameters.prompt_name.as_deref().unwrap_or_default();
            let prompt = parts.task.prompts.find(Some(name))?;
            let features = ContextKind::Features;
            prompted_row(&texts(false), input, prompt, WorkKind::Features, features)
        }
        (Task::TokenClassification, TaskHead::Tokens(_)) => match *input {
            Input::Text(text) => tasks::entities(parts, parameters, text),
            _ => Err(wrong(task)),
        },
        (Task::QuestionAnswering, TaskHead::Answers) => match *input {
            Input::Pair(question, context) => tasks::answers(parts, parameters, question, context),
            _ => Err(wrong(task)),
        },
        (Task::FillMask, TaskHead::Masks) => match *input {
            Input::Text(text) => tasks::fills(parts, parameters, text, wanted),
            _ => Err(wrong(task)),
        },
        (Task::ZeroShotClassification, TaskHead::Entailment(classes)) => match *input {
            Input::Candidates(text, labels) => {
                tasks::candidates(parts, parameters, classes, (text, labels), wanted)
            }
            _ => Err(wrong(task)),
        },
        (Task::SparseEmbedding, TaskHead::Sparse(_)) => match input {
            Input::Text(_) | Input::Ids(_) => {
                let prompt = parts.task.prompts.find(parameters.prompt_name.as_deref())?;
                let texts = texts(true);
                prompted_row(&texts, input, prompt, WorkKind::Sparse, ContextKind::Sparse)
            }
            _ => Err(wrong(task)),
        },
        (asked, head) => {
            let names: Vec<&str> = head.tasks().iter().map(|it| it.name()).collect();
            Err(RowError::Task { asked: asked.name(), known: names.join(", ") })
        }
    }
}

/// The error for an input of another form than the task takes.
fn wrong(task: Task) -> RowError {
    RowError::Input(format!("{task} takes {}", task.facts().takes))
}

/// A text, a pair or token ids as one row.
fn one_row(
    texts: &Texts<'_>,
    input: &Input<'_>,
    work: WorkKind,
    context: ContextKind,
) -> Result<Prepared, RowError> {
    let encoding = match *input {
        Input::Text(text) => texts.encode(text, None, Strategy::LongestFirst, Detail::Ids)?,
        Input::Pair(text, pair) => {
            // As in the reference, where an empty second text of a single pair is none.
            let pair = Some(pair).filter(|it| !it.is_empty());
            texts.encode(text, pair, Strategy::LongestFirst, Detail::Ids)?
        }
        Input::Ids(ids) => texts.encode_ids(ids)?,
        Input::Candidates(..)
        | Input::Sentences(..)
        | Input::Ranking(..)
        | Input::File(_)
        | Input::FileCandidates(..)
        | Input::FileTexts(..) => {
            return Err(RowError::Input("one text, or a pair of texts, is taken".to_owned()));
        }
    };
    let rows = vec![texts.only_row(&encoding, work)?];
    Ok(Prepared { rows, context: Context(context) })
}

/// A pair of the query with each text.
fn ranking<'a>(
    texts: &Texts<'_>,
    input: &Input<'a>,
    activation: Activation,
    wanted: StillWanted<'_>,
) -> Result<Prepared, RowError> {
    let function = texts.parameters.function;
    let activation = match (texts.parameters.raw_scores, function) {
        (Some(true), _) | (None, Some(Function::None)) => Activation::Identity,
        (Some(false), _) | (None, Some(Function::Sigmoid)) => Activation::Sigmoid,
        (None, Some(Function::Softmax) | None) => activation,
    };
    let (query, others): (&str, &[&'a str]) = match input {
        Input::Ranking(query, others) => (query, others),
        Input::Pair(query, other) => (query, std::slice::from_ref(other)),
        _ => return Err(wrong(Task::Rerank)),
    };
    let beginning = |(at, other): (usize, &&'a str)| {
        still(wanted)?;
        texts.beginning(other).map_err(|it| it.in_list("text", at, others.len()))
    };
    let beginnings = others.iter().enumerate().map(beginning);
    let beginnings = beginnings.collect::<Result<Vec<&str>, _>>()?;
    let encodings =
        texts.encode_pairs(query, beginnings.iter(), Strategy::LongestFirst, "text", wanted)?;
    let row = |it| texts.only_row(it, WorkKind::Logits);
    let rows = encodings.iter().map(row).collect::<Result<_, _>>()?;
    Ok(Prepared { rows, context: Context(ContextKind::Ranking { activation }) })
}

/// A text, and those that are compared with it, each as a vector.
fn compared(
    texts: &Texts<'_>,
    embedder: &Embedder,
    (source, others): (&str, &[&str]),
    context: ContextKind,
    wanted: StillWanted<'_>,
) -> Result<Prepared, RowError> {
    let all = std::iter::once(source).chain(others.iter().copied());
    // The folder's own similarity compares the folder's own vectors.
    let row = |(at, text): (usize, &str)| {
        still(wanted)?;
        let row = vector_row(texts, embedder, &Input::Text(text), None);
        row.map_err(|it| match at {
            0 => it,
            at => it.in_list("text", at - 1, others.len()),
        })
    };
    let rows = all.enumerate().map(row);
    Ok(Prepared { rows: rows.collect::<Result<_, _>>()?, context: Context(context) })
}

/// A text with its prompt, or token ids without one, as a row that becomes a vector. That has length one if `normalize`
/// says so, and where it says nothing, if the folder does.
fn vector_row(
    texts: &Texts<'_>,
    embedder: &Embedder,
    input: &Input<'_>,
    normalize: Option<bool>,
) -> Result<Row, RowError> {
    let parameters = texts.parameters;
    if let Some((dimensions, width)) = parameters.dimensions.zip(texts.parts.dimensions(embedder)) {
        check_dimensions(dimensions, width)?;
    }
    let (prompts, tokenizer) = (&texts.parts.task.prompts, &texts.parts.tokenizer);
    let prompt = prompts.find(parameters.prompt_name.as_deref())?;
    let mut skipped = 0;
    let encoding = match (*input, prompt) {
        (Input::Ids(ids), _) => texts.encode_ids(ids)?,
        (Input::Text(text), None) => {
            texts.encode(text, None, Strategy::LongestFirst, Detail::Ids)?
        }
        (Input::Text(text), Some(prompt)) => {
            if !embedder.pooling.include_prompt {
                let known = texts.parts.prompt_tokens.get(prompt).copied();
                skipped = known.map_or_else(|| tokens_of_prompt(tokenizer, prompt), Ok)?;
                skipped = skipped.min(texts.parts.task.max_tokens);
            }
            let text = format!("{prompt}{text}");
            texts.encode(&text, None, Strategy::LongestFirst, Detail::Ids)?
        }
        _ => return Err(wrong(Task::SentenceEmbedding)),
    };
    let dimensions = parameters.dimensions;
    texts.only_row(&encoding, WorkKind::Pool(PoolWork { skipped, normalize, dimensions }))
}

/// A text with its prompt, or token ids without one, as one row.
fn prompted_row(
    texts: &Texts<'_>,
    input: &Input<'_>,
    prompt: Option<&str>,
    work: WorkKind,
    context: ContextKind,
) -> Result<Prepared, RowError> {
    match (input, prompt) {
        (Input::Text(text), Some(prompt)) => {
            one_row(texts, &Input::Text(&format!("{prompt}{text}")), work, context)
        }
        _ => one_row(texts, input, work, context),
    }
}
