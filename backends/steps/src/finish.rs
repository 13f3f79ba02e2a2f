//! The rows of one input to its reply.

use audio::StillWanted;

use crate::{
    context::ContextKind,
    error::RowError,
    head::{
        answer::answers,
        classify::{check_numbers, classify},
        dense::activate,
        entail,
        entities::entities,
        mask::fills,
        rank::rank,
        reduced::Reduced,
        similarity::similarity,
    },
    parts::Parts,
    reply::{Features, Reply, SparseEntry},
    request::Similarity,
};

/// The reply to one input.
///
/// # Errors
/// When the rows are not those that were prepared, or a score is no number. [`RowError::Stopped`] where it is not
/// `wanted` any more.
pub(crate) fn finish(
    parts: &Parts,
    context: ContextKind,
    rows: Vec<Reduced>,
    wanted: StillWanted<'_>,
) -> Result<Reply, RowError> {
    let output = parts.outputs.name(0);
    match context {
        ContextKind::Labels { function, top_k } => {
            let classes = parts.task.head.classes().ok_or_else(foreign)?;
            let logits = values(only(rows)?)?;
            let found = classify(&classes.labels, logits, function, top_k, output)?;
            Ok(Reply::Labels(found))
        }
        ContextKind::Ranking { activation } => {
            let mut scores = Vec::with_capacity(rows.len());
            for row in rows {
                let logits = values(row)?;
                let [logit] = *logits else {
                    let problem = format!("it has {} values, a ranking needs one", logits.len());
                    return Err(RowError::Output { output: output.to_owned(), problem });
                };
                scores.push(activate(activation, logit));
            }
            check_numbers(&scores, output)?;
            Ok(Reply::Ranking(rank(scores)))
        }
        ContextKind::RankingByVectors { similarity } => {
            Ok(Reply::Ranking(rank(similarities(similarity, rows, output)?)))
        }
        ContextKind::Similarities { similarity } => {
            Ok(Reply::Similarities(similarities(similarity, rows, output)?))
        }
        ContextKind::Embedding => Ok(Reply::Embedding(values(only(rows)?)?)),
        ContextKind::Features => match only(rows)? {
            Reduced::Tokens { width, values } => {
                let tokens = values.len().checked_div(width).unwrap_or(0);
                Ok(Reply::Features(Features { tokens, width, values, pooled: Vec::new() }))
            }
            _ => Err(foreign()),
        },
        ContextKind::Entities(scored) => {
            let classes = parts.task.head.classes().ok_or_else(foreign)?;
            let scores = rows.into_iter().map(|row| match row {
                Reduced::Tokens { values, .. } => Ok(values),
                _ => Err(foreign()),
            });
            let scores = scores.collect::<Result<Vec<_>, _>>()?;
            let tokenizer = &parts.tokenizer;
            let found = entities(tokenizer, &classes.labels, &scored, &scores, output)?;
            Ok(Reply::Entities(found))
        }
        ContextKind::Answers(question) => {
            let spans = rows.into_iter().map(|row| match row {
                Reduced::Span { start, end } => Ok((start, end)),
                _ => Err(foreign()),
            });
            let spans = spans.collect::<Result<Vec<_>, _>>()?;
            match spans.len() == question.windows.len() {
                true => Ok(Reply::Answers(answers(&question, spans))),
                false => Err(foreign()),
            }
        }
        ContextKind::Fills(masked) => match only(rows)? {
            Reduced::Fills(found) => {
                Ok(Reply::Fills(fills(&parts.tokenizer, &masked, &found, wanted)?))
            }
            _ => Err(foreign()),
        },
        ContextKind::Candidates(candidates) => {
            let logits = rows.into_iter().map(values).collect::<Result<Vec<_>, _>>()?;
            Ok(Reply::Candidates(entail::rank(&candidates, &logits, output)?))
        }
        ContextKind::Sparse => match only(rows)? {
            Reduced::Sparse(found) => {
                let entries = found.into_iter().map(|(index, value)| SparseEntry { index, value });
                Ok(Reply::Sparse(entries.collect()))
            }
            _ => Err(foreign()),
        },
        ContextKind::Objects { .. }
        | ContextKind::ImageCandidates(_)
        | ContextKind::ImageFeatures { .. }
        | ContextKind::Towers
        | ContextKind::Transcript => Err(foreign()),
    }
}

/// How like the first row the others are.
fn similarities(
    function: Similarity,
    rows: Vec<Reduced>,
    output: &str,
) -> Result<Vec<f32>, RowError> {
    let vectors = rows.into_iter().map(values).collect::<Result<Vec<_>, _>>()?;
    let (source, others) = vectors.split_first().ok_or_else(foreign)?;
    let scores: Vec<f32> = others.iter().map(|it| similarity(function, source, it)).collect();
    check_numbers(&scores, output)?;
    Ok(scores)
}

fn only(rows: Vec<Reduced>) -> Result<Reduced, RowError> {
    let mut rows = rows.into_iter();
    rows.next().filter(|_| rows.next().is_none()).ok_or_else(foreign)
}

fn values(row: Reduced) -> Result<Vec<f32>, RowError> {
    match row {
        Reduced::Values(values) => Ok(values),
        Reduced::Tokens { .. }
        | Reduced::Span { .. }
        | Reduced::Fills(_)
        | Reduced::Sparse(_)
        | Reduced::Text(_)
        | Reduced::Objects(_)
        | Reduced::Features { .. }
        | Reduced::Towers { .. } => Err(foreign()),
    }
}

/// Rows that are not those of the input.
fn foreign() -> RowError {
    RowError::Output {
        output: String::new(),
        problem: "the rows are not those of the input".to_owned(),
    }
}
