//! Replies without a schema of their own: JSON under TF Serving's keys or bare, JSON lines, CSV, npy.
//! Floats are written with the fewest digits that read back the same, and bytes that are not text as
//! `{"b64": ..}`.

use std::borrow::Cow;

use backend::{DataType, NamedTensor, RowCuts, Shape, Tensor};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;

use crate::{
    EncodedReply,
    json::write::{self, BytesAs},
    negotiate::Media,
    npy,
    reply_size::{self, TextForm},
};
use inference::{error::Error, grant::Grant, request::InferenceResponse, signature::Signature};

/// `{"predictions": [..]}`: for each row the value of the only output, or an object by output.
pub fn predictions(
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    let mut out = b"{\"predictions\":".to_vec();
    match (response.outputs.as_slice(), rows_of(signature, response)) {
        ([only], Some(_)) => value(&mut out, only)?,
        (_, None) if signature.graph_checks_shapes => return Err(no_rows(response)),
        (_, rows) => {
            let mut columns = split_outputs(response, rows)?;
            out.push(b'[');
            for at in 0..rows.unwrap_or(1) {
                if at > 0 {
                    out.push(b',');
                }
                row_value(&mut out, &mut columns)?;
            }
            out.push(b']');
        }
    }
    out.push(b'}');
    Ok(EncodedReply::json(out))
}

/// A list with an object by output for each row; for `one` row, the object itself where there are several outputs.
pub fn objects(
    signature: &Signature,
    response: &InferenceResponse,
    one: bool,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    let bare = one && response.outputs.len() > 1;
    let rows = rows_of(signature, response);
    let mut columns = split_outputs(response, rows)?;
    let mut out = if bare { Vec::new() } else { b"[".to_vec() };
    for _ in 0..rows.unwrap_or(1) {
        write::item(&mut out);
        object(&mut out, &mut columns)?;
    }
    if !bare {
        out.push(b']');
    }
    Ok(EncodedReply::json(out))
}

/// `{"outputs": ..}`: the whole of the only output, or an object by output.
pub fn columns(response: &InferenceResponse, grant: &Grant) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    let mut out = b"{\"outputs\":".to_vec();
    values(&mut out, &response.outputs)?;
    out.push(b'}');
    Ok(EncodedReply::json(out))
}

/// The whole of the only output, or an object by output, without a key around it.
pub fn bare(response: &InferenceResponse, grant: &Grant) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    let mut out = Vec::new();
    values(&mut out, &response.outputs)?;
    Ok(EncodedReply::json(out))
}

/// For each row a line with the value of the only output, or an object by output. `media` is what it is sent as.
pub fn json_lines(
    media: Media,
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    let mut out = Vec::new();
    let rows = rows_of(signature, response);
    let mut columns = split_outputs(response, rows)?;
    for _ in 0..rows.unwrap_or(1) {
        row_value(&mut out, &mut columns)?;
        out.push(b'\n');
    }
    Ok(typed(media, vec![out.into()]))
}

/// For each row a line with the elements of all outputs. Text is quoted where it must be; bytes that are
/// not text are written as base64.
pub fn csv(
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    take(grant, response)?;
    lines_of_fields(signature, response)
}

fn lines_of_fields(
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    let rows = rows_of(signature, response);
    let mut columns = split_outputs(response, rows)?;
    let (mut out, mut scratch) = (Vec::new(), Vec::new());
    for _ in 0..rows.unwrap_or(1) {
        let start = out.len();
        for column in &mut columns {
            let Some(row) = column.rows.next() else { continue };
            if row.elements() == 0 {
                continue;
            }
            if out.len() > start {
                out.push(b',');
            }
            if row.dtype() == DataType::Bytes {
                fields(&mut out, &row);
                continue;
            }
            scratch.clear();
            write::flat(&mut scratch, &row, BytesAs::TextOrBase64).map_err(not_text)?;
            let inner = scratch.strip_prefix(b"[").and_then(|it| it.strip_suffix(b"]"));
            out.extend_from_slice(inner.unwrap_or_default());
        }
        out.push(b'\n');
    }
    Ok(typed(Media::Csv, vec![out.into()]))
}

