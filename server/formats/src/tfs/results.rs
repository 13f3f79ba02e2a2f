//! What `:classify` and `:regress` make of a model's outputs, and what a model must have for them.

use std::{borrow::Cow, sync::Arc};

use backend::{DataType, NamedTensor, Tensor};
use half::{bf16, f16};

use super::{
    predict::{Form, Method, encode},
    serialized::takes_serialized,
};
use crate::{
    EncodedReply,
    json::write::{self, BytesAs},
    reply_size::{self, TextForm},
};
use inference::{
    error::Error,
    grant::Grant,
    request::InferenceResponse,
    signature::{Port, Signature},
};

/// What the reply is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum Results {
    /// All outputs, in that form.
    Predictions(Form),
    /// For each example its classes and their scores.
    Classes(Scored),
    /// For each example the number in this output.
    Values(Arc<str>),
}

/// The outputs that classes are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The output of scores: floats of shape `[rows, classes]`. `None` where classes have none.
    scores: Option<Arc<str>>,
    /// The output of labels, of the same shape; `None` where the scores' label file has them.
    labels: Option<Arc<str>>,
}

impl Results {
    /// What that method makes of this model's outputs; all of them, by rows, for [`Method::Predict`].
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] when the model does not have the outputs for it, with what it needs and what it has,
    /// and where the signature is known to be for another method.
    pub fn of(signature: &Signature, method: Method) -> Result<Results, Error> {
        check_name(signature, method)?;
        if let Some(own) = of_serialized(signature, method) {
            return Ok(own);
        }
        let (found, verb, needs) = match method {
            Method::Predict => return Ok(Results::Predictions(Form::Row)),
            Method::Classify => (
                scored(signature).map(Results::Classes),
                "classify",
                "an output of scores, floats of shape [rows, classes], with a label file (label_filename), or \
                 besides it one output of labels of the same shape",
            ),
            Method::Regress => (
                value(signature).map(Results::Values),
                "regress",
                "exactly one output, floats of shape [rows] or [rows, 1]",
            ),
        };
        found.ok_or_else(|| {
            let outputs = signature.outputs.iter();
            let outputs = outputs
                .map(|it| format!("'{}' {} {}", it.name, it.dtype, signature.shape_text(it)));
            let outputs = outputs.collect::<Vec<_>>().join(", ");
            Error::InvalidRequest(format!(
                "model '{}' cannot {verb}: expected {needs}; its outputs are {outputs}; use predict",
                signature.model
            ))
        })
    }

    /// The outputs that are needed; none stands for all.
    pub fn outputs(&self) -> Vec<Arc<str>> {
        match self {
            Results::Predictions(_) => Vec::new(),
            Results::Classes(Scored { scores, labels }) => {
                scores.iter().chain(labels).cloned().collect()
            }
            Results::Values(output) => vec![output.clone()],
        }
    }
}

/// The reply: `{"results": [[["label", score], ..], ..]}` or `{"results": [number, ..]}`, or that of `:predict`.
///
/// # Errors
/// [`Error::InvalidRequest`] when the outputs turn out to have other shapes than it takes.
pub fn encode_results(
    results: &Results,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    let take = || grant.take(|loose| reply_size::of_response(response, TextForm::LABELLED, loose));
    let mut out = b"{\"results\":".to_vec();
    match results {
        Results::Predictions(form) => return encode(*form, signature, response, grant),
        Results::Classes(scored) => {
            take()?;
            let classes = Classes::of(scored, signature, response)?;
            out.push(b'[');
            for row in classes.rows() {
                write::item(&mut out);
                out.push(b'[');
                for (label, score) in row {
                    write::item(&mut out);
                    out.push(b'[');
                    write::string(&mut out, label);
                    out.push(b',');
                    write::number(&mut out, score);
                    out.push(b']');
                }
                out.push(b']');
            }
            out.push(b']');
        }
        Results::Values(name) => {
            take()?;
            let tensor = values(name, response)?;
            let written = write::flat(&mut out, tensor, BytesAs::Text);
            written.map_err(|_| unlike(name, "numbers", tensor))?;
        }
    }
    out.push(b'}');
    Ok(EncodedReply::json(out))
}

