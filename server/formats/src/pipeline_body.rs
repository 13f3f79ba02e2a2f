//! The inputs and the parameters in a body for a pipeline that the server itself runs.

mod texts;

use std::sync::Arc;

use backend::{NamedTensor, Shape, Tensor};

use crate::{
    inputs,
    json::{JsonReader, Mark, Token},
    parameter, rows,
};
use inference::{
    error::Error,
    granted::Granted,
    request::Parameter,
    signature::Signature,
    task::{CONTEXT, QUESTION, TEXT, Task},
};

pub use texts::{TEXT as ANY_TEXT, read_inputs, takes_text};

/// Parameters of a request, in their order.
pub type Parameters = Vec<(Arc<str>, Parameter)>;

/// The inputs of that task, and whether they are a list.
///
/// # Errors
/// When they are not those of the task.
pub fn inputs(
    signature: &Signature,
    task: Task,
    reader: &mut JsonReader<'_>,
) -> Result<(Vec<NamedTensor>, bool), Error> {
    let is_list = reader.peek()? == Token::Array;
    match holds_objects(reader)? {
        true if task == Task::QuestionAnswering && !lists(reader).is_empty() => {
            let lists = lists(reader);
            let columns = rows::read_columns(signature, reader)?;
            Ok((for_all_rows(columns, &lists)?, true))
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
pub fn parameters(reader: &mut JsonReader<'_>) -> Result<Parameters, Error> {
    let mut parameters = Granted::new(reader.grant());
    match reader.peek()? {
        Token::Null => reader.null()?,
        _ => reader.object(|reader, key| {
            parameter::check(reader, parameters.len(), &key)?;
            let value = parameter::any(reader, &key)?;
            parameters.push((reader.shared(&key)?, value))
        })?,
    }
    Ok(parameters.into_vec())
}

/// The face of one text for each row, where a form has it. Of a model whose own input is files a string is one.
fn of_text(signature: &Signature) -> &Signature {
    if signature.inputs.iter().any(|it| signature.takes_files(&it.name)) {
        return signature;
    }
    let forms = signature.pipeline.iter().flat_map(|it| &it.forms).map(|it| &it.signature);
    let takes_text = |it: &&Signature| inputs::only_input(it).is_some_and(|it| &*it.name == TEXT);
    std::iter::once(signature).chain(forms).find(takes_text).unwrap_or(signature)
}

/// The keys of the object at the reader whose values are lists.
fn lists(reader: &mut JsonReader<'_>) -> Vec<String> {
    let start = reader.mark();
    let mut lists = Vec::new();
    let _ = reader.revisit(start, |reader| {
        reader.object(|reader, key| {
            if reader.peek() == Ok(Token::Array) {
                lists.push(key.as_ref().to_owned());
            }
            reader.skip_value()
        })
    });
    lists
}

/// Texts by the names of their inputs, each of which is a row. Lists are of as many; a text without a list stands for
/// all rows, as the reference has it for one context of several questions.
fn for_all_rows(inputs: Vec<NamedTensor>, lists: &[String]) -> Result<Vec<NamedTensor>, Error> {
    let is_list = |it: &&NamedTensor| lists.iter().any(|list| *list == *it.name);
    let lengths = inputs.iter().filter(is_list).map(|it| it.tensor.elements());
    let rows = lengths.clone().max().unwrap_or(1);
    if lengths.clone().any(|it| it != rows) {
        let shown = |it: &NamedTensor| format!("'{}' {}", it.name, it.tensor.elements());
        let shown: Vec<String> = inputs.iter().filter(is_list).map(shown).collect();
        return Err(Error::InvalidRequest(format!(
            "inputs: expected lists of equal length, found {}; one text for all is written without a list",
            shown.join(" and ")
        )));
    }
    // As in the reference, whose questions may share a context, and whose contexts share no question.
    if lists.iter().any(|it| it == CONTEXT)
        && let Some(question) = inputs.iter().find(|it| &*it.name == QUESTION)
        && !is_list(&question)
    {
        return Err(Error::InvalidRequest(format!(
            "inputs: expected a list of questions for the list of {rows} contexts, found one question; write it once \
             for each context"
        )));
    }
    let column = |input: NamedTensor| {
        let is_for_all = !is_list(&&input);
        let NamedTensor { name, tensor } = input;
        let texts = tensor.reshape(Shape::new(&[tensor.elements(), 1])).unwrap_or(tensor);
        let repeated = is_for_all.then(|| Tensor::concat(std::iter::repeat_n(&texts, rows)));
        NamedTensor { name, tensor: repeated.flatten().unwrap_or(texts) }
    };
    Ok(inputs.into_iter().map(column).collect())
}

/// What is wrong with a list at that place that begins with a text and has an object behind it.
fn among_texts<'a>(reader: &mut JsonReader<'a>, start: Mark<'a>) -> Option<Error> {
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
fn holds_objects(reader: &mut JsonReader<'_>) -> Result<bool, Error> {
    let start = reader.mark();
    let first = match reader.peek()? {
        Token::Array => match rows::first_item(reader, &start)? {
            Some(first) => reader.revisit(first, JsonReader::peek)?,
            None => Token::Array,
        },
        other => other,
    };
    Ok(first == Token::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(name: &str, texts: &[&str]) -> NamedTensor {
        let tensor = Tensor::from_strings(Shape::new(&[texts.len(), 1]), texts).unwrap();
        NamedTensor { name: name.into(), tensor }
    }

    /// What the second input becomes beside two questions.
    fn contexts(contexts: &[&str], lists: &[&str]) -> Result<Vec<String>, Error> {
        let inputs = vec![texts("question", &["a", "b"]), texts("context", contexts)];
        let lists: Vec<String> = lists.iter().map(|it| (*it).to_owned()).collect();
        let made = for_all_rows(inputs, &lists)?;
        let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
        Ok(made[1].tensor.strings().map(text).collect())
    }

    #[test]
    fn a_text_stands_for_all_questions_and_lists_are_of_as_many() {
        let both = ["question", "context"];
        assert_eq!(contexts(&["c"], &["question"]).unwrap(), ["c", "c"]);
        assert_eq!(contexts(&["c", "d"], &both).unwrap(), ["c", "d"]);
        let error = contexts(&["c"], &both).unwrap_err().to_string();
        let expected = "inputs: expected lists of equal length, found 'question' 2 and 'context' 1; one text for all is \
                        written without a list";
        assert_eq!(error, expected);
        let inputs = vec![texts("question", &["a"]), texts("context", &["c", "d"])];
        let error = for_all_rows(inputs, &["context".to_owned()]).unwrap_err().to_string();
        let expected = "inputs: expected a list of questions for the list of 2 contexts, found one question; write it \
                        once for each context";
        assert_eq!(error, expected);
    }
}
