//! Replies of a pipeline as the output tensors that a request wants.

use std::sync::Arc;

use backend::{BackendError, DataType, NamedTensor, Shape, SizeMismatch, Tensor};

use inference::{
    error::Error,
    task::{EMBEDDING, LABEL, RESULT, SCORE, TOKENS, TRUNCATED},
};
use steps::{Reply, ResultForm, result_json};

/// Most bytes of the JSON of all replies to one request.
const MOST_BYTES: usize = 64 << 20;

/// The wanted outputs, filled row by row: no reply is kept longer than it takes to write it.
pub(crate) struct Outputs {
    columns: Vec<Column>,
    rows: usize,
}

/// One output.
struct Column {
    name: Arc<str>,
    /// Elements of a row; `None` before the first.
    width: Option<usize>,
    values: Values,
}

enum Values {
    /// Replies as JSON, and how long they are.
    Result(Vec<String>, usize),
    Labels(Vec<String>),
    Scores(Vec<f32>),
    Embedding(Vec<f32>),
    Tokens(Vec<i64>),
    Truncated(Vec<bool>),
}

/// What an input has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Tokens of all of its rows, special ones included.
    pub(crate) tokens: usize,
    /// Was a text cut to make one of them?
    pub(crate) is_truncated: bool,
}

impl Outputs {
    /// None of the rows of these outputs.
    ///
    /// # Errors
    /// When no pipeline has such an output.
    pub(crate) fn new(wanted: &[Arc<str>]) -> Result<Outputs, Error> {
        let column = |name: &Arc<str>| {
            let values = match &**name {
                RESULT => Values::Result(Vec::new(), 0),
                LABEL => Values::Labels(Vec::new()),
                SCORE => Values::Scores(Vec::new()),
                EMBEDDING => Values::Embedding(Vec::new()),
                TOKENS => Values::Tokens(Vec::new()),
                TRUNCATED => Values::Truncated(Vec::new()),
                other => {
                    return Err(Error::Internal(format!("a pipeline has no output '{other}'")));
                }
            };
            Ok(Column { name: name.clone(), width: None, values })
        };
        let columns = wanted.iter().map(column).collect::<Result<_, Error>>()?;
        Ok(Outputs { columns, rows: 0 })
    }

    /// Adds the reply to one more input.
    ///
    /// # Errors
    /// Where its row of an output is longer or shorter than those before it, so that they make no tensor, and where all
    /// replies together are too long.
    pub(crate) fn push(
        &mut self,
        reply: &Reply,
        asked: &ResultForm<'_>,
        counts: Counts,
    ) -> Result<(), Error> {
        self.rows += 1;
        self.columns.iter_mut().try_for_each(|it| it.push(reply, asked, counts))
    }

    /// The tensors.
    ///
    /// # Errors
    /// Only when sizes overflow.
    pub(crate) fn finish(self) -> Result<Vec<NamedTensor>, Error> {
        let Outputs { columns, rows } = self;
        let tensor = |Column { name, width, values }| {
            let shape = Shape::new(&[rows, width.unwrap_or(0)]);
            let tensor = match values {
                Values::Result(texts, _) | Values::Labels(texts) => {
                    Tensor::from_strings(shape, texts)
                }
                Values::Scores(values) | Values::Embedding(values) => {
                    Tensor::from_vec(shape, values)
                }
                Values::Tokens(counts) => Tensor::from_vec(shape, counts),
                Values::Truncated(flags) => {
                    let bytes: Vec<u8> = flags.into_iter().map(u8::from).collect();
                    Tensor::new(DataType::Bool, shape, bytes.into())
                }
            };
            let tensor =
                tensor.map_err(|error: SizeMismatch| Error::Internal(error.to_string()))?;
            Ok(NamedTensor { name, tensor })
        };
        columns.into_iter().map(tensor).collect()
    }
}

impl Column {
    fn push(&mut self, reply: &Reply, asked: &ResultForm<'_>, counts: Counts) -> Result<(), Error> {
        let width = match &mut self.values {
            Values::Result(texts, bytes) => {
                let text = result_json(reply, asked);
                *bytes += text.len();
                if *bytes > MOST_BYTES {
                    let problem = format!(
                        "the replies to this request take more than {} MiB; send fewer inputs, or ask for fewer answers",
                        MOST_BYTES >> 20
                    );
                    return Err(Error::InvalidRequest(problem));
                }
                texts.push(text);
                1
            }
            Values::Labels(all) => add(all, reply.labels(asked.is_best_only)),
            Values::Scores(all) => add(all, reply.scores(asked.is_best_only)),
            Values::Embedding(all) => add(all, reply.embedding()),
            Values::Tokens(all) => add(all, vec![counts.tokens as i64]),
            Values::Truncated(all) => add(all, vec![counts.is_truncated]),
        };
        if *self.width.get_or_insert(width) != width {
            let problem = format!("output '{}' differs in length between the rows", self.name);
            return Err(Error::Backend(BackendError::Execute(problem)));
        }
        Ok(())
    }
}

/// Adds the elements of a row; how many there are.
fn add<T>(all: &mut Vec<T>, row: Vec<T>) -> usize {
    let width = row.len();
    all.extend(row);
    width
}
