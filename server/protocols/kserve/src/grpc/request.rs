//! Decodes the message of an inference request. Inputs in shared memory are named, not fetched. Pure.

use std::{sync::Arc, time::Duration};

use backend::{DataType, NamedTensor, Shape, SizeMismatch, Tensor};
use bytes::Bytes;

use super::{
    contents,
    infer_message::{self, Input, Output},
    parameters::{self, ParameterPlace, Parameters, Value},
};
use formats::kserve_v2::{RegionPart, SharedInput, SharedParts, check_booleans, suggestion};
use inference::{
    error::Error,
    grant::Grant,
    messages,
    request::{InferenceRequest, Parameter, Sequence, SequenceId},
    signature::{Port, Signature},
};

/// The client's wishes beside raw data in the message: forms of outputs, and parts in shared memory.
#[derive(Debug, Default)]
pub struct ReplyWishes {
    /// The outputs in another form than raw; usually none.
    pub forms: Forms,
    /// The inputs and outputs in shared memory; usually `None`.
    pub shared: Option<Box<SharedParts>>,
    /// Is a response without outputs wanted behind the last part of an answer in parts?
    pub ends_empty: bool,
}

/// Forms of outputs other than raw.
pub type Forms = Vec<(Arc<str>, Form)>;

/// The form of one output.
#[derive(Debug, Clone)]
pub enum Form {
    /// That many of the best classes in place of the values.
    Classes(usize),
    /// Written into shared memory rather than sent.
    Shared(RegionPart),
}

impl Form {
    /// How many classes the output is written as in place of its elements.
    pub fn classes(&self) -> Option<usize> {
        match self {
            Form::Classes(classes) => Some(*classes),
            Form::Shared(_) => None,
        }
    }
}

/// Decodes a request to the model of `signature`, and the forms of its outputs.
///
/// Names and types are checked against `signature`, and data against the shapes in the request. Not checked: whether
/// these shapes fit the model, and whether an input is missing.
///
/// # Errors
/// The name of the input, output or parameter, what is wrong, what was expected and what was given.
pub fn decode(
    signature: &Signature,
    message: infer_message::Request<'_>,
    grant: &Grant,
) -> Result<(InferenceRequest, ReplyWishes), Error> {
    grant.take(|_| message.bound())?;
    let infer_message::Request { id, parameters, inputs, outputs, raw, .. } = message;
    let mut request = InferenceRequest {
        id: (!id.is_empty()).then(|| id.into()),
        inputs: Vec::with_capacity(inputs.len().min(signature.inputs.len())),
        ..InferenceRequest::default()
    };
    let ends_empty = read_parameters(&mut request, &parameters)?;
    let mut shared = SharedParts::default();
    let mut data = RawData { given: raw.len(), rest: raw.into_iter() };
    let total = inputs.len();
    for input in inputs {
        let port = input_port(signature, &request, input.name)?;
        if shared.inputs.iter().any(|it| *it.name() == port.name) {
            return Err(Error::InvalidRequest(messages::input_exists(input.name)));
        }
        let problem = |problem: String| Error::input(&*port.name, problem);
        let dtype = DataType::from_name(input.datatype);
        let dtype = dtype.ok_or_else(|| problem(unknown_datatype(input.datatype)))?;
        if dtype != port.dtype {
            return Err(Error::InvalidRequest(messages::wrong_data_type(
                &port.name,
                dtype,
                &signature.model,
                port.dtype,
            )));
        }
        let expected = || signature.shape_text(port);
        let shape = shape(&input.shape).ok_or_else(|| {
            problem(format!("expected shape {}, given {:?}", expected(), input.shape))
        })?;
        match source(&signature.model, port, &shape, input, &mut data, total)? {
            Source::Shared(part) => {
                shared.inputs.push(SharedInput::new(port, shape, part, &signature.model)?);
            }
            Source::Here(tensor) => {
                request.inputs.push(NamedTensor { name: port.name.clone(), tensor });
            }
        }
    }
    let left = data.rest.len();
    if 0 < left {
        return Err(Error::InvalidRequest(format!(
            "model '{}': raw_input_contents has {} entries, expected {}: one for each input that is not in shared \
             memory",
            signature.model,
            data.given,
            data.given - left
        )));
    }
    let mut forms = Forms::new();
    for output in outputs {
        let (name, form) = output_form(signature, &request, &output)?;
        if let Some(Form::Shared(part)) = &form {
            shared.outputs.push((name.clone(), part.clone()));
        }
        forms.extend(form.map(|it| (name.clone(), it)));
        request.outputs.push(name);
    }
    let shares = !shared.inputs.is_empty() || !shared.outputs.is_empty();
    let shared = shares.then(|| Box::new(shared));
    Ok((request, ReplyWishes { forms, shared, ends_empty }))
}

