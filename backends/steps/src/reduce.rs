//! What is kept of the outputs of one row, on the thread of the model.

use crate::{
    context::WorkKind,
    error::RowError,
    head::{
        answer::probabilities,
        classify::{check_numbers, whole_logits},
        embed::{from_tokens, from_vector, token_vectors},
        entities::token_scores,
        mask::best,
        reduced::Reduced,
        splade::weights,
    },
    outputs::RowOutput,
    signature::Outputs,
    task::TaskHead,
};

/// The outcome of one row.
///
/// # Errors
/// When an output is missing or has not the shape that the task needs, or a value is no number.
pub(crate) fn reduce(
    head: &TaskHead,
    plan: &Outputs,
    work: &WorkKind,
    outputs: &[RowOutput<'_>],
) -> Result<Reduced, RowError> {
    let output = |at: Option<usize>| {
        let missing = || RowError::Output {
            output: at.map_or_else(String::new, |at| plan.name(at).to_owned()),
            problem: "the run did not give it".to_owned(),
        };
        at.and_then(|at| outputs.get(at)).ok_or_else(missing)
    };
    match work {
        WorkKind::Logits => Ok(Reduced::Values(whole_logits(output(Some(0))?)?)),
        WorkKind::Pool(work) => {
            let TaskHead::Embedder(embedder) = head else { return Err(foreign()) };
            let vector = match plan.vector {
                Some(at) => from_vector(output(Some(at))?, &embedder.chain, *work)?,
                None => {
                    let tokens = output(plan.tokens)?;
                    from_tokens(tokens, &embedder.pooling, &embedder.chain, *work)?
                }
            };
            Ok(Reduced::Values(vector))
        }
        WorkKind::Features => {
            let output = output(plan.tokens)?;
            let width = token_vectors(output)?.width;
            check_numbers(&output.values, output.name)?;
            Ok(Reduced::Tokens { width, values: output.values.to_vec() })
        }
        WorkKind::TokenScores => {
            let output = output(plan.tokens)?;
            let width = token_vectors(output)?.width;
            Ok(Reduced::Tokens { width, values: token_scores(output)? })
        }
        WorkKind::Span(allowed) => {
            let start = probabilities(output(Some(0))?, allowed)?;
            let end = probabilities(output(Some(1))?, allowed)?;
            Ok(Reduced::Span { start, end })
        }
        WorkKind::Fills(work) => Ok(Reduced::Fills(best(output(plan.tokens)?, work)?)),
        WorkKind::Sparse => {
            let TaskHead::Sparse(splade) = head else { return Err(foreign()) };
            Ok(Reduced::Sparse(weights(output(plan.tokens)?, *splade)?))
        }
        WorkKind::Objects(_)
        | WorkKind::ImageFeatures
        | WorkKind::Towers { .. }
        | WorkKind::Frames => Err(foreign()),
    }
}

/// A row that another pipeline has prepared.
fn foreign() -> RowError {
    RowError::Output { output: String::new(), problem: "the row is of another pipeline".to_owned() }
}
