//! The rows of a request on a pipeline: each is a job of its own, and what is kept of each comes back in their order.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use backend::NamedTensor;

use crate::{
    infer::next::next,
    pipeline::{elsewhere::Effort, open::ServedPipeline, row_error::error, row_runs::RowJob},
};
use inference::{
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
    room::{Room, UNCOUNTED},
    signature::Port,
    timings::Timings,
};
use schedule::{Extent, ReplySlot, RequestQueue, Scheduler, Submission, prepare::CancelToken};
use steps::{GraphOutput, Prepared, Reduced, Row, RowPlace, Step, Work, outputs_of_row};

/// What takes longer is done on a thread for such, since it would make other clients wait: as long as the mean of token
/// vectors of so many values, some 50 us.
const LONG: usize = 1 << 16;

/// A request waits for so long at most until there is room for the first of its runs, and asks so often.
const WAIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

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
    /// Room that was taken for the largest job before.
    pub(super) first: Option<Arc<Permit>>,
}

impl Counted<'_> {
    /// Room for the run of so many bytes; `None` where it takes little.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where other runs and requests hold it; [`Error::InvalidRequest`] where all of the budget
    /// would not do.
    fn run(&self, bytes: usize) -> Result<Option<Arc<Permit>>, Error> {
        take(self.bytes, bytes)
    }
}

/// Room for the largest job of these texts, with which all of them can be run one after the other. Where others hold
/// it, that is waited for: what runs of texts take is free as soon as they are over. `None` where it is little, and of
/// images and sounds, which are refused where there is none.
///
/// # Errors
/// [`Error::OutOfBudget`] where others hold it for long; [`Error::DeadlineExceeded`] where they do so until the
/// deadline.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub(super) async fn room_for_texts(
    budget: Option<&Arc<Budget>>,
    pipeline: &ServedPipeline,
    prepared: &[Prepared],
    deadline: Option<Instant>,
) -> Result<Option<Arc<Permit>>, Error> {
    let rows = || prepared.iter().flat_map(|it| &it.rows);
    let Some(budget) = budget.filter(|_| rows().any(|it| 0 < it.tokens)) else { return Ok(None) };
    let largest = rows().map(|it| bytes_to_run(pipeline, std::iter::once(it))).max();
    let job = largest.unwrap_or(0).saturating_mul(pipeline.rows.most_of_job(rows().count()));
    let bytes = job.min(most_of_texts(budget));
    wait_for_room(budget, bytes, deadline, &pipeline.graph.model).await
}

/// The same for so many bytes.
async fn wait_for_room(
    budget: &Arc<Budget>,
    bytes: usize,
    deadline: Option<Instant>,
    model: &str,
) -> Result<Option<Arc<Permit>>, Error> {
    let patience = Instant::now() + WAIT;
    // Slow clients give way once: what is missing then is held by runs, which end by themselves.
    let mut taken = take(Some(budget), bytes);
    while let Err(Error::OutOfBudget(_)) = taken {
        let now = Instant::now();
        if deadline.is_some_and(|it| it <= now) {
            return Err(Error::DeadlineExceeded { model: model.to_owned() });
        }
        let until = deadline.into_iter().fold(patience, Instant::min);
        if until <= now {
            break;
        }
        tokio::time::sleep(PAUSE.min(until - now)).await;
        if let Some(permit) = budget.try_take(bytes) {
            taken = Ok(Some(Arc::new(permit)));
        }
    }
    taken
}

/// Takes the least room for so many bytes out of these; `None` where none has as much, or it is little.
fn fitting(spare: &mut Vec<Arc<Permit>>, bytes: usize) -> Option<Arc<Permit>> {
    let fits = |it: &(usize, usize)| UNCOUNTED < bytes && bytes <= it.0;
    let units = spare.iter().map(|it| it.units()).zip(0..);
    let (_, at) = units.filter(fits).min()?;
    Some(spare.swap_remove(at))
}

fn take(budget: Option<&Arc<Budget>>, bytes: usize) -> Result<Option<Arc<Permit>>, Error> {
    let Some(budget) = budget.filter(|_| UNCOUNTED < bytes) else { return Ok(None) };
    if budget.limit() < bytes {
        return Err(Error::InvalidRequest(format!(
            "a run of this input would take {bytes} bytes, more than all requests may take together \
             (--max-inflight-bytes); send a smaller one"
        )));
    }
    budget.take(bytes).map(Arc::new).map(Some).ok_or_else(|| out_of_bytes(budget))
}

/// Most that a run of texts asks for. One that takes more is run for all that, with all of this.
fn most_of_texts(budget: &Budget) -> usize {
    budget.limit() / 2
}

/// What [`bytes_to_run`] says, but no more than runs of texts ask for.
fn needed<'r>(
    budget: Option<&Arc<Budget>>,
    pipeline: &ServedPipeline,
    rows: impl Iterator<Item = &'r Row> + Clone,
) -> usize {
    let most = budget.filter(|_| rows.clone().any(|it| 0 < it.tokens)).map(|it| most_of_texts(it));
    bytes_to_run(pipeline, rows).min(most.unwrap_or(usize::MAX))
}

/// Bytes of the graph for a run of these rows: what it holds inside for images and sounds, as far as that is known, and
/// its outputs. What it holds inside for texts bounds how many tokens a run has.
fn bytes_to_run<'r>(
    pipeline: &ServedPipeline,
    rows: impl Iterator<Item = &'r Row> + Clone,
) -> usize {
    let inside = rows.clone().map(|row| pipeline.steps.bytes_to_run(row));
    let outputs = rows.flat_map(|row| {
        let output = |it: &GraphOutput| {
            let port = pipeline.graph.output(&it.name)?;
            Some(bytes_of_output(port, row.tokens))
        };
        pipeline.steps.outputs().iter().filter_map(output)
    });
    inside.chain(outputs).fold(0, usize::saturating_add)
}