/// The same under a record with the names of its columns: an output's name, with a number behind it where it has
/// several columns.
pub fn csv_with_names(
    signature: &Signature,
    response: &InferenceResponse,
    grant: &Grant,
) -> Result<EncodedReply, Error> {
    grant.take(|loose| reply_size::of_response(response, TextForm::LABELLED, loose))?;
    let rows = rows_of(signature, response).unwrap_or(1);
    let mut head = Vec::new();
    for NamedTensor { name, tensor } in &response.outputs {
        let columns = tensor.elements().checked_div(rows).unwrap_or(0);
        for at in 0..columns {
            if !head.is_empty() {
                head.push(b',');
            }
            match columns {
                1 => field(&mut head, name.as_bytes()),
                _ => field(&mut head, format!("{name}_{at}").as_bytes()),
            }
        }
    }
    head.push(b'\n');
    let mut reply = lines_of_fields(signature, response)?;
    reply.body.insert(0, head.into());
    Ok(reply)
}

/// The only output as a NumPy array.
///
/// # Errors
/// When there are several, or it is of strings.
pub fn npy(response: &InferenceResponse, grant: &Grant) -> Result<EncodedReply, Error> {
    // Of all types but this one, the tensor is sent as it is.
    let widened = response.outputs.iter().filter(|it| it.tensor.dtype() == DataType::Bf16);
    grant.take(|_| {
        widened.map(|it| it.tensor.byte_len().saturating_mul(2)).fold(0, usize::saturating_add)
    })?;
    let parts = match response.outputs.as_slice() {
        [only] => npy::encode(&only.tensor),
        _ => None,
    };
    let parts = parts.ok_or_else(|| {
        let name = Media::Npy;
        Error::NotAcceptable(format!("{name} carries one output of numbers, this reply is another"))
    })?;
    Ok(typed(Media::Npy, parts))
}

/// Asks for the bytes of a reply as text.
fn take(grant: &Grant, response: &InferenceResponse) -> Result<(), Error> {
    grant.take(|loose| reply_size::of_response(response, TextForm::PLAIN, loose))
}

/// A reply of that type with this body.
pub fn typed(media: Media, body: Vec<Bytes>) -> EncodedReply {
    let content_type = Cow::Borrowed(media.name());
    EncodedReply { content_type, json_length: None, headers: Vec::new(), body }
}

/// The number of rows in the reply; `None` where the reply cannot be split into rows.
///
/// Without a batch dimension, outputs of two dimensions or more that agree in the first are rows: the model
/// was made for a matrix. So are outputs of any shape that begin with the number of the request's rows, where the
/// model takes any number of them: what comes out decides, files may declare another shape. Of a graph that looks at
/// shapes itself all outputs are rows that agree in the first dimension, as in TensorFlow Serving.
pub fn rows_of(signature: &Signature, response: &InferenceResponse) -> Option<usize> {
    let mut outputs = response.outputs.iter().map(|it| it.tensor.shape());
    let asked = response.rows.filter(|_| signature.takes_any_rows());
    if asked.is_some() && outputs.all(|it| it.rows() == asked) {
        return asked;
    }
    let least_rank = if signature.batches() || signature.graph_checks_shapes { 1 } else { 2 };
    let mut shapes = response.outputs.iter().map(|it| it.tensor.shape());
    let rows = shapes.next().filter(|it| it.dims().len() >= least_rank)?.rows()?;
    let agree = |it: &Shape| it.dims().len() >= least_rank && it.rows() == Some(rows);
    shapes.all(agree).then_some(rows)
}

/// TensorFlow Serving's refusal to make rows of outputs that do not agree in their number.
fn no_rows(response: &InferenceResponse) -> Error {
    let shapes = response.outputs.iter().map(|it| format!("'{}' {}", it.name, it.tensor.shape()));
    let shapes = shapes.collect::<Vec<_>>().join(", ");
    Error::InvalidRequest(format!(
        "instances: the outputs do not agree in the number of rows: {shapes}; send 'inputs', which is answered with \
         whole outputs, or name outputs that do"
    ))
}

