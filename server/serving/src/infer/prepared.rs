//! The inputs of a request on a pipeline to rows of its graph: a few short texts at once, what takes longer on the
//! threads for that, and many texts on several of these at the same time.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use crate::{
    infer::next::next,
    pipeline::{
        elsewhere::Effort,
        inputs::{self, of_rows},
        open::ServedPipeline,
        pace::AT_ONCE,
        parameters::Asked,
        row_error::of_input,
    },
};
use inference::{
    error::Error,
    limits::Budget,
    room::Room,
    task::{Medium, RowForm, Task},
};
use schedule::{Scheduler, prepare::CancelToken, work::Work};
use steps::{Input, Prepared, RowError, Step};

/// So many rows are put together by the task that asks.
pub(super) const FEW: usize = 16;

/// Each thread of several has so many texts at least.
const TEXTS_OF_PART: usize = 8;

/// The inputs of a request.
#[derive(Clone, Copy)]
pub(super) struct Preparing<'a> {
    pub(super) pipeline: &'a Arc<ServedPipeline>,
    pub(super) task: Task,
    pub(super) work: &'a Work,
    pub(super) asked: &'a Asked,
    /// That the rows are for.
    pub(super) scheduler: &'a Scheduler,
    pub(super) deadline: Option<Instant>,
    /// Of which decoded files and rows take their bytes.
    pub(super) bytes: Option<&'a Arc<Budget>>,
}

/// Inputs that have become rows.
pub(super) struct Ready {
    /// The rows of each, in the order of the inputs.
    pub(super) prepared: Vec<Prepared>,
    /// What decoded files and rows take, until the rows have run.
    pub(super) rooms: Vec<Room>,
    /// Bytes of the texts that the task which asked has tokenized itself; `None` where another thread did.
    pub(super) here: Option<usize>,
}

/// The rows of all inputs, in their order.
///
/// # Errors
/// What is wrong with the first input of which something is; [`Error::Overloaded`] where inputs that take long would
/// wait for too long.
///
/// # Cancel safety
/// Dropping the future ends the work between two inputs.
pub(super) async fn prepare(preparing: Preparing<'_>) -> Result<Ready, Error> {
    let Preparing { pipeline, task, work, asked, scheduler, deadline, .. } = preparing;
    let bytes: usize = work.inputs.iter().map(|it| it.tensor.byte_len()).sum();
    let texts: usize = work.inputs.iter().map(|it| it.tensor.elements()).sum();
    if texts == 0 {
        let problem = "the request has no rows, and a pipeline needs at least one input";
        return Err(Error::Empty(problem.to_owned()));
    }
    let labels = asked.candidate_labels.as_deref().unwrap_or_default().len().max(1);
    // Each label makes a row of the whole text. What is asked for may be long, too: labels, targets, a template.
    check_rows(work.rows.max(1).saturating_mul(labels), pipeline.config.max_batch_size)?;
    let is_text = task.medium() == Medium::Text;
    let bytes = bytes.saturating_mul(labels).saturating_add(asked.bytes);
    let is_short = is_text && texts.saturating_mul(labels) <= FEW && pipeline.pace.is_short(bytes);
    // Preparing what is refused behind it would be for nothing, and so would an answer that comes too late.
    if !is_short && let Some(wait) = pipeline.pool.expected_wait() {
        scheduler.admit_after(wait, work.rows.max(1), deadline)?;
    }
    let parts = match is_text {
        true => parts_of(preparing.units(texts), bytes, pipeline.pool.threads()),
        false => 1,
    };
    if 1 < parts {
        let (prepared, rooms) = on_threads(&preparing, parts).await?;
        return Ok(Ready { prepared, rooms, here: None });
    }
    let prepare = preparation(&preparing, InputsPart::default());
    if is_short {
        let (prepared, room) = pipeline.work(Effort::Short, deadline, prepare).await?;
        return Ok(Ready { prepared, rooms: vec![room], here: Some(bytes) });
    }
    let around = pipeline.clone();
    let learn = move |wanted: &CancelToken| {
        let began = Instant::now();
        let done = prepare(wanted)?;
        if is_text {
            around.pace.learn(bytes, began.elapsed());
        }
        Ok(done)
    };
    let (prepared, room) = pipeline.work(Effort::Long, deadline, learn).await?;
    Ok(Ready { prepared, rooms: vec![room], here: None })
}

