//! One input to rows of the graph: which texts, with which prompt, and what becomes of their rows.

use crate::{
    context::{Context, ContextKind, WorkKind},
    error::RowError,
    folder::Activation,
    head::embed::{PoolWork, check_dimensions},
    parts::Parts,
    request::{Function, Input, Parameters},
    rows::Texts,
    step::{Prepared, Row},
    task::{Embedder, Head},
    tasks,
    text::{Detail, Encode, Strategy},
};
use inference::task::Task;

/// The rows of one input, and what is to be remembered of it.
///
/// # Errors
/// When the model has not this task, the task takes no such input, or a text cannot be taken.
pub(crate) fn prepare(
    parts: &Parts,
    task: Task,
    input: &Input<'_>,
    parameters: &Parameters,
) -> Result<Prepared, RowError> {
    let texts = |truncates| Texts::new(parts, parameters, truncates);
    match (task, &parts.task.head) {
        (
            Task::TextClassification,
            Head::Classifier(classes) | Head::Ranker(classes, _) | Head::Entailment(classes),
        ) => {
            let function = parameters.function.unwrap_or(classes.function);
            let context = ContextKind::Labels { function, top_k: parameters.top_k };
            one_row(&texts(false), input, WorkKind::Logits, context)
        }
        (Task::Rerank, Head::Ranker(_, activation)) => ranking(&texts(true), input, *activation),
        (Task::Rerank, Head::Embedder(embedder)) => {
            let Input::Ranking(query, others) = input else { return Err(wrong(task)) };
            let similarity = parameters.similarity.unwrap_or(embedder.similarity);
            let context = ContextKind::RankingByVectors { similarity };
            compared(&texts(true), embedder, (query, others), context)
        }
        (Task::SentenceSimilarity, Head::Embedder(embedder)) => {
            let Input::Sentences(source, others) = input else { return Err(wrong(task)) };
            let similarity = parameters.similarity.unwrap_or(embedder.similarity);
            let context = ContextKind::Similarities { similarity };
            compared(&texts(true), embedder, (source, others), context)
        }
        (Task::SentenceEmbedding, Head::Embedder(embedder)) => {
            let normalize = Some(parameters.normalize.unwrap_or(true));
            let row = vector_row(&texts(true), embedder, input, normalize)?;
            Ok(Prepared { rows: vec![row], context: Context(ContextKind::Embedding) })
        }
        (Task::FeatureExtraction, Head::Embedder(_)) if parts.outputs.tokens.is_some() => {
            one_row(&texts(false), input, WorkKind::Features, ContextKind::Features)
        }
        (Task::TokenClassification, Head::Tokens(_)) => match *input {
            Input::Text(text) => tasks::entities(parts, parameters, text),
            _ => Err(wrong(task)),
        },
        (Task::QuestionAnswering, Head::Answers) => match *input {
            Input::Pair(question, context) => tasks::answers(parts, parameters, question, context),
            _ => Err(wrong(task)),
        },
        (Task::FillMask, Head::Masks) => match *input {
            Input::Text(text) => tasks::fills(parts, parameters, text),
            _ => Err(wrong(task)),
        },
        (Task::ZeroShotClassification, Head::Entailment(classes)) => match *input {
            Input::Candidates(text, labels) => {
                tasks::candidates(parts, parameters, classes, (text, labels))
            }
            _ => Err(wrong(task)),
        },
        (Task::SparseEmbedding, Head::Sparse(_)) => sparse(&texts(true), input),
        (asked, head) => {
            let names: Vec<&str> = head.tasks().iter().map(|it| it.name()).collect();
            Err(RowError::Task { asked: asked.name(), known: names.join(", ") })
        }
    }
}

/// The error for an input of another form than the task takes.
fn wrong(task: Task) -> RowError {
    let form = match task {
        Task::TextClassification => "a text or a pair of texts",
        Task::SentenceSimilarity => "a source sentence and a list of sentences",
        Task::Rerank => "a query and a list of texts",
        Task::QuestionAnswering => "a question and a context",
        Task::ZeroShotClassification => "a text and candidate labels",
        Task::TokenClassification
        | Task::FillMask
        | Task::FeatureExtraction
        | Task::SentenceEmbedding
        | Task::SparseEmbedding => "a text",
    };
    RowError::Input(format!("{task} takes {form}"))
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
        Input::Candidates(..) | Input::Sentences(..) | Input::Ranking(..) => {
            return Err(RowError::Input("one text, or a pair of texts, is taken".to_owned()));
        }
    };
    let rows = vec![texts.only_row(&encoding, work)?];
    Ok(Prepared { rows, context: Context(context) })
}

