//! Runs on an instance that keeps what a run leaves behind, and may have lost it with its process.

use backend::{BackendError, Stop};

use super::row::{Ran, Row};
use crate::{
    rerun::{Attempts, Reruns},
    slot::Slot,
};
use inference::error::Error;

/// Runs the requests in these rows. Where the instance has lost its state, only those that begin a sequence are run, on
/// another one, and the rest gets the error `lost`; where it loses that in the run, those that begin are run once more,
/// each by itself, unless nothing is to be run again: no other could go on from what it had left behind.
///
/// One answer for each request that is there, in their order; and where the state is lost, which of them have begun on
/// another instance, in the same order.
pub(super) fn on_kept_state(
    slot: &mut Slot,
    rows: &[Option<Row<'_>>],
    stop: &Stop,
    lost: impl Fn() -> Error,
    mut run: impl FnMut(&mut Slot, &[Option<Row<'_>>]) -> Attempts<Ran>,
) -> (Attempts<Ran>, Option<Vec<bool>>) {
    let is_another = slot.drop_lost();
    let runs: Vec<Option<Row<'_>>> =
        rows.iter().map(|it| it.filter(|it| !is_another || it.start)).collect();
    let there: Vec<usize> = (0..rows.len()).filter(|it| rows[*it].is_some()).collect();
    let has_run = runs.iter().any(Option::is_some);
    let first = if has_run { run(slot, &runs) } else { Attempts::none() };
    let mut ran = first.answers.into_iter();
    let answer = |at: &usize| match runs[*at] {
        Some(_) => ran.next().unwrap_or_else(|| Err(lost())),
        None => Err(lost()),
    };
    let mut answers: Vec<Result<Ran, Error>> = there.iter().map(answer).collect();
    let mut reruns = first.reruns;
    if slot.is_made() || !has_run {
        let begun = is_another.then(|| there.iter().map(|it| runs[*it].is_some()).collect());
        return (Attempts { answers, reruns, ..Attempts::none() }, begun);
    }
    let mut begun = vec![false; there.len()];
    if 0 < reruns.never {
        return (Attempts { answers, reruns, ..Attempts::none() }, Some(begun));
    }
    for (number, at) in there.iter().enumerate() {
        let is_crash = matches!(&answers[number], Err(Error::Backend(BackendError::Crashed(_))));
        if !is_crash || !rows[*at].is_some_and(|it| it.start) || stop.is_over() {
            continue;
        }
        let alone: Vec<Option<Row<'_>>> =
            (0..=*at).map(|it| rows[it].filter(|_| it == *at)).collect();
        let again = run(slot, &alone).answers.pop().unwrap_or_else(|| Err(lost()));
        reruns.late = reruns.late.saturating_sub(1);
        reruns.add(match again.is_ok() {
            true => Reruns { ok: 1, ..Reruns::default() },
            false => Reruns { failed: 1, ..Reruns::default() },
        });
        answers[number] = again;
        match slot.is_made() {
            true => begun[number] = true,
            // What had begun there is gone as well.
            false => begun.fill(false),
        }
    }
    (Attempts { answers, reruns, ..Attempts::none() }, Some(begun))
}
