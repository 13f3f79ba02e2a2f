//! The rows of a request on a pipeline: each is a job of its own, and what is kept of each comes back in their order.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Instant};

use backend::NamedTensor;

use crate::{
    infer::next::next,
    pipeline::{elsewhere::Effort, open::ServedPipeline, row_error::error, row_runs::RowJob},
};
use inference::{
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
    room::{Room, UNCOUNTED},
    timings::Timings,
};
use schedule::{Extent, ReplySlot, RequestQueue, Scheduler, Submission, prepare::Wanted};
use steps::{GraphOutput, Place, Reduced, Row, Step, Work, outputs_of_row};

/// What takes longer is done on a thread for such, since it would make other clients wait: as long as the mean of token
/// vectors of so many values, some 50 us.
const LONG: usize = 1 << 16;

/// What a request has done on its own task since other tasks of the thread had a turn.
#[derive(Default)]
struct Turn(usize);

impl Turn {
    /// Adds to it. True once the others should have a turn, which begins a new one.
    fn is_over(&mut self, effort: usize) -> bool {
        self.0 = self.0.saturating_add(effort);
        let is_over = LONG <= self.0;
        if is_over {
            self.0 = 0;
        }
        is_over
    }
}

/// Where rows take their bytes.
pub(super) struct Counted<'a> {
    pub(super) bytes: Option<&'a Arc<Budget>>,
    /// Takes those of what is kept of rows.
    pub(super) reply: &'a mut Room,
}

impl Counted<'_> {
    /// Room for the run of so many bytes; `None` where it takes little.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where other runs and requests hold it; [`Error::InvalidRequest`] where all of the budget
    /// would not do.
    fn run(&self, bytes: usize) -> Result<Option<Arc<Permit>>, Error> {
        let Some(budget) = self.bytes.filter(|_| UNCOUNTED < bytes) else { return Ok(None) };
        if budget.limit() < bytes {
            return Err(Error::InvalidRequest(format!(
                "a run of this input would take {bytes} bytes, more than all requests may take together \
                 (--max-inflight-bytes); send a smaller one"
            )));
        }
        budget.take(bytes).map(Arc::new).map(Some).ok_or_else(|| out_of_bytes(budget))
    }
}

/// Bytes of the graph for a run of these rows of images or sounds: what it holds inside, as far as that is known, and
/// its outputs. Texts ask for nothing: the memory that runs were seen to take bounds how many tokens a run has.
fn bytes_to_run(pipeline: &ServedPipeline, rows: &[(usize, Row)]) -> usize {
    let inside = rows.iter().map(|(_, row)| pipeline.steps.bytes_to_run(row));
    let is_text = rows.iter().any(|(_, row)| 0 < row.tokens);
    let port = |it: &GraphOutput| pipeline.graph.output(&it.name).filter(|_| !is_text);
    let outputs = pipeline.steps.outputs().iter().filter_map(port).map(|it| {
        let size = it.dtype.size().unwrap_or(1).saturating_mul(rows.len());
        // How long an open dimension is, is not known.
        it.dims
            .iter()
            .try_fold(size, |bytes, it| it.map(|it| bytes.saturating_mul(it)))
            .unwrap_or(0)
    });
    inside.chain(outputs).fold(0, usize::saturating_add)
}

/// The job, whose inputs keep its room until it has run.
fn with_room(mut work: schedule::work::Work, room: Option<&Arc<Permit>>) -> schedule::work::Work {
    if let (Some(room), Some(input)) = (room, work.inputs.first_mut()) {
        input.tensor = input.tensor.clone().keeping(room.clone());
    }
    work
}

