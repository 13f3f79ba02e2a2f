//! The inputs and the parameters in a body for a pipeline that the server itself runs.

use std::sync::Arc;

use backend::{NamedTensor, Shape, Tensor};

use super::inputs::read_inputs;
use crate::{
    json::{Mark, Reader, Token},
    parameter, rows,
};
use inference::{
    error::Error,
    request::Parameter,
    signature::Signature,
    task::{TEXT, Task},
};

/// Parameters of a request, in their order.
pub(crate) type Parameters = Vec<(Arc<str>, Parameter)>;

/// The inputs of that task, and whether they are a list.
///
/// # Errors
/// When they are not those of the task.
pub(crate) fn inputs(
    signature: &Signature,
    task: Task,
    reader: &mut Reader<'_>,
) -> Result<(Vec<NamedTensor>, bool), Error> {
    let is_list = reader.peek()? == Token::Array;
    match holds_objects(reader)? {
        true if task == Task::QuestionAnswering && holds_lists(reader) => {
            Ok((for_all_rows(rows::read_columns(signature, reader)?), true))
        }
        true => Ok((read_inputs(signature, reader)?, is_list)),
        false => {
            let start = reader.mark();
            let read = read_inputs(of_text(signature), reader);
            Ok((read.map_err(|error| among_texts(reader, start).unwrap_or(error))?, is_list))
        }
    }
}

/// An object of parameters, or `null`.
///
/// # Errors
/// When it is neither.
pub(crate) fn parameters(reader: &mut Reader<'_>) -> Result<Parameters, Error> {
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
