//! Replies of a pipeline as the output tensors that a request wants.

use std::sync::Arc;

use backend::{BackendError, DataType, NamedTensor, Shape, SizeMismatch, Tensor};

use inference::{
    error::Error,
    task::{
        BOX, CLASS, COUNT, EMBEDDING, IMAGE_EMBEDS, LABEL, RESULT, SCORE, SIZE, TEXT, TEXT_EMBEDS,
        TOKENS, TRUNCATED,
    },
};
use steps::{Reply, ResultForm, result_json};

/// Most bytes of the JSON of all replies to one request.
const MOST_BYTES: usize = 64 << 20;

/// The wanted outputs, filled row by row: no reply is kept longer than it takes to write it.
pub struct Outputs {
    columns: Vec<Column>,
    rows: usize,
    /// Bytes of all replies.
    bytes: usize,
}

/// One output.
struct Column {
    name: Arc<str>,
    /// Elements of each row.
    widths: Vec<usize>,
    /// Are rows of objects, which are filled up to the one with the most?
    has_objects: bool,
    values: Values,
}

enum Values {
    /// Replies as JSON, and how long they are.
    Result(Vec<String>, usize),
    Labels(Vec<String>),
    Scores(Vec<f32>),
    Embedding(Vec<f32>),
    /// Of the tower of images.
    ImageEmbeds(Vec<f32>),
    /// Of the tower of texts.
    TextEmbeds(Vec<f32>),
    Tokens(Vec<i64>),
    Truncated(Vec<bool>),
    /// Four numbers for each object.
    Boxes(Vec<f32>),
    Classes(Vec<i64>),
    Count(Vec<i64>),
    /// Height and width of an image.
    Sizes(Vec<i64>),
    Transcripts(Vec<String>),
}

/// What an input has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Tokens of all of its rows, special ones included.
    pub tokens: usize,
    /// Was a text cut to make one of them?
    pub is_truncated: bool,
}

impl Outputs {
    /// None of the rows of these outputs.
    ///
    /// # Errors
    /// When no pipeline has such an output.
    pub fn new(wanted: &[Arc<str>]) -> Result<Outputs, Error> {
        let column = |name: &Arc<str>| {
            let values = match &**name {
                RESULT => Values::Result(Vec::new(), 0),
                LABEL => Values::Labels(Vec::new()),
                SCORE => Values::Scores(Vec::new()),
                EMBEDDING => Values::Embedding(Vec::new()),
                IMAGE_EMBEDS => Values::ImageEmbeds(Vec::new()),
                TEXT_EMBEDS => Values::TextEmbeds(Vec::new()),
                TOKENS => Values::Tokens(Vec::new()),
                TRUNCATED => Values::Truncated(Vec::new()),
                BOX => Values::Boxes(Vec::new()),
                CLASS => Values::Classes(Vec::new()),
                COUNT => Values::Count(Vec::new()),
                SIZE => Values::Sizes(Vec::new()),
                TEXT => Values::Transcripts(Vec::new()),
                other => {
                    return Err(Error::Internal(format!("a pipeline has no output '{other}'")));
                }
            };
            Ok(Column { name: name.clone(), widths: Vec::new(), has_objects: false, values })
        };
        let columns = wanted.iter().map(column).collect::<Result<_, Error>>()?;
        Ok(Outputs { columns, rows: 0, bytes: 0 })
    }

    /// Adds the reply to one more input.
    ///
    /// # Errors
    /// Where its row of an output is longer or shorter than those before it, so that they make no tensor, and where all
    /// replies together are too long.
    pub fn push(
        &mut self,
        reply: &Reply,
        asked: &ResultForm<'_>,
        counts: Counts,
    ) -> Result<(), Error> {
        self.rows += 1;
        for column in &mut self.columns {
            self.bytes += column.push(reply, asked, counts)?;
        }
        Ok(())
    }