/// Runs rows, each by itself, many at once; what is kept of each, in their order, and where the time went.
///
/// # Errors
/// Those of the runs: the first.
///
/// # Cancel safety
/// Dropping the future withdraws all rows.
pub(super) async fn run_rows(
    scheduler: &Scheduler,
    pipeline: &Arc<ServedPipeline>,
    whole: &Submission,
    mut rows: Vec<Row>,
    counted: &mut Counted<'_>,
) -> Result<(Vec<Reduced>, Option<Timings>), Error> {
    if rows.len() == 1
        && let Some(row) = rows.pop()
    {
        return run_row(scheduler, pipeline, whole, row, counted).await;
    }
    let mut rows: Vec<(usize, Row)> = rows.into_iter().enumerate().collect();
    // Of a request with more rows than are queued at once, rows of like length are to meet, and those that take most
    // run first: what has room for one of them has room for the next.
    let size = |it: &(usize, Row)| bytes_to_run(pipeline, std::slice::from_ref(it));
    rows.sort_by_cached_key(|it| (it.1.tokens, Reverse(size(it))));
    let mut rows = rows.into_iter();
    // Enough that all instances are busy, and that a run has company.
    let most = pipeline.rows.bounds.map_or(pipeline.graph.max_batch_size, |it| it.rows);
    let at_once = scheduler.instances().saturating_add(1).saturating_mul(most.max(1));
    let mut running = Vec::new();
    // Of rows that have run. Whoever ran them may hold it a moment longer than they wait for.
    let mut spare: Vec<Arc<Permit>> = Vec::new();
    let mut reduced: BTreeMap<usize, Reduced> = BTreeMap::new();
    let mut timings: Option<Timings> = None;
    let (mut is_first, mut turn) = (true, Turn::default());
    loop {
        let (mut submissions, mut kept) = (Vec::new(), Vec::new());
        while running.len() + kept.len() < at_once && !rows.as_slice().is_empty() {
            let (accepted, extent) = match std::mem::take(&mut is_first) {
                true => (whole.accepted, Extent::FirstPart),
                // It waits from now on.
                false => (Instant::now(), Extent::LaterPart),
            };
            let lengths = rows.as_slice().iter().map(|(_, row)| row.tokens);
            let together = pipeline.rows.rows_of_job(lengths);
            let next = rows.as_slice();
            let needed = bytes_to_run(pipeline, next.get(..together).unwrap_or(next));
            let of_another = spare.pop_if(|it| UNCOUNTED < needed && needed <= it.units());
            let room = match of_another.map_or_else(|| counted.run(needed), |it| Ok(Some(it))) {
                Ok(room) => room,
                // Its own rows give back what they have once they have run.
                Err(Error::OutOfBudget(_)) if !running.is_empty() || !kept.is_empty() => break,
                Err(error) => return Err(error),
            };
            let (mut inputs, mut works, mut length) = (Vec::new(), Vec::new(), 0);
            for (number, row) in rows.by_ref().take(together) {
                inputs.push(row.inputs);
                works.push((number, row.work));
                length = row.tokens;
            }
            let tokens = length;
            let job = pipeline.rows.job(&pipeline.steps, inputs, tokens)?;
            let RowJob { work, shape_key, length } = job;
            let work = with_room(work, room.as_ref());
            submissions.push(Submission { work, accepted, shape_key, length, extent, ..*whole });
            kept.push((tokens, works, room));
        }
        if !submissions.is_empty() {
            let queued = scheduler.submit_together(submissions)?;
            for (queued, (tokens, works, room)) in queued.into_iter().zip(kept) {
                let answer = async move {
                    let done = queued.answer().await?;
                    let timings = done.timings;
                    let ran = Ran { outputs: done.outputs, tokens, works };
                    let (reduced, effort) =
                        reduce(scheduler, pipeline, ran, whole.deadline).await?;
                    // Its outputs were a part of what has room.
                    Ok::<_, Error>((reduced, timings, effort, room))
                };
                running.push((0, Box::pin(answer)));
            }
        }
        if running.is_empty() {
            return Ok((reduced.into_values().collect(), timings));
        }
        let (_, done) = next(&mut running).await;
        let (rows_of_job, took, effort, room) = done?;
        match rows.as_slice().is_empty() {
            true => spare.clear(),
            false => spare.extend(room),
        }
        if turn.is_over(effort) {
            tokio::task::yield_now().await;
        }
        counted.reply.take_and_keep(bytes_of(&rows_of_job))?;
        reduced.extend(rows_of_job);
        timings = Some(timings.map_or(took, |sum| sum.beside(took)));
    }
}

