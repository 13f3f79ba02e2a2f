//! The contract with the server: what a row of a run is made of, and the three calls around a run.
//!
//! `prepare` runs in the task of the request, or in a pool of threads. `reduce` runs behind the graph on the
//! thread of the model, once for each row, and leaves little of its outputs. `finish` runs in the task again and
//! puts the rows of one input together. All three take `&self`, hold no lock and read no file.

use std::sync::Arc;

use backend::{DataType, NamedTensor};

#[cfg(feature = "pipelines")]
use crate::context::{Context, Work};
#[cfg(not(feature = "pipelines"))]
use crate::no_context::{Context, Work};
use crate::{
    error::RowError,
    head::reduced::Reduced,
    outputs::{GraphOutput, RowOutput},
    reply::Reply,
    request::{Input, Parameters},
    wanted::StillWanted,
};
use inference::task::Task;

/// What stands before and behind a graph. Shared by all threads.
pub trait Step: Send + Sync {
    /// The inputs of the graph that rows bring along, and how they are padded.
    fn inputs(&self) -> &[GraphInput];

    /// The outputs of the graph that `reduce` reads, in the order in which it gets them.
    fn outputs(&self) -> &[GraphOutput];

    /// [`Step::prepare_while`] of what is wanted in any case.
    ///
    /// # Errors
    /// When the input cannot be answered. Nothing of it has been queued then.
    fn prepare(
        &self,
        task: Task,
        input: &Input<'_>,
        parameters: &Parameters,
    ) -> Result<Prepared, RowError> {
        self.prepare_while(task, input, parameters, &|| true)
    }

    /// One input as rows of the graph: one, or several for windows, candidate labels and lists of sentences.
    ///
    /// # Errors
    /// When the input cannot be answered. Nothing of it has been queued then. [`RowError::Stopped`] where it is not
    /// `wanted` any more, which is asked while an image or a sound is decoded, and between the texts of a list.
    fn prepare_while(
        &self,
        task: Task,
        input: &Input<'_>,
        parameters: &Parameters,
        wanted: StillWanted<'_>,
    ) -> Result<Prepared, RowError>;

    /// Most bytes that [`Step::prepare`] holds for this input at one time, beside the input: what is decoded, the
    /// tokens of a text, and the rows. Reads no more than the head of a file.
    ///
    /// # Errors
    /// When the input cannot be taken, such as an image with too many pixels.
    fn bytes_to_prepare(&self, input: &Input<'_>) -> Result<usize, RowError>;

    /// Bytes that a run of this row takes inside of the graph, beside those of its inputs, as far as the folder says
    /// what the graph does. 0 where it does not.
    fn bytes_to_run(&self, row: &Row) -> usize;

    /// What is kept of the outputs of one row, which come in the order of [`Step::outputs`], without padding.
    ///
    /// # Errors
    /// When the graph has given something that cannot be read, such as NaN.
    fn reduce(&self, work: &Work, outputs: &[RowOutput<'_>]) -> Result<Reduced, RowError>;

    /// [`Step::finish_while`] of what is wanted in any case.
    ///
    /// # Errors
    /// When the rows do not give one.
    fn finish(&self, context: Context, rows: Vec<Reduced>) -> Result<Reply, RowError> {
        self.finish_while(context, rows, &|| true)
    }

    /// The reply to one input, from all of its rows in the order in which `prepare` gave them.
    ///
    /// # Errors
    /// When the rows do not give one. [`RowError::Stopped`] where it is not `wanted` any more, which is asked while
    /// masks are filled.
    fn finish_while(
        &self,
        context: Context,
        rows: Vec<Reduced>,
        wanted: StillWanted<'_>,
    ) -> Result<Reply, RowError>;
}

/// An input of the graph that every row brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphInput {
    /// Its name in the graph.
    pub name: Arc<str>,
    /// Its type there: INT64 or INT32 for tokens.
    pub dtype: DataType,
    /// What a row has of it.
    pub shape: RowShape,
}

/// The shape of what a row brings of one input, without the dimension of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowShape {
    /// One value for each token, and the value that stands for padding.
    Tokens {
        /// The value for padding.
        pad: i64,
    },
    /// The same shape for every row, whatever its length. Never padded.
    Fixed(Vec<usize>),
    /// A shape of the row's own. Only rows of equal shapes share a run.
    Varying,
    /// As the graph takes it, its first dimension included. Such a row shares no run.
    Whole,
}

/// Bytes around the values of an input: its name and shape, who owns the values, and what the allocator adds to each of
/// these.
const AROUND_INPUT: usize = size_of::<NamedTensor>() + 96;

/// The same around the inputs of a row, which moves from one list to another before it runs.
const AROUND_ROW: usize = 2 * size_of::<Row>() + 32;

/// One input of a request, ready for the graph.
#[derive(Debug)]
pub struct Prepared {
    /// Rows of the graph. Never empty, but for an empty list of sentences or texts.
    pub rows: Vec<Row>,
    /// What [`Step::finish`] needs to know of the input.
    pub context: Context,
}

impl Prepared {
    /// Tokens of all rows, special ones included.
    pub fn tokens(&self) -> usize {
        self.rows.iter().map(|it| it.tokens).sum()
    }

    /// Bytes of all rows, with those around their values: a short text has more of them than of values.
    pub fn bytes(&self) -> usize {
        let inputs = self.rows.iter().flat_map(|it| &it.inputs);
        let of_inputs: usize = inputs.map(|it| it.tensor.byte_len() + AROUND_INPUT).sum();
        of_inputs + self.rows.len() * AROUND_ROW
    }

    /// Rows that were cut.
    pub fn truncated(&self) -> usize {
        self.rows.iter().filter(|it| it.is_truncated).count()
    }
}

/// One row of the graph.
#[derive(Debug)]
pub struct Row {
    /// A value for each of [`Step::inputs`], in their order, without the dimension of the rows.
    pub inputs: Vec<NamedTensor>,
    /// Its length in tokens, special ones included: the price of the row.
    pub tokens: usize,
    /// Was a text cut to make it?
    pub is_truncated: bool,
    /// What [`Step::reduce`] needs to know of it.
    pub work: Work,
}
