//! How the rows of a pipeline become jobs: what they are filled up to, and which may share a run.

use std::{
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use backend::{Filler, NamedTensor, PaddingSide, Tensor};

use inference::error::Error;
use schedule::{
    cost::CostTable,
    pack::{RunBounds, USUAL_ROWS},
    padding::Padding,
    work::Work,
};
use steps::{GraphInput, Pipeline, RowShape, Side, Step};

/// How the rows of one pipeline run.
#[derive(Debug, Clone, Default)]
pub struct RowRuns {
    /// What a run of rows of unequal length may be; `None` where only equal ones share a run.
    pub bounds: Option<RunBounds>,
    /// What each input is filled up with; `None` where no row is padded.
    pub padding: Option<Arc<Padding>>,
    /// To which lengths rows are filled up before they wait.
    pub lengths: Lengths,
    /// Numbers of jobs that run alone; `None` where rows run with those of others.
    pub alone: Option<Arc<AtomicU64>>,
    /// Does a job hold all that is put into a run, as of a graph that takes an image and any number of texts?
    pub is_whole: bool,
    /// What their runs cost, as far as it was known at load.
    pub costs: Arc<CostTable>,
    /// Of shapes, with a seed that no client knows.
    hashes: RandomState,
}

/// To which lengths rows are filled up before they wait. They are filled up further to the longest of their run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lengths {
    /// To none.
    #[default]
    Own,
    /// To the only length that the graph takes.
    Fixed(usize),
    /// To few lengths, since each new one costs a GPU much, and at most to this one.
    Rounded(usize),
}

/// A row on its way into the queue.
pub struct RowJob {
    /// Its tensors.
    pub work: Work,
    /// Rows run together only if these are equal.
    pub shape_key: u64,
    /// Its length, up to which it is filled.
    pub length: usize,
}

impl RowRuns {
    /// The rows of this pipeline, whose runs have these bounds where they are for rows of unequal length.
    pub fn new(steps: &Pipeline, bounds: Option<RunBounds>, is_on_gpu: bool) -> RowRuns {
        let padding = steps.may_pad().then(|| padding(steps)).flatten().map(Arc::new);
        let lengths = match steps.fixed_tokens() {
            Some(tokens) => Lengths::Fixed(tokens),
            None if is_on_gpu && padding.is_some() => {
                Lengths::Rounded(steps.text().map_or(1, |it| it.max_tokens()))
            }
            None => Lengths::Own,
        };
        // What has no length shares runs by its shape.
        let bounds = bounds.filter(|_| steps.text().is_some());
        let is_whole = steps.inputs().iter().any(|it| it.shape == RowShape::Whole);
        let alone = is_whole.then(Arc::default);
        let (costs, hashes) = (Arc::default(), RandomState::new());
        RowRuns { bounds, padding, lengths, alone, is_whole, costs, hashes }
    }

    /// The same, whose rows run with rows of their own length and request only.
    pub fn strict(self) -> RowRuns {
        RowRuns { bounds: None, alone: Some(Arc::default()), ..self }
    }

    /// How many of these rows of one request, the first and those behind it, are one job.
    pub fn rows_of_job(&self, lengths: impl Iterator<Item = usize>) -> usize {
        if self.alone.is_none() || self.is_whole {
            return 1;
        }
        let mut lengths = lengths.take(USUAL_ROWS).peekable();
        let first = lengths.peek().copied();
        lengths.take_while(|it| Some(*it) == first).count().max(1)
    }

    /// Most rows of one job of a request that has so many.
    pub fn most_of_job(&self, rows: usize) -> usize {
        self.rows_of_job(std::iter::repeat_n(0, rows))
    }