/// The classes of all rows, in the order of the output.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes<'a> {
    rows: usize,
    /// Classes of one row.
    per_row: usize,
    /// Of all rows.
    scores: Vec<f32>,
    /// Those that are missing are empty.
    labels: Vec<Cow<'a, str>>,
    /// Labels between one row's and the next one's; 0 where all rows have the same.
    stride: usize,
}

impl<'a> Classes<'a> {
    /// The classes in `response`. Scores of other types than FP32 are rounded to it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] when the outputs turn out to have other shapes than it takes.
    pub fn of(
        Scored { scores, labels }: &Scored,
        signature: &'a Signature,
        response: &'a InferenceResponse,
    ) -> Result<Classes<'a>, Error> {
        let of_shape = scores.as_ref().or(labels.as_ref()).map_or("", |it| it);
        let given = output(of_shape, response)?;
        let (rows, per_row) = match (signature.batches(), given.shape().dims()) {
            (_, [rows, classes]) => (*rows, *classes),
            (true, [rows]) => (*rows, 1),
            (false, [classes]) => (1, *classes),
            _ => return Err(unlike(of_shape, "a shape of [rows, classes]", given)),
        };
        let (labels, stride) = match labels {
            Some(name) => {
                let labels = output(name, response)?;
                if labels.elements() != given.elements() {
                    let expected =
                        format!("as many labels as there are scores ({})", given.elements());
                    return Err(unlike(name, &expected, labels));
                }
                (texts(labels).ok_or_else(|| unlike(name, "labels", labels))?, per_row)
            }
            None => {
                let names = signature.output(of_shape).map(|it| &*it.labels).unwrap_or_default();
                (names.iter().map(|it| Cow::Borrowed(it.as_str())).collect(), 0)
            }
        };
        let scores = match scores {
            Some(_) => floats(given).ok_or_else(|| unlike(of_shape, "floats", given))?,
            None => Vec::new(),
        };
        Ok(Classes { rows, per_row, scores, labels, stride })
    }

    /// For each row its labels and scores.
    pub fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = (&str, f32)>> {
        (0..self.rows).map(move |row| {
            let start = row * self.per_row;
            let labels = row * self.stride;
            (0..self.per_row).map(move |at| {
                let label = self.labels.get(labels + at).map(|it| &**it).unwrap_or_default();
                (label, self.scores.get(start + at).copied().unwrap_or_default())
            })
        })
    }
}

/// The numbers of `:regress`, as FP32.
///
/// # Errors
/// [`Error::InvalidRequest`] when the output turns out to have another shape than it takes.
pub fn regressions(name: &str, response: &InferenceResponse) -> Result<Vec<f32>, Error> {
    let tensor = values(name, response)?;
    floats(tensor).ok_or_else(|| unlike(name, "floats", tensor))
}

fn values<'r>(name: &str, response: &'r InferenceResponse) -> Result<&'r Tensor, Error> {
    let tensor = output(name, response)?;
    match tensor.shape().dims() {
        [_] | [_, 1] => Ok(tensor),
        _ => Err(unlike(name, "a shape of [rows] or [rows, 1]", tensor)),
    }
}

fn output<'r>(name: &str, response: &'r InferenceResponse) -> Result<&'r Tensor, Error> {
    let found = response.outputs.iter().find(|it| &*it.name == name);
    let found = found.map(|NamedTensor { tensor, .. }| tensor);
    found.ok_or_else(|| Error::Internal(format!("output '{name}' is missing")))
}

/// The output is not what it takes, as far as the configuration leaves that open.
fn unlike(name: &str, expected: &str, given: &Tensor) -> Error {
    let given = format!("{} of shape {}", given.dtype(), given.shape());
    Error::InvalidRequest(format!(
        "output '{name}': expected {expected}, the model has made {given}"
    ))
}

/// Is the signature for that method, where names of methods are compared? Any is for [`Method::Predict`].
fn check_name(signature: &Signature, method: Method) -> Result<(), Error> {
    let own = signature.named.as_ref().and_then(|it| it.method.as_deref());
    match own.filter(|it| method != Method::Predict && *it != method.name()) {
        None => Ok(()),
        Some(own) => Err(Error::InvalidRequest(format!(
            "signature '{}' of model '{}': expected the method_name {}, its file says '{own}'; \
             --tensorflow-method-name-check=false leaves it at that",
            signature.name(),
            signature.model,
            method.name(),
        ))),
    }
}

