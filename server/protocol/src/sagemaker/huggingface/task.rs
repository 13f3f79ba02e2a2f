//! A body for a pipeline that the server itself runs: its parameters are the pipeline's.

use std::sync::Arc;

use backend::{NamedTensor, Shape, Tensor};

use super::{
    inputs::read_inputs,
    pipeline::{Pipeline, Top},
};
use crate::{
    json::{Mark, Reader, Token},
    parameter, rows,
};
use inference::{
    error::Error,
    request::Parameter,
    signature::Signature,
    task::{CANDIDATE_LABELS, RETURN_ALL_SCORES, TEXT, TOP_K, Task},
};

/// Parameters of a request, in their order.
pub(super) type Parameters = Vec<(Arc<str>, Parameter)>;

/// `{"inputs": .., "parameters"?: {..}}`.
///
/// # Errors
/// When there is no `inputs`, or what it holds are not the inputs of the task.
pub(super) fn read(
    signature: &Signature,
    task: Task,
    reader: &mut Reader<'_>,
) -> Result<(Vec<NamedTensor>, Pipeline, Parameters), Error> {
    let (mut inputs, mut parameters, mut given) = (None, Vec::new(), Token::Array);
    reader.object(|reader, key| match &*key {
        "inputs" => {
            given = reader.peek()?;
            inputs = Some(match holds_objects(reader)? {
                true if task == Task::QuestionAnswering && holds_lists(reader) => {
                    given = Token::Array;
                    for_all_rows(rows::read_columns(signature, reader)?)
                }
                true => read_inputs(signature, reader)?,
                false => {
                    let start = reader.mark();
                    let read = read_inputs(of_text(signature), reader);
                    read.map_err(|error| among_texts(reader, start).unwrap_or(error))?
                }
            });
            Ok(())
        }
        "parameters" => {
            parameters = read_parameters(reader)?;
            Ok(())
        }
        // Of the service around the pipeline.
        _ => reader.skip_value(),
    })?;
    let inputs = inputs.ok_or_else(|| reader.error("expected the key 'inputs', found none"))?;
    let rows = inputs.first().and_then(|it| it.tensor.shape().rows());
    let one = match given {
        // The best class of one text comes in a list, as from the toolkit; that of one pair does not.
        Token::String => !gives_best_class(task, &inputs, &parameters),
        // A list of one text is answered as that text.
        Token::Array if task == Task::FillMask => rows == Some(1),
        _ => given != Token::Array,
    };
    Ok((inputs, Pipeline { one, top: Top::Open }, parameters))
}

/// The face of one text for each row, where a form has it.
fn of_text(signature: &Signature) -> &Signature {
    let forms = signature.pipeline.iter().flat_map(|it| &it.forms).map(|it| &it.signature);
    let takes_text = |it: &&Signature| rows::only_input(it).is_some_and(|it| &*it.name == TEXT);
    std::iter::once(signature).chain(forms).find(takes_text).unwrap_or(signature)
}

/// Is the value at the reader an object of which each value is a text or a list of texts, for as many rows?
fn holds_lists(reader: &mut Reader<'_>) -> bool {
    let start = reader.mark();
    let mut lists = false;
    let _ = reader.revisit(start, |reader| {
        reader.object(|reader, _| {
            lists |= reader.peek() == Ok(Token::Array);
            reader.skip_value()
        })
    });
    lists
}

/// Texts by the names of their inputs, each of which is a row; those that were given once stand for all rows.
fn for_all_rows(inputs: Vec<NamedTensor>) -> Vec<NamedTensor> {
    let most = inputs.iter().map(|it| it.tensor.elements()).max().unwrap_or(1);
    let column = |NamedTensor { name, tensor }| {
        let texts = tensor.reshape(Shape::new(&[tensor.elements(), 1])).unwrap_or(tensor);
        let repeated = || Tensor::concat(std::iter::repeat_n(&texts, most));
        let repeated = (texts.elements() == 1).then(repeated).flatten();
        NamedTensor { name, tensor: repeated.unwrap_or(texts) }
    };
    inputs.into_iter().map(column).collect()
}

/// What is wrong with a list at that place that begins with a text and has an object behind it.
fn among_texts<'a>(reader: &mut Reader<'a>, start: Mark<'a>) -> Option<Error> {
    let mut found = None;
    let _ = reader.revisit(start, |reader| {
        reader.array(|reader, at| match (at, reader.peek()?) {
            (_, Token::String) => reader.skip_value(),
            (1.., Token::Object) => {
                let problem = "expected a text, as the first one is, found an object; write all of them as objects";
                found = Some(reader.error(problem));
                Err(rows::enough())
            }
            _ => Err(rows::enough()),
        })
    });
    found
}

/// Is the value at the reader an object, or a list of them?
fn holds_objects(reader: &mut Reader<'_>) -> Result<bool, Error> {
    let start = reader.mark();
    let first = match reader.peek()? {
        Token::Array => match rows::first_item(reader, &start)? {
            Some(first) => reader.revisit(first, Reader::peek)?,
            None => Token::Array,
        },
        other => other,
    };
    Ok(first == Token::Object)
}

/// Is the value at the reader an object of inputs of the graph?
pub(in crate::sagemaker) fn holds_tensors_of_graph(
    signature: &Signature,
    reader: &mut Reader<'_>,
) -> bool {
    let forms = || signature.pipeline.iter().flat_map(|it| &it.forms);
    let graphs = || forms().filter(|it| it.task.is_none()).map(|it| &it.signature);
    let start = reader.mark();
    let mut is_of_graph = false;
    let _ = reader.revisit(start, |reader| {
        reader.object(|_, key| {
            is_of_graph = graphs().any(|it| it.input(&key).is_some());
            Err(rows::enough())
        })
    });
    is_of_graph
}

/// The form of the reply to one text that came by itself, as a body.
pub(in crate::sagemaker) fn of_body(signature: &Signature, inputs: &[NamedTensor]) -> Pipeline {
    let task = signature.pipeline.as_ref().map(|it| it.task);
    let is_best = task.is_some_and(|task| gives_best_class(task, inputs, &Vec::new()));
    Pipeline { one: !is_best, ..Pipeline::TEXT }
}

/// An object of parameters, or `null`.
///
/// # Errors
/// When it is neither.
pub(super) fn read_parameters(reader: &mut Reader<'_>) -> Result<Parameters, Error> {
    let mut parameters = Vec::new();
    match reader.peek()? {
        Token::Null => reader.null()?,
        _ => reader.object(|reader, key| {
            parameter::check(reader, parameters.len(), &key)?;
            parameters.push((key.as_ref().into(), parameter::any(reader, &key)?));
            Ok(())
        })?,
    }
    Ok(parameters)
}

/// Is a row answered by one class, and no list of them?
fn gives_best_class(task: Task, inputs: &[NamedTensor], parameters: &Parameters) -> bool {
    let has = |name: &str| parameters.iter().any(|(it, _)| &**it == name);
    let all_scores = (Arc::from(RETURN_ALL_SCORES), Parameter::Bool(true));
    let classifies = match task {
        Task::TextClassification | Task::Rerank => true,
        Task::ZeroShotClassification => !has(CANDIDATE_LABELS),
        Task::TokenClassification
        | Task::QuestionAnswering
        | Task::FillMask
        | Task::FeatureExtraction
        | Task::SentenceEmbedding
        | Task::SentenceSimilarity
        | Task::SparseEmbedding => false,
    };
    classifies
        && inputs.iter().any(|it| &*it.name == TEXT)
        && !has(TOP_K)
        && !parameters.contains(&all_scores)
}