    /// Rows of one length as one job.
    ///
    /// # Errors
    /// When a tensor has not the shape of a row.
    pub fn job(
        &self,
        steps: &Pipeline,
        rows: Vec<Vec<NamedTensor>>,
        tokens: usize,
    ) -> Result<RowJob, Error> {
        let lost = || Error::Internal("rows have lost their shape".to_owned());
        let jobs = rows.into_iter().map(|it| self.row(steps, it, tokens));
        let mut jobs = jobs.collect::<Result<Vec<_>, Error>>()?;
        let mut job = jobs.pop().ok_or_else(lost)?;
        if jobs.is_empty() {
            return Ok(job);
        }
        for (at, input) in job.work.inputs.iter_mut().enumerate() {
            let before = jobs.iter().filter_map(|it| it.work.inputs.get(at));
            let parts = before.chain([&*input]).map(|it| &it.tensor);
            input.tensor = Tensor::concat(parts).ok_or_else(lost)?;
        }
        job.work.rows += jobs.len();
        Ok(job)
    }

    /// The job of a row of so many tokens.
    fn row(
        &self,
        steps: &Pipeline,
        inputs: Vec<NamedTensor>,
        tokens: usize,
    ) -> Result<RowJob, Error> {
        let lost = || Error::Internal("a row has lost its shape".to_owned());
        let length = match self.lengths {
            Lengths::Own => tokens,
            Lengths::Fixed(length) => length,
            Lengths::Rounded(most) => CostTable::rounded(tokens).min(most).max(tokens),
        };
        // Apart from requests that go to the graph as they are, whose outputs keep the length of their run.
        let mut key = self.hashes.build_hasher();
        "pipeline".hash(&mut key);
        let mut row = Vec::with_capacity(inputs.len());
        for (input, of_graph) in inputs.into_iter().zip(steps.inputs()) {
            let mut tensor = match of_graph.shape {
                RowShape::Whole => input.tensor,
                RowShape::Tokens { .. } | RowShape::Fixed(_) | RowShape::Varying => {
                    let dims = input.tensor.shape().dims().iter().copied();
                    let shape = std::iter::once(1).chain(dims);
                    input.tensor.reshape(shape.collect()).ok_or_else(lost)?
                }
            };
            if length != tokens && is_of_tokens(of_graph) {
                let padding = self.padding.as_ref().ok_or_else(lost)?;
                let parts = std::iter::once(&tensor);
                tensor = padding.fill(&input.name, parts, length).ok_or_else(lost)?;
            }
            if of_graph.shape == RowShape::Varying {
                tensor.shape().hash(&mut key);
            }
            row.push(NamedTensor { name: input.name, tensor });
        }
        let outputs = steps.outputs().iter().map(|it| it.name.clone()).collect();
        let work = Work { about: None, parts: None, signature: 0, inputs: row, outputs, rows: 1 };
        let number = self.alone.as_ref().map(|it| it.fetch_add(1, Ordering::Relaxed));
        number.hash(&mut key);
        let is_packed = self.bounds.is_some();
        if !is_packed || self.padding.is_none() {
            length.hash(&mut key);
        }
        Ok(RowJob { work, shape_key: key.finish(), length })
    }
}

fn is_of_tokens(input: &GraphInput) -> bool {
    matches!(input.shape, RowShape::Tokens { .. })
}

/// What each input is filled up with. `None` where one has a type that holds no tokens.
fn padding(steps: &Pipeline) -> Option<Padding> {
    let side = match steps.padding_side() {
        Side::Left => PaddingSide::Left,
        Side::Right => PaddingSide::Right,
    };
    let filler = |it: &GraphInput| match it.shape {
        RowShape::Tokens { pad } => {
            Some(Filler::new(it.dtype, pad, side).map(|filler| (it.name.clone(), filler)))
        }
        RowShape::Fixed(_) | RowShape::Varying | RowShape::Whole => None,
    };
    let inputs = steps.inputs().iter().filter_map(filler).collect::<Option<_>>()?;
    Some(Padding { inputs })
}

#[cfg(test)]
mod tests;