/// What a signature that takes serialized examples calls its outputs, as TensorFlow's exporters do.
fn of_serialized(signature: &Signature, method: Method) -> Option<Results> {
    let output = |name: &str, dtype| {
        let port = signature.outputs.iter().find(|it| &*it.name == name && it.dtype == dtype);
        port.map(|it| it.name.clone())
    };
    if !takes_serialized(signature) {
        return None;
    }
    match method {
        Method::Predict => None,
        Method::Classify => {
            let (scores, labels) =
                (output("scores", DataType::Fp32), output("classes", DataType::Bytes));
            let found = usize::from(scores.is_some()) + usize::from(labels.is_some());
            let is_all = 0 < found && found == signature.outputs.len();
            is_all.then_some(Results::Classes(Scored { scores, labels }))
        }
        Method::Regress => {
            let value = output("outputs", DataType::Fp32)?;
            (signature.outputs.len() == 1).then_some(Results::Values(value))
        }
    }
}

/// The scores and labels of a classifier.
fn scored(signature: &Signature) -> Option<Scored> {
    let scores = |it: &&Port| is_float(it.dtype) && is_list(signature, it);
    let mut named = signature.outputs.iter().filter(scores).filter(|it| !it.labels.is_empty());
    if let (Some(only), None) = (named.next(), named.next()) {
        return Some(Scored { scores: Some(only.name.clone()), labels: None });
    }
    let [first, second] = signature.outputs.as_slice() else { return None };
    let (labels, scores) = if is_float(first.dtype) { (second, first) } else { (first, second) };
    let agree = labels
        .dims
        .iter()
        .zip(&scores.dims)
        .all(|(one, other)| one.zip(*other).is_none_or(|(one, other)| one == other));
    let fit = is_label(labels.dtype)
        && is_float(scores.dtype)
        && is_list(signature, scores)
        && labels.dims.len() == scores.dims.len()
        && agree;
    fit.then(|| Scored { scores: Some(scores.name.clone()), labels: Some(labels.name.clone()) })
}

/// The only output of a model that makes numbers.
fn value(signature: &Signature) -> Option<Arc<str>> {
    let [only] = signature.outputs.as_slice() else { return None };
    let one = |dim: &Option<usize>| dim.is_none_or(|it| it == 1);
    let fits = match (signature.batches(), only.dims.as_slice()) {
        (true, []) | (false, [_]) => true,
        (true, [inner]) | (false, [_, inner]) => one(inner),
        _ => false,
    };
    (fits && is_float(only.dtype)).then(|| only.name.clone())
}

/// Has it `[rows, classes]`? A model that does not batch may have one row only, without a dimension for it.
fn is_list(signature: &Signature, port: &Port) -> bool {
    match signature.batches() {
        true => port.dims.len() == 1,
        false => (1..=2).contains(&port.dims.len()),
    }
}

fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

/// Labels are texts, or the numbers of classes.
fn is_label(dtype: DataType) -> bool {
    matches!(dtype, DataType::Bytes | DataType::Int32 | DataType::Int64)
}

fn texts(tensor: &Tensor) -> Option<Vec<Cow<'_, str>>> {
    let bytes = tensor.to_bytes();
    Some(match tensor.dtype() {
        DataType::Bytes => tensor.strings().map(String::from_utf8_lossy).collect(),
        DataType::Int32 => elements(&bytes, |it: i32| it.to_string().into()),
        DataType::Int64 => elements(&bytes, |it: i64| it.to_string().into()),
        _ => return None,
    })
}

fn floats(tensor: &Tensor) -> Option<Vec<f32>> {
    let bytes = tensor.to_bytes();
    Some(match tensor.dtype() {
        DataType::Fp16 => elements(&bytes, f16::to_f32),
        DataType::Bf16 => elements(&bytes, bf16::to_f32),
        DataType::Fp32 => elements(&bytes, |it: f32| it),
        DataType::Fp64 => elements(&bytes, |it: f64| it as f32),
        _ => return None,
    })
}

fn elements<T: backend::Element, V>(bytes: &[u8], value: impl Fn(T) -> V) -> Vec<V> {
    let elements = bytes.chunks_exact(size_of::<T>());
    elements.map(|it| value(bytemuck::pod_read_unaligned(it))).collect()
}