/// Bytes of this output of a row of so many tokens. 0 where it has none, and its length is not known.
pub(super) fn bytes_of_output(port: &Port, tokens: usize) -> usize {
    // The first open dimension is the one of tokens.
    let mut of_tokens = Some(tokens);
    let length = |dim: &Option<usize>| match (*dim, tokens) {
        (Some(length), _) => length,
        (None, 0) => 0,
        (None, _) => of_tokens.take().unwrap_or(1),
    };
    let size = port.dtype.size().unwrap_or(1);
    port.dims.iter().map(length).fold(size, usize::saturating_mul)
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
    let size = |it: &(usize, Row)| bytes_to_run(pipeline, std::iter::once(&it.1));
    rows.sort_by_cached_key(|it| (it.1.tokens, Reverse(size(it))));
    let mut rows = rows.into_iter();
    // Enough that all instances are busy, and that a run has company.
    let most = pipeline.rows.bounds.map_or(pipeline.graph.max_batch_size, |it| it.rows);
    let at_once = scheduler.instances().saturating_add(1).saturating_mul(most.max(1));
    let mut running = Vec::new();
    // Of rows that have run. Whoever ran them may hold it a moment longer than they wait for.
    let mut spare: Vec<Arc<Permit>> = counted.first.take().into_iter().collect();
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
            let next = next.get(..together).unwrap_or(next).iter().map(|it| &it.1);
            let bytes = needed(counted.bytes, pipeline, next);
            let of_another = fitting(&mut spare, bytes);
            let room = match of_another.map_or_else(|| counted.run(bytes), |it| Ok(Some(it))) {
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
    let room = match counted.first.take() {
        None => counted.run(needed(counted.bytes, pipeline, std::iter::once(&row)))?,
        taken => taken,
    };
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
    let reduce_all = move |wanted: &CancelToken| {
        let padding = around.steps.padding_side();
        let reduce = |(row, (number, work)): (usize, (usize, Work))| {
            wanted.check()?;
            let place = RowPlace { row, tokens, padding };
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

    #[test]
    fn the_largest_room_of_a_request_is_there_for_its_largest_row() {
        let budget = Budget::new(100 << 20);
        let room = |units| Arc::new(budget.take(units).unwrap());
        let mut spare = [5 << 20, 1 << 20, 2 << 20].map(room).to_vec();
        let mut units = |bytes| fitting(&mut spare, bytes).map(|it| it.units());
        assert_eq!(units(UNCOUNTED), None);
        assert_eq!(units(6 << 20), None);
        assert_eq!([1 << 20, 1 << 20, 1 << 20].map(&mut units), [1, 2, 5].map(|it| Some(it << 20)));
        assert_eq!(units(1 << 20), None);
    }

    #[tokio::test]
    async fn room_that_others_hold_until_the_deadline_is_late_and_no_lack_of_it() {
        let budget = Budget::new(100 << 20);
        let held = budget.take(90 << 20).unwrap();
        let wait = |deadline| wait_for_room(&budget, 20 << 20, deadline, "m");
        let late = Err(Error::DeadlineExceeded { model: "m".to_owned() });
        let error = |it: Result<Option<Arc<Permit>>, Error>| it.map(|_| ());
        let now = Instant::now();
        for deadline in [now, now + 3 * PAUSE] {
            assert_eq!(error(wait(Some(deadline)).await), late);
            assert!(deadline <= Instant::now());
        }
        // Where there is room it is taken, whatever the time: what runs then says that it is late.
        drop(held);
        assert_eq!(wait(Some(now)).await.unwrap().map(|it| it.units()), Some(20 << 20));
    }

    #[tokio::test]
    async fn room_is_waited_for_until_a_run_gives_it_back() {
        let budget = Budget::new(100 << 20);
        let held = budget.take(90 << 20).unwrap();
        let far = Instant::now() + 10 * WAIT;
        let waiting = wait_for_room(&budget, 20 << 20, Some(far), "m");
        let give_back = async move {
            tokio::task::yield_now().await;
            drop(held);
        };
        let (room, ()) = tokio::join!(waiting, give_back);
        assert_eq!(room.unwrap().map(|it| it.units()), Some(20 << 20));
        // More than there is for all.
        let error = wait_for_room(&budget, 200 << 20, Some(far), "m").await.map(|_| ());
        assert!(matches!(error, Err(Error::InvalidRequest(_))), "{error:?}");
    }

    #[test]
    fn an_output_of_a_text_is_as_long_as_its_tokens_and_an_unknown_one_of_an_image_is_not_counted()
    {
        let bytes = |dims: &[Option<usize>], tokens| {
            let port = Port {
                name: "y".into(),
                dtype: backend::DataType::Fp32,
                dims: dims.into(),
                any_rank: false,
                scalar: false,
                optional: false,
                labels: Arc::default(),
                text_codes: Default::default(),
            };
            bytes_of_output(&port, tokens)
        };
        assert_eq!(bytes(&[None, Some(1024)], 512), 2 << 20);
        assert_eq!(bytes(&[Some(2)], 512), 8);
        assert_eq!(bytes(&[None, None], 512), 2048);
        assert_eq!(bytes(&[None, Some(1024)], 0), 0);
        assert_eq!(bytes(&[Some(3), Some(5)], 0), 60);
        assert_eq!(bytes(&[None, Some(usize::MAX)], 2), usize::MAX);
    }
}