/// The same for the only row of a request, which runs on the calling task where it is known to be fast.
async fn run_row(
    scheduler: &Scheduler,
    pipeline: &Arc<ServedPipeline>,
    whole: &Submission,
    row: Row,
    counted: &mut Counted<'_>,
) -> Result<(Vec<Reduced>, Option<Timings>), Error> {
    let alone = [(0, row)];
    let room = counted.run(bytes_to_run(pipeline, &alone))?;
    let [(_, row)] = alone;
    let (tokens, works) = (row.tokens, vec![(0, row.work)]);
    let job = pipeline.rows.job(&pipeline.steps, vec![row.inputs], tokens)?;
    let RowJob { work, shape_key, length } = job;
    let work = with_room(work, room.as_ref());
    let submission = Submission { work, shape_key, length, extent: Extent::Made, ..*whole };
    let done = scheduler.submit_with_slot(submission, Some(ReplySlot::unordered())).await?;
    let ran = Ran { outputs: done.outputs, tokens, works };
    let (reduced, _) = reduce(scheduler, pipeline, ran, whole.deadline).await?;
    counted.reply.take_and_keep(bytes_of(&reduced))?;
    Ok((reduced.into_iter().map(|(_, it)| it).collect(), Some(done.timings)))
}

/// Bytes of what is kept of rows.
fn bytes_of(rows: &[(usize, Reduced)]) -> usize {
    rows.iter().map(|(_, it)| it.bytes()).sum()
}

/// A job of rows of one length that has run.
struct Ran {
    outputs: Vec<NamedTensor>,
    tokens: usize,
    /// The number of each row, and what is to be kept of it.
    works: Vec<(usize, Work)>,
}

/// Counts its rows; what is kept of each, with its number, and the effort that it took on the calling task.
async fn reduce(
    scheduler: &Scheduler,
    pipeline: &Arc<ServedPipeline>,
    ran: Ran,
    deadline: Option<Instant>,
) -> Result<(Vec<(usize, Reduced)>, usize), Error> {
    let Ran { outputs, tokens, works } = ran;
    scheduler.count_text(tokens * works.len());
    let values: usize = outputs.iter().map(|it| it.tensor.elements()).sum();
    let of_one = values.div_ceil(works.len().max(1));
    let effort: usize = works.iter().map(|(_, it)| it.effort(of_one)).sum();
    let around = pipeline.clone();
    let reduce_all = move |wanted: &Wanted| {
        let padding = around.steps.padding_side();
        let reduce = |(row, (number, work)): (usize, (usize, Work))| {
            wanted.check()?;
            let place = Place { row, tokens, padding };
            let given = outputs_of_row(around.steps.outputs(), &outputs, place);
            let reduced = given.and_then(|it| around.steps.reduce(&work, &it));
            Ok((number, reduced.map_err(error)?))
        };
        works.into_iter().enumerate().map(reduce).collect()
    };
    let place = Effort::short_if(effort <= LONG);
    let here = if place == Effort::Short { effort } else { 0 };
    Ok((pipeline.work(place, deadline, reduce_all).await?, here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_pieces_of_work_let_others_have_turns() {
        let mut turn = Turn::default();
        let turns: Vec<bool> = (0..8).map(|_| turn.is_over(LONG / 4)).collect();
        assert_eq!(turns, [false, false, false, true, false, false, false, true]);
        assert!(turn.is_over(LONG));
        assert!(!turn.is_over(0));
    }
}