/// The raw tensors of `raw_input_contents` that no input has taken yet.
struct RawData {
    given: usize,
    rest: smallvec::IntoIter<[Bytes; 2]>,
}

/// Reads the parameters of a request. Does the client want a response without outputs behind the last part?
fn read_parameters(request: &mut InferenceRequest, given: &Parameters<'_>) -> Result<bool, Error> {
    let (mut id, mut start, mut end, mut ends_empty) = (None, false, false, false);
    for (&key, &value) in given {
        let place = ParameterPlace { of: "", key };
        match key {
            "sequence_id" => {
                id = match value {
                    Value::Text(text) => {
                        Some(SequenceId::Text(text.into())).filter(|_| !text.is_empty())
                    }
                    _ => {
                        let number = parameters::integer(place, value, 0)?;
                        Some(SequenceId::Number(number)).filter(|_| number != 0)
                    }
                };
            }
            "sequence_start" => start = parameters::boolean(place, value)?,
            "sequence_end" => end = parameters::boolean(place, value)?,
            "priority" => request.priority = parameters::integer(place, value, 0)?,
            "timeout" => {
                // 0 stands for the model's default.
                let timeout = Duration::from_micros(parameters::integer(place, value, 0)?);
                request.queue_timeout = Some(timeout).filter(|it| !it.is_zero());
            }
            "triton_enable_empty_final_response" => {
                ends_empty = parameters::boolean(place, value)?;
            }
            name if name.starts_with("triton_") => {
                return Err(Error::InvalidRequest(format!(
                    "parameter '{name}': names that begin with 'triton_' are reserved; expected another name, or \
                     'triton_enable_empty_final_response'"
                )));
            }
            _ => {
                let value: Parameter = parameters::custom(place, value)?;
                request.parameters.push((key.into(), value));
            }
        }
    }
    request.sequence = id.map(|id| Sequence { id, start, end });
    Ok(ends_empty)
}

/// Looks up an input by its name, and refuses one that is given twice.
fn input_port<'s>(
    signature: &'s Signature,
    request: &InferenceRequest,
    name: &str,
) -> Result<&'s Port, Error> {
    let model = &signature.model;
    let Some(port) = signature.input(name) else {
        let known = suggestion(name, signature.inputs.iter().map(|it| &*it.name));
        let unexpected = messages::unexpected_input(excerpt(name), model);
        return Err(Error::InvalidRequest(format!("{unexpected}{known}")));
    };
    if request.inputs.iter().any(|it| it.name == port.name) {
        return Err(Error::InvalidRequest(messages::input_exists(name)));
    }
    Ok(port)
}

/// The place of an input's data.
enum Source {
    /// In a region of shared memory.
    Shared(RegionPart),
    /// In the message.
    Here(Tensor),
}

