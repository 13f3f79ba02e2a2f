//! Requests of sequences that a model's own code answers each by itself.

use std::sync::Arc;

use backend::{BackendError, Call, CallAnswer, CallError, NamedTensor, Tensor};

use super::{
    row::Row,
    settings::{ImplicitState, Wiring},
    table::CarriedState,
};
use crate::{run::refused, work::in_order};
use inference::error::Error;

/// What one request gets of a run, and what its sequence carries on from it.
pub(super) type Share = Result<(CallAnswer, Option<CarriedState>), Error>;

/// The rows of a run as the code is told of them. A row without a request is one, too: it has its place in the inputs.
/// `wanted`: outputs, by row.
pub(super) fn calls<'a>(rows: &[Option<Row<'a>>], wanted: &'a [Vec<Arc<str>>]) -> Vec<Call<'a>> {
    let call = |(row, outputs): (&Option<Row<'a>>, &'a Vec<Arc<str>>)| {
        let work = row.as_ref().map(|it| it.work);
        Call {
            rows: 1,
            outputs,
            about: work.and_then(|it| it.about.as_deref()),
            parts: work.and_then(|it| it.parts.as_ref()),
        }
    };
    rows.iter().zip(wanted).map(call).collect()
}

/// What each request that is there gets of the answers to all rows.
///
/// # Errors
/// Where there are not as many answers as rows.
pub(super) fn shares(
    wiring: &Wiring,
    rows: &[Option<Row<'_>>],
    answers: Vec<Result<CallAnswer, CallError>>,
) -> Result<Vec<Share>, BackendError> {
    if answers.len() != rows.len() {
        return Err(BackendError::Execute(format!(
            "the engine returned {} answers to a run of {} rows",
            answers.len(),
            rows.len()
        )));
    }
    let all = rows.iter().zip(answers);
    let there = all.filter_map(|(row, answer)| Some((row.as_ref()?, answer)));
    Ok(there.map(|(row, answer)| share(wiring, row, answer)).collect())
}

fn share(wiring: &Wiring, row: &Row<'_>, answer: Result<CallAnswer, CallError>) -> Share {
    let mut answer = answer.map_err(refused)?;
    let outputs = std::mem::take(&mut answer.outputs);
    // What is run again goes on from where it was.
    let carried = match answer.again {
        true => row.carried.filter(|_| !row.start).cloned(),
        false => wiring.carried(&outputs)?,
    };
    answer.outputs = in_order(&row.work.outputs, outputs);
    Ok((answer, carried))
}

impl Wiring {
    /// The states among what one request is answered. `None` where the model has none.
    fn carried(&self, outputs: &[NamedTensor]) -> Result<Option<CarriedState>, BackendError> {
        let state = |it: &ImplicitState| {
            let output = outputs.iter().find(|output| output.name == it.output);
            let missing = || {
                let name = &it.output;
                BackendError::Execute(format!("the engine did not return output '{name}'"))
            };
            output.map(|it| it.tensor.clone()).ok_or_else(missing)
        };
        let tensors: Vec<Tensor> = self.states.iter().map(state).collect::<Result<_, _>>()?;
        Ok(self.carry(tensors))
    }
}