/// A pair of the query with each text.
fn ranking(
    texts: &Texts<'_>,
    input: &Input<'_>,
    activation: Activation,
) -> Result<Prepared, RowError> {
    let function = texts.parameters.function;
    let activation = match (texts.parameters.raw_scores, function) {
        (Some(true), _) | (None, Some(Function::None)) => Activation::Identity,
        (Some(false), _) | (None, Some(Function::Sigmoid)) => Activation::Sigmoid,
        (None, Some(Function::Softmax) | None) => activation,
    };
    let (query, others): (&str, &[&str]) = match input {
        Input::Ranking(query, others) => (query, others),
        Input::Pair(query, other) => (query, std::slice::from_ref(other)),
        _ => return Err(wrong(Task::Rerank)),
    };
    let row = |other: &&str| {
        let other = texts.beginning(other)?;
        let encoding = texts.encode(query, Some(other), Strategy::LongestFirst, Detail::Ids)?;
        texts.only_row(&encoding, WorkKind::Logits)
    };
    let rows = others.iter().map(row).collect::<Result<_, _>>()?;
    Ok(Prepared { rows, context: Context(ContextKind::Ranking { activation }) })
}

/// A text, and those that are compared with it, each as a vector.
fn compared(
    texts: &Texts<'_>,
    embedder: &Embedder,
    (source, others): (&str, &[&str]),
    context: ContextKind,
) -> Result<Prepared, RowError> {
    let all = std::iter::once(source).chain(others.iter().copied());
    // The folder's own similarity compares the folder's own vectors.
    let rows = all.map(|it| vector_row(texts, embedder, &Input::Text(it), None));
    Ok(Prepared { rows: rows.collect::<Result<_, _>>()?, context: Context(context) })
}

/// A text with its prompt, or token ids without one, as a row that becomes a vector, of length one if `normalize`
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
    let prompts = &texts.parts.task.prompts;
    let prompt = prompts.find(parameters.prompt_name.as_deref())?;
    let mut skipped = 0;
    let encoding = match (*input, prompt) {
        (Input::Ids(ids), _) => texts.encode_ids(ids)?,
        (Input::Text(text), None) => {
            texts.encode(text, None, Strategy::LongestFirst, Detail::Ids)?
        }
        (Input::Text(text), Some(prompt)) => {
            if !embedder.pooling.include_prompt {
                skipped = prompt_length(texts, prompt)?;
            }
            let text = format!("{prompt}{text}");
            texts.encode(&text, None, Strategy::LongestFirst, Detail::Ids)?
        }
        _ => return Err(wrong(Task::SentenceEmbedding)),
    };
    let dimensions = parameters.dimensions;
    texts.only_row(&encoding, WorkKind::Pool(PoolWork { skipped, normalize, dimensions }))
}

/// A text with its prompt, or token ids without one, as a row that becomes a sparse vector.
fn sparse(texts: &Texts<'_>, input: &Input<'_>) -> Result<Prepared, RowError> {
    let prompts = &texts.parts.task.prompts;
    let prompt = prompts.find(texts.parameters.prompt_name.as_deref())?;
    let prompted = match *input {
        Input::Text(text) => format!("{}{text}", prompt.unwrap_or_default()),
        Input::Ids(_) => String::new(),
        _ => return Err(wrong(Task::SparseEmbedding)),
    };
    let input = if let Input::Ids(_) = input { *input } else { Input::Text(&prompted) };
    one_row(texts, &input, WorkKind::Sparse, ContextKind::Sparse)
}

/// Tokens of a prompt alone, less a special one at its end.
fn prompt_length(texts: &Texts<'_>, prompt: &str) -> Result<usize, RowError> {
    let how = Encode { add_special_tokens: true, detail: Detail::Ids, truncation: None };
    let tokenizer = &texts.parts.tokenizer;
    let ids = &tokenizer.encode(prompt, None, &how)?.windows[0].ids;
    let ends_special = ids.last().is_some_and(|&it| tokenizer.is_special(it));
    Ok((ids.len() - usize::from(ends_special)).min(texts.parts.task.max_tokens))
}