impl Preparing<'_> {
    /// See [`OneList`].
    fn one_list(&self) -> Option<OneList> {
        let by_vectors = self.pipeline.steps.ranks_by_vectors();
        OneList::of(self.task, self.work.rows, by_vectors)
    }

    /// What may be prepared apart, of so many texts.
    fn units(&self, texts: usize) -> usize {
        if self.one_list().is_some() { texts } else { self.work.rows }
    }
}

/// The texts of a request are one list that is ranked, or compared with another text: one input of many texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OneList {
    /// Rows in front of those of its texts: the vector of the query is one, and a pair has it in itself.
    in_front: usize,
}

impl OneList {
    /// That of a request of so many inputs for that task, of a model that ranks by vectors or by pairs.
    fn of(task: Task, inputs: usize, by_vectors: bool) -> Option<OneList> {
        match task.facts().row {
            _ if 1 < inputs => None,
            RowForm::Ranked => Some(OneList { in_front: usize::from(by_vectors) }),
            RowForm::Compared => Some(OneList { in_front: 1 }),
            RowForm::One | RowForm::Labels | RowForm::Towers => None,
        }
    }

    /// Parts of the list as one: the rows in front are those of the first.
    fn joined(self, mut parts: impl Iterator<Item = Prepared>) -> Vec<Prepared> {
        let Some(mut whole) = parts.next() else { return Vec::new() };
        parts.for_each(|it| whole.rows.extend(it.rows.into_iter().skip(self.in_front)));
        vec![whole]
    }
}

/// On how many threads so many texts are prepared.
fn parts_of(texts: usize, bytes: usize, threads: usize) -> usize {
    // A hand-off is to be little of what it is for.
    threads.min(texts / TEXTS_OF_PART).min(bytes / (AT_ONCE / 2)).max(1)
}

/// A share of the inputs of a request.
struct InputsPart {
    number: usize,
    of: usize,
    /// Rows that all parts have made so far.
    rows: Arc<AtomicUsize>,
}

/// All of them.
impl Default for InputsPart {
    fn default() -> InputsPart {
        InputsPart { number: 0, of: 1, rows: Arc::default() }
    }
}

impl InputsPart {
    /// Its places among so many.
    fn range(&self, count: usize) -> Range<usize> {
        let bound = |number: usize| count * number / self.of;
        bound(self.number)..bound(self.number + 1)
    }

    /// Counts rows, of which all parts together make so many at most.
    fn count(&self, rows: usize, most: usize) -> Result<(), Error> {
        check_rows(self.rows.fetch_add(rows, Ordering::Relaxed) + rows, most)
    }
}

/// All parts at the same time.
async fn on_threads(
    preparing: &Preparing<'_>,
    parts: usize,
) -> Result<(Vec<Prepared>, Vec<Room>), Error> {
    let Preparing { pipeline, deadline, .. } = *preparing;
    let rows = Arc::<AtomicUsize>::default();
    let part = |number| {
        let part = InputsPart { number, of: parts, rows: rows.clone() };
        let prepare = preparation(preparing, part);
        (number, Box::pin(pipeline.work(Effort::Long, deadline, prepare)))
    };
    let mut running: Vec<_> = (0..parts).map(part).collect();
    let (mut done, mut rooms) = (BTreeMap::new(), Vec::new());
    let mut failed = None;
    while !running.is_empty() {
        match next(&mut running).await {
            (number, Ok((prepared, room))) => {
                done.insert(number, prepared);
                rooms.push(room);
            }
            (number, Err(error)) => {
                // Inputs in front may fail, too, and are named first. Those behind are given up.
                running.retain(|(it, _)| *it < number);
                failed = Some(error);
            }
        }
    }
    match (failed, preparing.one_list()) {
        (None, Some(list)) => Ok((list.joined(done.into_values().flatten()), rooms)),
        (None, None) => Ok((done.into_values().flatten().collect(), rooms)),
        // A part of a list does not know the place of a text in all of it.
        (Some(_), Some(_)) => {
            let prepare = preparation(preparing, InputsPart::default());
            let (prepared, room) = pipeline.work(Effort::Long, deadline, prepare).await?;
            Ok((prepared, vec![room]))
        }
        (Some(error), None) => Err(error),
    }
}

