//! Replies of a pipeline as the output tensors that a request wants.

use std::sync::Arc;

use backend::{BackendError, NamedTensor, Shape, SizeMismatch, Tensor};

use crate::pipeline::result::{self, Question};
use inference::{
    error::Error,
    task::{EMBEDDING, LABEL, RESULT, SCORE},
};
use steps::Reply;

/// The wanted outputs, in the wanted order, of a reply for each row.
///
/// # Errors
/// Where the rows of an output differ in length, so that they make no tensor.
pub(crate) fn tensors(
    wanted: &[Arc<str>],
    replies: &[Reply],
    questions: &[Question<'_>],
) -> Result<Vec<NamedTensor>, Error> {
    wanted
        .iter()
        .map(|name| {
            let tensor = tensor(name, replies, questions)?;
            Ok(NamedTensor { name: name.clone(), tensor })
        })
        .collect()
}

fn tensor(name: &str, replies: &[Reply], questions: &[Question<'_>]) -> Result<Tensor, Error> {
    let made = match name {
        RESULT => {
            let rows = replies.iter().zip(questions);
            let texts: Vec<String> =
                rows.map(|(reply, asked)| result::json(reply, asked)).collect();
            Tensor::from_strings(Shape::new(&[texts.len(), 1]), texts)
        }
        LABEL => {
            let labels = replies.iter().zip(questions).map(|(it, asked)| labels(it, asked));
            let (width, all) = rows(name, labels)?;
            Tensor::from_strings(Shape::new(&[replies.len(), width]), all)
        }
        SCORE => {
            let scores = replies.iter().zip(questions).map(|(it, asked)| scores(it, asked));
            let (width, all) = rows(name, scores)?;
            Tensor::from_vec(Shape::new(&[replies.len(), width]), all)
        }
        EMBEDDING => {
            let (width, all) = rows(name, replies.iter().map(embedding))?;
            Tensor::from_vec(Shape::new(&[replies.len(), width]), all)
        }
        _ => return Err(Error::Internal(format!("a pipeline has no output '{name}'"))),
    };
    made.map_err(|error: SizeMismatch| Error::Internal(error.to_string()))
}

fn embedding(reply: &Reply) -> Vec<f32> {
    match reply {
        Reply::Embedding(values) => values.clone(),
        _ => Vec::new(),
    }
}

fn labels(reply: &Reply, asked: &Question<'_>) -> Vec<String> {
    match reply {
        Reply::Labels(labels) | Reply::Candidates(labels) => {
            let most = if asked.is_best_only { 1 } else { usize::MAX };
            labels.iter().take(most).map(|it| it.label.as_ref().to_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// One number for each class that is wanted, for each sentence, or for each text in the order of the request.
fn scores(reply: &Reply, asked: &Question<'_>) -> Vec<f32> {
    match reply {
        Reply::Labels(labels) | Reply::Candidates(labels) => {
            let most = if asked.is_best_only { 1 } else { usize::MAX };
            labels.iter().take(most).map(|it| it.score).collect()
        }
        Reply::Similarities(values) => values.clone(),
        Reply::Ranking(ranked) => {
            let mut scores = vec![0.0; ranked.len()];
            for it in ranked {
                if let Some(score) = scores.get_mut(it.index) {
                    *score = it.score;
                }
            }
            scores
        }
        _ => Vec::new(),
    }
}

/// Rows of one length, one behind the other, and that length.
fn rows<T>(name: &str, rows: impl Iterator<Item = Vec<T>>) -> Result<(usize, Vec<T>), Error> {
    let (mut width, mut all) = (None, Vec::new());
    for row in rows {
        let length = row.len();
        if *width.get_or_insert(length) != length {
            let problem =
                format!("output '{name}' differs in length between the rows of the request");
            return Err(Error::Backend(BackendError::Execute(problem)));
        }
        all.extend(row);
    }
    Ok((width.unwrap_or(0), all))
}