fn source(
    model: &str,
    port: &Port,
    shape: &Shape,
    input: Input<'_>,
    data: &mut RawData,
    inputs: usize,
) -> Result<Source, Error> {
    let problem = |problem: String| Error::input(&*port.name, problem);
    let region = match input.parameters.is_empty() {
        true => None,
        false => region(&format!("input '{}', ", port.name), &input.parameters)?,
    };
    let typed = match input.contents.is_empty() {
        true => None,
        false => contents::decode(&input.contents, port, shape.elements())?,
    };
    let raw = 0 < data.given;
    let bytes = match (region, typed, raw) {
        (Some(_), Some(_), _) => {
            let text = "expected shared memory or contents, given both";
            return Err(problem(text.to_owned()));
        }
        (Some(part), None, _) => return Ok(Source::Shared(part)),
        (None, Some(_), true) => {
            return Err(Error::InvalidRequest(messages::two_contents(&port.name, model)));
        }
        (None, Some(typed), false) => {
            return contents::tensor(port, shape.clone(), typed).map(Source::Here);
        }
        (None, None, true) => {
            let given = data.given;
            data.rest.next().ok_or_else(|| {
                problem(format!(
                    "no data: raw_input_contents has {given} entries for {inputs} inputs; expected one for each that \
                     is not in shared memory"
                ))
            })?
        }
        (None, None, false) if shape.elements() == Some(0) => Bytes::new(),
        (None, None, false) => {
            let text =
                "no data: expected raw_input_contents, contents or shared memory, given none";
            return Err(problem(text.to_owned()));
        }
    };
    check_booleans(&port.name, port.dtype, &bytes)?;
    let tensor = Tensor::new(port.dtype, shape.clone(), bytes);
    tensor.map(Source::Here).map_err(|error| match error {
        SizeMismatch::Prefix { .. } => problem(error.to_string()),
        _ => Error::InvalidRequest(messages::size_mismatch(&port.name, model, &error)),
    })
}

/// The part of a region of shared memory that the parameters name, where they name one.
fn region(of: &str, given: &Parameters<'_>) -> Result<Option<RegionPart>, Error> {
    let number = |key: &str| {
        let value = given.get(key);
        value.map(|it| parameters::integer(ParameterPlace { of, key }, *it, 0)).transpose()
    };
    let (key, size_key) = ("shared_memory_region", "shared_memory_byte_size");
    let (offset, size) = (number("shared_memory_offset")?, number(size_key)?);
    let Some(name) = given.get(key) else {
        return match (offset, size) {
            (None, None) => Ok(None),
            _ => Err(Error::InvalidRequest(format!("{of}parameter '{key}': expected, given none"))),
        };
    };
    let name = parameters::text(ParameterPlace { of, key }, *name)?;
    let needed =
        || Error::InvalidRequest(format!("{of}parameter '{size_key}': expected, given none"));
    Ok(Some(RegionPart {
        region: name.to_owned(),
        offset: offset.unwrap_or(0),
        byte_size: size.ok_or_else(needed)?,
    }))
}

/// Looks up a requested output by its name, refuses one that is requested twice, and returns its form if not raw.
fn output_form(
    signature: &Signature,
    request: &InferenceRequest,
    output: &Output<'_>,
) -> Result<(Arc<str>, Option<Form>), Error> {
    let (model, name) = (&signature.model, output.name);
    let Some(port) = signature.output(name) else {
        let known = suggestion(name, signature.outputs.iter().map(|it| &*it.name));
        let unexpected = messages::unexpected_output(excerpt(name), model);
        return Err(Error::InvalidRequest(format!("{unexpected}{known}")));
    };
    if request.outputs.contains(&port.name) {
        return Err(Error::InvalidRequest(messages::output_exists(name)));
    }
    if output.parameters.is_empty() {
        return Ok((port.name.clone(), None));
    }
    let of = format!("model '{model}', output '{name}', ");
    let key = "classification";
    let classes = output.parameters.get(key);
    let classes = classes
        .map(|it| parameters::integer(ParameterPlace { of: &of, key }, *it, 1))
        .transpose()?;
    let form = match (classes, region(&of, &output.parameters)?) {
        (None, None) => None,
        (Some(classes), None) => {
            Some(Form::Classes(usize::try_from(classes).unwrap_or(usize::MAX)))
        }
        (None, Some(part)) => Some(Form::Shared(part)),
        (Some(_), Some(_)) => {
            let expected = "expected classification or shared memory, given both";
            return Err(Error::InvalidRequest(format!("{of}{expected}")));
        }
    };
    Ok((port.name.clone(), form))
}

fn shape(dims: &[i64]) -> Option<Shape> {
    dims.iter().map(|&it| usize::try_from(it).ok()).collect()
}

fn unknown_datatype(name: &str) -> String {
    let known = suggestion(name, DataType::ALL.iter().map(|it| it.name()));
    format!("unknown datatype '{}'{known}", excerpt(name))
}

/// The start of a client's text, short enough for an error.
fn excerpt(text: &str) -> String {
    text.chars().take(128).collect()
}