    /// Bytes of all replies so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The tensors.
    ///
    /// # Errors
    /// Only when sizes overflow.
    pub fn finish(self) -> Result<Vec<NamedTensor>, Error> {
        let Outputs { columns, rows, .. } = self;
        let tensor = |Column { name, widths, values, .. }| {
            let width = widths.iter().copied().max().unwrap_or(0);
            let shape = match &values {
                Values::Boxes(_) => Shape::new(&[rows, width, 4]),
                _ => Shape::new(&[rows, width]),
            };
            let tensor = match values {
                Values::Result(texts, _) | Values::Transcripts(texts) => {
                    Tensor::from_strings(shape, texts)
                }
                Values::Labels(texts) => {
                    Tensor::from_strings(shape, filled(texts, &widths, width, String::new()))
                }
                Values::Scores(values) => {
                    Tensor::from_vec(shape, filled(values, &widths, width, -1.0))
                }
                Values::Boxes(values) => {
                    let (corners, _) = values.as_chunks::<4>();
                    let filled = filled(corners.to_vec(), &widths, width, [-1.0; 4]);
                    Tensor::from_vec(shape, filled.into_flattened())
                }
                Values::Classes(values) => {
                    Tensor::from_vec(shape, filled(values, &widths, width, -1))
                }
                Values::Embedding(values)
                | Values::ImageEmbeds(values)
                | Values::TextEmbeds(values) => Tensor::from_vec(shape, values),
                Values::Tokens(counts) | Values::Count(counts) | Values::Sizes(counts) => {
                    Tensor::from_vec(shape, counts)
                }
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
    /// Adds the reply to one more input; the bytes that it takes.
    fn push(
        &mut self,
        reply: &Reply,
        asked: &ResultForm<'_>,
        counts: Counts,
    ) -> Result<usize, Error> {
        let mut text_bytes = 0;
        let width = match &mut self.values {
            Values::Result(texts, bytes) => {
                let text = result_json(reply, asked);
                *bytes += text.len();
                text_bytes = text.len();
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
            Values::Labels(all) => {
                let labels = reply.labels(asked.is_best_only);
                text_bytes = labels.iter().map(String::len).sum();
                add(all, labels)
            }
            Values::Scores(all) => add(all, reply.scores(asked.is_best_only)),
            Values::Embedding(all) => add(all, reply.embedding()),
            Values::ImageEmbeds(all) => add(all, reply.towers().image),
            Values::TextEmbeds(all) => add(all, reply.towers().text),
            Values::Tokens(all) => add(all, vec![counts.tokens as i64]),
            Values::Truncated(all) => add(all, vec![counts.is_truncated]),
            Values::Boxes(all) => {
                add(all, reply.objects().iter().flat_map(|it| it.corners).collect()) / 4
            }
            Values::Classes(all) => {
                let numbers = reply.class_numbers(asked.is_best_only);
                add(all, numbers.into_iter().map(|it| it as i64).collect())
            }
            Values::Sizes(all) => add(all, reply.size().map(i64::from).to_vec()),
            Values::Count(all) => add(all, vec![reply.objects().len() as i64]),
            Values::Transcripts(all) => {
                text_bytes = reply.transcript().len();
                add(all, vec![reply.transcript().to_owned()])
            }
        };
        self.has_objects |= matches!(reply, Reply::Objects(_));
        let is_uneven = self.widths.last().is_some_and(|it| *it != width);
        self.widths.push(width);
        if is_uneven && !self.has_objects {
            let problem = format!("output '{}' differs in length between the rows", self.name);
            return Err(Error::Backend(BackendError::Execute(problem)));
        }
        let place = match &self.values {
            Values::Result(..) | Values::Labels(_) | Values::Transcripts(_) => size_of::<String>(),
            Values::Tokens(_) | Values::Classes(_) | Values::Count(_) | Values::Sizes(_) => 8,
            Values::Boxes(_) => 16,
            Values::Truncated(_) => 1,
            Values::Scores(_)
            | Values::Embedding(_)
            | Values::ImageEmbeds(_)
            | Values::TextEmbeds(_) => 4,
        };
        Ok(width * place + text_bytes)
    }
}

/// Rows of equal length: `with` fills each up to `width` elements.
fn filled<T: Clone>(values: Vec<T>, widths: &[usize], width: usize, with: T) -> Vec<T> {
    if widths.iter().all(|it| *it == width) {
        return values;
    }
    let mut rows = Vec::with_capacity(width.saturating_mul(widths.len()));
    let mut values = values.into_iter();
    for (row, given) in widths.iter().enumerate() {
        rows.extend(values.by_ref().take(*given));
        rows.resize((row + 1) * width, with.clone());
    }
    rows
}

/// Adds the elements of a row; how many there are.
fn add<T>(all: &mut Vec<T>, row: Vec<T>) -> usize {
    let width = row.len();
    all.extend(row);
    width
}

#[cfg(test)]
mod tests {
    use super::*;
    use steps::{Object, Objects};

    fn objects(classes: &[usize]) -> Reply {
        let object = |&class: &usize| Object {
            label: format!("c{class}").into(),
            class,
            score: 0.5,
            corners: [0.0, 1.0, 2.0, class as f32],
        };
        Reply::Objects(Objects { found: classes.iter().map(object).collect(), size: [40, 50] })
    }

    #[test]
    fn classes_have_their_numbers_best_first() {
        let mut outputs = Outputs::new(&[LABEL, CLASS].map(Arc::from)).unwrap();
        let label = |class: usize| steps::Label { label: "x".into(), class, score: 0.5 };
        let form = ResultForm { text: "", is_best_only: false };
        let reply = Reply::Labels([2, 0, 1].map(label).to_vec());
        outputs.push(&reply, &form, Counts::default()).unwrap();
        let tensors = outputs.finish().unwrap();
        assert_eq!(tensors[1].tensor.as_slice_of::<i64>().unwrap(), [2, 0, 1]);
        assert_eq!(tensors[1].tensor.shape(), tensors[0].tensor.shape());
    }

    #[test]
    fn rows_of_objects_are_filled_up_to_the_one_with_the_most() {
        let wanted = [BOX, CLASS, LABEL, SCORE, COUNT, SIZE].map(Arc::from);
        let mut outputs = Outputs::new(&wanted).unwrap();
        let form = ResultForm { text: "", is_best_only: false };
        for reply in [objects(&[7]), objects(&[]), objects(&[3, 4])] {
            outputs.push(&reply, &form, Counts::default()).unwrap();
        }
        let tensors = outputs.finish().unwrap();
        let shape = |at: usize| tensors[at].tensor.shape().dims().to_vec();
        assert_eq!((shape(0), shape(1), shape(4)), (vec![3, 2, 4], vec![3, 2], vec![3, 1]));
        let classes = tensors[1].tensor.as_slice_of::<i64>().unwrap();
        assert_eq!(classes, [7, -1, -1, -1, 3, 4]);
        let boxes = tensors[0].tensor.as_slice_of::<f32>().unwrap();
        assert_eq!(boxes[..8], [0.0, 1.0, 2.0, 7.0, -1.0, -1.0, -1.0, -1.0]);
        let labels: Vec<&[u8]> = tensors[2].tensor.strings().collect();
        assert_eq!(labels, [&b"c7"[..], b"", b"", b"", b"c3", b"c4"]);
        assert_eq!(tensors[4].tensor.as_slice_of::<i64>().unwrap(), [1, 0, 2]);
        assert_eq!(tensors[5].tensor.as_slice_of::<i64>().unwrap()[..2], [40, 50]);
    }

    #[test]
    fn all_candidates_are_given_and_of_classes_the_best() {
        let label =
            |(label, score): (&str, f32)| steps::Label { label: label.into(), class: 0, score };
        let labels: Vec<steps::Label> = [("a", 0.75), ("b", 0.25)].map(label).into();
        let form = ResultForm { text: "", is_best_only: true };
        let given = |reply: Reply| {
            let mut outputs = Outputs::new(&[LABEL, SCORE].map(Arc::from)).unwrap();
            outputs.push(&reply, &form, Counts::default()).unwrap();
            let tensors = outputs.finish().unwrap();
            tensors.iter().map(|it| it.tensor.shape().dims().to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(given(Reply::Candidates(labels.clone())), [[1, 2], [1, 2]]);
        assert_eq!(given(Reply::Labels(labels)), [[1, 1], [1, 1]]);
    }
}
