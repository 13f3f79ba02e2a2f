//! A body for a pipeline that the server itself runs: its parameters are the pipeline's.

use backend::NamedTensor;

use super::pipeline::{PipelineReply, Top};
use formats::{
    json::{JsonReader, Token, write},
    parameter::says_top,
    pipeline_body::{Parameters, inputs, parameters as read_parameters},
    rows,
};
use inference::{
    error::Error,
    granted::Granted,
    signature::Signature,
    task::{CANDIDATE_LABELS, RowForm, TEXT, Task},
};

/// `{"inputs": .., "parameters"?: {..}}`, or one object of inputs with `parameters` among them.
///
/// # Errors
/// When they are not the inputs of the task.
pub(super) fn read(
    signature: &Signature,
    task: Task,
    reader: &mut JsonReader<'_>,
) -> Result<(Vec<NamedTensor>, PipelineReply, Parameters), Error> {
    let (mut read, mut parameters, mut given) = (None, Vec::new(), Token::Array);
    if is_plain(reader) {
        return read_plain(signature, task, reader);
    }
    reader.object(|reader, key| match &*key {
        "inputs" => {
            given = reader.peek()?;
            read = Some(inputs(signature, task, reader)?);
            Ok(())
        }
        "parameters" => {
            parameters = read_parameters(reader)?;
            Ok(())
        }
        // Of the service around the pipeline.
        _ => reader.skip_value(),
    })?;
    let read = read.ok_or_else(|| reader.error("expected the key 'inputs', found none"))?;
    let (inputs, is_list) = read;
    let one = match given {
        // The best class of one text comes in a list, as from the toolkit; that of one pair does not.
        Token::String => !gives_best_class(task, &inputs, &parameters),
        Token::Array if task == Task::FillMask => is_one_of_list(task, &inputs),
        _ => !is_list,
    };
    Ok((inputs, PipelineReply { one, top: Top::Open }, parameters))
}

/// Is the value at the reader an object without `inputs`?
pub(super) fn is_plain(reader: &mut JsonReader<'_>) -> bool {
    let (start, mut found) = (reader.mark(), false);
    let read = reader.revisit(start, |reader| {
        reader.object(|reader, key| {
            found |= key == "inputs";
            if found { Err(rows::enough()) } else { reader.skip_value() }
        })
    });
    read.is_ok() && !found
}

/// One object of inputs, with `parameters` among them.
fn read_plain(
    signature: &Signature,
    task: Task,
    reader: &mut JsonReader<'_>,
) -> Result<(Vec<NamedTensor>, PipelineReply, Parameters), Error> {
    let (mut parameters, mut plain) = (Vec::new(), Granted::new(reader.grant()));
    plain.push(b'{')?;
    reader.object(|reader, key| match &*key {
        "parameters" => {
            parameters = read_parameters(reader)?;
            Ok(())
        }
        key => {
            if 1 < plain.len() {
                plain.push(b',')?;
            }
            // A byte of a key is written as six at most, between quotes.
            plain.reserve(key.len().saturating_mul(6).saturating_add(2))?;
            write::string(plain.within_room(), key);
            plain.push(b':')?;
            plain.extend_from_slice(reader.raw_value()?.as_bytes())
        }
    })?;
    plain.push(b'}')?;
    let mut reader = JsonReader::new(&plain, reader.grant())?;
    let (inputs, is_list) = inputs(signature, task, &mut reader)?;
    Ok((inputs, PipelineReply { one: !is_list, top: Top::Open }, parameters))
}

/// Is the value at the reader an object of inputs of the graph?
pub(in crate::codec::invocations) fn holds_tensors_of_graph(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
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
pub(in crate::codec::invocations) fn of_body(
    signature: &Signature,
    inputs: &[NamedTensor],
) -> PipelineReply {
    let task = signature.pipeline.as_ref().map(|it| it.task);
    let is_best = task.is_some_and(|task| gives_best_class(task, inputs, &Vec::new()));
    PipelineReply { one: !is_best, ..PipelineReply::TEXT }
}

/// The form of the reply to rows that came as a list.
pub(in crate::codec::invocations) fn of_list(
    signature: &Signature,
    inputs: &[NamedTensor],
) -> PipelineReply {
    let task = signature.pipeline.as_ref().map(|it| it.task);
    let one = task.is_some_and(|task| is_one_of_list(task, inputs));
    PipelineReply { one, ..PipelineReply::default() }
}

/// Is a list of these inputs answered as the only one of them? A list of one text with masks is.
fn is_one_of_list(task: Task, inputs: &[NamedTensor]) -> bool {
    let rows = inputs.first().and_then(|it| it.tensor.shape().rows());
    task == Task::FillMask && rows == Some(1)
}

/// Is a row answered by one class, and no list of them?
fn gives_best_class(task: Task, inputs: &[NamedTensor], parameters: &Parameters) -> bool {
    let has_candidates = || parameters.iter().any(|(it, _)| &**it == CANDIDATE_LABELS);
    let facts = task.facts();
    let classifies = facts.gives_best_class && (facts.row != RowForm::Labels || !has_candidates());
    classifies && inputs.iter().any(|it| &*it.name == TEXT) && !says_top(parameters)
}