/// What prepares a part.
fn preparation(
    preparing: &Preparing<'_>,
    part: InputsPart,
) -> impl FnOnce(&CancelToken) -> Result<(Vec<Prepared>, Room), Error> + Send + use<> {
    let Preparing { pipeline, task, work, asked, .. } = *preparing;
    let (around, inputs, asked) = (pipeline.clone(), work.inputs.clone(), asked.clone());
    let list = preparing.one_list();
    let what = if task.medium() == Medium::Text { Room::TEXTS } else { Room::FILES };
    let mut room = Room::of(preparing.bytes, what);
    move |wanted: &CancelToken| {
        let (medium, most) = (task.medium(), around.config.max_batch_size);
        let inputs = of_rows(task, &inputs, asked.candidate_labels.as_deref())?;
        check_rows(inputs.iter().map(inputs::Row::rows).sum(), most)?;
        let count = inputs.len();
        let prepared = |at: usize, input: &Input<'_>| {
            let is_wanted = || wanted.check().is_ok();
            let prepared = around.steps.prepare_while(task, input, &asked.parameters, &is_wanted);
            prepared.map_err(|it| match wanted.check() {
                Err(error) if it == RowError::Stopped => error,
                _ => of_input(medium, at, count, &it),
            })
        };
        let of_part = |texts: &'_ [&'_ str]| part.range(texts.len());
        let of_list = match (list, inputs.as_slice()) {
            (Some(list), [inputs::Row::Ranking(query, texts)]) => {
                Some((list, Input::Ranking(query, &texts[of_part(texts)])))
            }
            (Some(list), [inputs::Row::Sentences(source, texts)]) => {
                Some((list, Input::Sentences(source, &texts[of_part(texts)])))
            }
            _ => None,
        };
        if let Some((list, input)) = of_list {
            let bytes = around.steps.bytes_to_prepare(&input);
            room.take(bytes.map_err(|it| of_input(medium, 0, count, &it))?)?;
            let prepared = prepared(0, &input)?;
            room.keep(prepared.bytes());
            let repeated = if part.number == 0 { 0 } else { list.in_front };
            part.count(prepared.rows.len() - repeated, most)?;
            return Ok((vec![prepared], room));
        }
        let mut all = Vec::with_capacity(count.div_ceil(part.of));
        let range = part.range(count);
        for (at, input) in inputs.iter().enumerate().take(range.end).skip(range.start) {
            wanted.check()?;
            let input = input.input();
            let bytes = around.steps.bytes_to_prepare(&input);
            room.take(bytes.map_err(|it| of_input(medium, at, count, &it))?)?;
            let prepared = prepared(at, &input)?;
            room.keep(prepared.bytes());
            // Windows of long texts, which only tokens can tell.
            part.count(prepared.rows.len(), most)?;
            all.push(prepared);
        }
        Ok((all, room))
    }
}

/// A request is of no more rows of the graph than it may be of texts.
fn check_rows(rows: usize, most: usize) -> Result<(), Error> {
    if rows <= most {
        return Ok(());
    }
    Err(Error::InvalidRequest(format!(
        "the texts, labels and windows of the request make {rows} rows, at most {most} are taken \
         (--max-client-batch-size); send fewer at once"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_texts_are_spread_and_few_or_short_ones_are_not() {
        let long = 1 << 20;
        assert_eq!(parts_of(15, long, 4), 1);
        assert_eq!(parts_of(16, long, 4), 2);
        assert_eq!(parts_of(256, long, 4), 4);
        assert_eq!(parts_of(256, long, 1), 1);
        assert_eq!(
            parts_of(64, 1000, 4),
            1,
            "a thousand bytes are tokenized sooner than handed on"
        );
    }

    #[test]
    fn lists_that_are_compared_by_vectors_are_spread_like_rankings() {
        let in_front =
            |task, inputs, by_vectors| OneList::of(task, inputs, by_vectors).map(|it| it.in_front);
        assert_eq!(in_front(Task::Rerank, 1, false), Some(0));
        assert_eq!(in_front(Task::Rerank, 1, true), Some(1));
        assert_eq!(in_front(Task::SentenceSimilarity, 1, true), Some(1));
        assert_eq!(in_front(Task::SentenceSimilarity, 2, true), None);
        assert_eq!(in_front(Task::SentenceEmbedding, 1, true), None);
    }

    #[test]
    fn parts_have_each_input_once_and_in_order() {
        for (count, of) in [(16, 2), (17, 3), (100, 7)] {
            let part = |number| InputsPart { number, of, rows: Arc::default() };
            let all: Vec<usize> = (0..of).flat_map(|it| part(it).range(count)).collect();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_of_all_parts_are_counted_together() {
        let one = InputsPart { number: 0, of: 2, rows: Arc::default() };
        let other = InputsPart { number: 1, of: 2, rows: one.rows.clone() };
        assert!(one.count(6, 10).is_ok());
        assert!(other.count(5, 10).unwrap_err().to_string().contains("make 11 rows"));
    }
}
