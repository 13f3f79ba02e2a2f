//! The outputs in a model's answer, in every form that one has.

use serde_json::Value;

use crate::{
    DataType,
    format::Tensors,
    grpc::{DescribedOutput, described_outputs, grpc_raw_outputs},
};

/// What an answer says.
pub(crate) struct Answer<'a> {
    /// But for its outputs.
    pub(crate) rest: Value,
    pub(crate) outputs: Vec<Output<'a>>,
}

/// An output of it.
pub(crate) struct Output<'a> {
    pub(crate) name: String,
    pub(crate) dtype: Option<DataType>,
    /// What JSON says of it, but for its values.
    pub(crate) about: Value,
    /// The same of a message of gRPC.
    pub(crate) message: &'a [u8],
    /// Its values in JSON.
    pub(crate) data: Value,
    /// Its bytes, where they lie behind what describes it.
    pub(crate) raw: Option<&'a [u8]>,
}

impl<'a> Answer<'a> {
    /// What a body of that form says; `None` where it is no such answer.
    pub(crate) fn of(form: Tensors, body: &'a [u8]) -> Option<Answer<'a>> {
        match form {
            Tensors::Json | Tensors::Binary => Answer::of_kserve(body),
            Tensors::Grpc => Answer::of_grpc(body),
            Tensors::Tfs => Answer::of_tfs(body),
        }
    }

    /// JSON, and tensors behind it.
    fn of_kserve(body: &'a [u8]) -> Option<Answer<'a>> {
        let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
        let mut answer = values.next()?.ok()?;
        let mut rest = body.get(values.byte_offset()..)?;
        let Value::Array(outputs) = answer.as_object_mut()?.shift_remove("outputs")? else {
            return None;
        };
        let output = |mut about: Value| {
            let data = about.as_object_mut()?.shift_remove("data").unwrap_or_default();
            // What lies in the JSON is compared there.
            let raw = match about.pointer("/parameters/binary_data_size") {
                Some(size) => Some(rest.split_off(..usize::try_from(size.as_u64()?).ok()?)?),
                None => None,
            };
            let text = |name| about.get(name).and_then(Value::as_str);
            let (name, dtype) = (text("name")?.to_owned(), text("datatype"));
            let dtype = dtype.and_then(|it| it.parse().ok());
            Some(Output { name, dtype, about, message: b"", data, raw })
        };
        let outputs: Vec<Output<'_>> = outputs.into_iter().map(output).collect::<Option<_>>()?;
        // White space may be behind JSON alone.
        let has_raw = outputs.iter().any(|it| it.raw.is_some());
        let is_over = rest.is_empty() || !has_raw && rest.trim_ascii().is_empty();
        is_over.then_some(Answer { rest: answer, outputs })
    }

    fn of_grpc(body: &'a [u8]) -> Option<Answer<'a>> {
        let (described, raw) = (described_outputs(body)?, grpc_raw_outputs(body));
        if described.len() != raw.len() {
            return None;
        }
        let output = |(it, raw): (DescribedOutput<'a>, &'a [u8])| Output {
            name: it.name.to_owned(),
            dtype: Some(it.dtype),
            about: Value::Null,
            message: it.message,
            data: Value::Null,
            raw: Some(raw),
        };
        let outputs = described.into_iter().zip(raw).map(output).collect();
        Some(Answer { rest: Value::Null, outputs })
    }

    /// `outputs` by name, or rows of `predictions` that have members of these names; where there is one output, that
    /// alone.
    fn of_tfs(body: &'a [u8]) -> Option<Answer<'a>> {
        let mut answer: Value = serde_json::from_slice(body).ok()?;
        let members = answer.as_object_mut()?;
        let (member, value) = ["outputs", "predictions"]
            .into_iter()
            .find_map(|it| Some((it, members.shift_remove(it)?)))?;
        let mut named: Vec<(String, Value)> = match (member, value) {
            ("outputs", Value::Object(columns)) => columns.into_iter().collect(),
            ("predictions", Value::Array(rows)) => {
                columns(rows).unwrap_or_else(|rows| vec![(member.to_owned(), Value::Array(rows))])
            }
            (_, value) => vec![(member.to_owned(), value)],
        };
        named.sort_by(|one, other| one.0.cmp(&other.0));
        let output = |(name, data)| Output {
            name,
            dtype: None,
            about: Value::Null,
            message: b"" as &[u8],
            data,
            raw: None,
        };
        Some(Answer { rest: answer, outputs: named.into_iter().map(output).collect() })
    }
}

/// Rows of objects as an output for each of their members; the rows themselves where they are others.
fn columns(rows: Vec<Value>) -> Result<Vec<(String, Value)>, Vec<Value>> {
    let Some(Value::Object(first)) = rows.first() else { return Err(rows) };
    let names: Vec<String> = first.keys().cloned().collect();
    let has_all = |row: &Value| {
        let row = row.as_object();
        row.is_some_and(|it| {
            it.len() == names.len() && names.iter().all(|name| it.contains_key(name))
        })
    };
    if !rows.iter().all(has_all) {
        return Err(rows);
    }
    let column = |name: String| {
        let values = rows.iter().filter_map(|it| it.get(&name)).cloned().collect();
        (name, Value::Array(values))
    };
    Ok(names.into_iter().map(column).collect())
}
