//! The rows of a request on a pipeline: each is a job of its own, and what is kept of each comes back in their order.

use std::{collections::BTreeMap, time::Instant};

use crate::{
    infer::next::next,
    pipeline::{open::ServedPipeline, row_error::error, row_runs::RowJob},
};
use inference::{error::Error, timings::Timings};
use schedule::{Extent, RequestQueue, Scheduler, Submission};
use steps::{Place, Reduced, Row, Step, outputs_of_row};

/// Runs rows, each by itself, many at once; what is kept of each, in their order, and where the time went.
///
/// # Errors
/// Those of the runs: the first.
///
/// # Cancel safety
/// Dropping the future withdraws all rows.
pub(super) async fn run_rows(
    scheduler: &Scheduler,
    pipeline: &ServedPipeline,
    whole: &Submission,
    rows: Vec<Row>,
) -> Result<(Vec<Reduced>, Option<Timings>), Error> {
    let mut rows: Vec<(usize, Row)> = rows.into_iter().enumerate().collect();
    // Of a request with more rows than are queued at once, rows of like length are to meet.
    rows.sort_by_key(|(_, row)| row.tokens);
    let mut rows = rows.into_iter();
    // Enough that all instances are busy, and that a run has company.
    let most = pipeline.rows.bounds.map_or(pipeline.graph.max_batch_size, |it| it.rows);
    let at_once = scheduler.instances().saturating_add(1).saturating_mul(most.max(1));
    let mut running = Vec::new();
    let mut reduced: BTreeMap<usize, Reduced> = BTreeMap::new();
    let mut timings: Option<Timings> = None;
    let mut is_first = true;
    loop {
        let next_rows: Vec<(usize, Row)> = rows.by_ref().take(at_once - running.len()).collect();
        let mut submissions = Vec::with_capacity(next_rows.len());
        let mut kept = Vec::with_capacity(next_rows.len());
        for (number, row) in next_rows {
            let (accepted, extent) = match std::mem::take(&mut is_first) {
                true => (whole.accepted, Extent::FirstPart),
                // It waits from now on.
                false => (Instant::now(), Extent::LaterPart),
            };
            let job = pipeline.rows.job(&pipeline.steps, row.inputs, row.tokens)?;
            let RowJob { work, shape_key, length } = job;
            submissions.push(Submission { work, accepted, shape_key, length, extent, ..*whole });
            kept.push((number, row.tokens, row.work));
        }
        if !submissions.is_empty() {
            let queued = scheduler.submit_together(submissions)?;
            for (queued, (number, tokens, work)) in queued.into_iter().zip(kept) {
                let answer = async move {
                    let done = queued.answer().await?;
                    scheduler.count_text(tokens);
                    let padding = pipeline.steps.padding_side();
                    let place = Place { row: 0, tokens, padding };
                    let given = outputs_of_row(pipeline.steps.outputs(), &done.outputs, place);
                    let reduced = given.and_then(|it| pipeline.steps.reduce(&work, &it));
                    Ok::<_, Error>((reduced.map_err(error)?, done.timings))
                };
                running.push((number, Box::pin(answer)));
            }
        }
        if running.is_empty() {
            return Ok((reduced.into_values().collect(), timings));
        }
        let (number, done) = next(&mut running).await;
        let (row, took) = done?;
        reduced.insert(number, row);
        timings = Some(timings.map_or(took, |sum| sum.beside(took)));
    }
}