/// The next row as JSON: the value of the only output, or an object by output.
fn row_value(out: &mut Vec<u8>, columns: &mut [Column<'_>]) -> Result<(), Error> {
    match columns {
        [only] => match only.rows.next() {
            Some(row) => tensor(out, only.name, &row),
            None => Ok(()),
        },
        several => object(out, several),
    }
}

/// The next row of each output, by its name.
fn object(out: &mut Vec<u8>, columns: &mut [Column<'_>]) -> Result<(), Error> {
    out.push(b'{');
    for Column { name, rows } in columns {
        if let Some(row) = rows.next() {
            write::key(out, name);
            tensor(out, name, &row)?;
        }
    }
    out.push(b'}');
    Ok(())
}

/// The rows of one output.
struct Column<'a> {
    name: &'a str,
    rows: Rows<'a>,
}

/// Each output's rows; with `None`, the whole of each as its only row.
fn split_outputs(
    response: &InferenceResponse,
    rows: Option<usize>,
) -> Result<Vec<Column<'_>>, Error> {
    let columns = response.outputs.iter().map(|NamedTensor { name, tensor }| {
        let problem = || Error::Internal(format!("output '{name}' does not split into rows"));
        Ok(Column { name, rows: Rows::of(tensor, rows).ok_or_else(problem)? })
    });
    columns.collect()
}

/// The rows of a tensor, each without the dimension that counts them. A row is made when it is asked for: a list of
/// them would take a hundred bytes for each. O(rows) and, for strings, O(bytes) in total.
pub struct Rows<'a> {
    tensor: &'a Tensor,
    /// Rows that are left.
    left: usize,
    /// The dimensions of a row, and what cuts them; `None` where the whole is the only row.
    cut: Option<(Shape, RowCuts<'a>)>,
}

impl<'a> Rows<'a> {
    /// As many rows as that; with `None`, the whole of it. `None` where it does not have so many.
    pub fn of(tensor: &'a Tensor, rows: Option<usize>) -> Option<Rows<'a>> {
        let Some(rows) = rows else {
            return Some(Rows { tensor, left: 1, cut: None });
        };
        let inner = Shape::new(tensor.shape().inner());
        inner.elements()?;
        if tensor.shape().rows() != Some(rows) {
            return None;
        }
        Some(Rows { tensor, left: rows, cut: Some((inner, RowCuts::of(tensor)?)) })
    }
}

impl Iterator for Rows<'_> {
    type Item = Tensor;

    fn next(&mut self) -> Option<Tensor> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.cut {
            None => Some(self.tensor.clone()),
            Some((inner, cuts)) => cuts.next(1)?.reshape(inner.clone()),
        }
    }
}

/// The only output's value, or an object by output.
fn values(out: &mut Vec<u8>, outputs: &[NamedTensor]) -> Result<(), Error> {
    if let [only] = outputs {
        return value(out, only);
    }
    out.push(b'{');
    for output in outputs {
        write::key(out, &output.name);
        value(out, output)?;
    }
    out.push(b'}');
    Ok(())
}

fn value(out: &mut Vec<u8>, output: &NamedTensor) -> Result<(), Error> {
    tensor(out, &output.name, &output.tensor)
}

/// The elements, nested by their shape. In outputs whose name ends in `_bytes` all strings are base64.
fn tensor(out: &mut Vec<u8>, name: &str, tensor: &Tensor) -> Result<(), Error> {
    let form = if name.ends_with("_bytes") { BytesAs::Base64 } else { BytesAs::TextOrBase64 };
    write::nested(out, tensor, form).map_err(not_text)
}

/// Both forms of bytes that are used here take any.
pub fn not_text(problem: write::NotText) -> Error {
    Error::Internal(format!("element {} was not written", problem.0))
}

/// The strings of a row as fields.
pub fn fields(out: &mut Vec<u8>, row: &Tensor) {
    for (at, bytes) in row.strings().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        field(out, bytes);
    }
}

/// A string as a field: quoted where it must be, and as base64 where it is no text.
pub fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains([',', '"', '\r', '\n']) => {
            out.push(b'"');
            out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        }
        Ok(text) => out.extend_from_slice(text.as_bytes()),
        Err(_) => out.extend_from_slice(STANDARD.encode(bytes).as_bytes()),
    }
}
