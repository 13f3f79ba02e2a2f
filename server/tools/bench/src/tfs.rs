//! Requests of TensorFlow Serving's REST API with made-up tensors, and what its metadata say of a model.

use std::ops::Range;

use serde_json::Value;

use crate::{
    CheckedReply, DataType, Error, Fill, Input, Method, Request,
    kserve::{Elements, escaped},
};

/// The path of a model's inference.
pub(crate) fn predict_path(model: &str) -> String {
    format!("/v1/models/{}:predict", escaped(model))
}

/// The path of its metadata.
pub(crate) fn metadata_path(model: &str) -> String {
    format!("/v1/models/{}/metadata", escaped(model))
}

/// `POST /v1/models/<model>:predict` with these inputs: rows as `instances`, or, where the inputs have no number of
/// rows in common, all of them as `inputs`.
///
/// # Errors
/// When a BYTES input is not UTF-8, or there is no input.
pub(crate) fn tfs_predict(
    model: &str,
    signature: &str,
    inputs: &[Input],
) -> Result<Request, Error> {
    let rows = inputs.first().and_then(|it| it.shape.first().copied());
    let has_rows = |it: &Input| it.shape.first().copied() == rows;
    let mut columns = Vec::with_capacity(inputs.len());
    for input in inputs {
        columns.push((input, Elements::of(input)?));
    }
    let mut body = format!("{{\"signature_name\":{},", Value::from(signature));
    match rows.filter(|_| inputs.iter().all(has_rows)) {
        Some(rows) => {
            body.push_str("\"instances\":[");
            for row in 0..rows {
                body.push_str(if row == 0 { "" } else { "," });
                object(&mut body, &columns, |input| {
                    let dims = input.shape.get(1..).unwrap_or_default();
                    let length: usize = dims.iter().product();
                    (dims.to_vec(), row * length..(row + 1) * length)
                });
            }
            body.push(']');
        }
        None => {
            body.push_str("\"inputs\":");
            object(&mut body, &columns, |input| {
                (input.shape.clone(), 0..input.shape.iter().product())
            });
        }
    }
    body.push('}');
    let request = Request::new(Method::Post, predict_path(model))?;
    Ok(request.header("Content-Type", "application/json")?.body(body))
}

/// Writes what `part` says of each input by its name; of a single input it alone, as clients do.
fn object(
    out: &mut String,
    columns: &[(&Input, Elements)],
    part: impl Fn(&Input) -> (Vec<usize>, Range<usize>),
) {
    if let [(input, elements)] = columns {
        let (dims, range) = part(input);
        return nested(out, &dims, range, elements);
    }
    out.push('{');
    for (place, (input, elements)) in columns.iter().enumerate() {
        out.push_str(if place == 0 { "" } else { "," });
        out.push_str(&Value::from(input.name.as_str()).to_string());
        out.push(':');
        let (dims, range) = part(input);
        nested(out, &dims, range, elements);
    }
    out.push('}');
}

/// Writes these elements as arrays in arrays.
fn nested(out: &mut String, dims: &[usize], range: Range<usize>, elements: &Elements) {
    let Some((first, rest)) = dims.split_first() else {
        return out.push_str(elements.get(range.start));
    };
    let length: usize = rest.iter().product();
    out.push('[');
    for at in 0..*first {
        out.push_str(if at == 0 { "" } else { "," });
        let start = range.start + at * length;
        nested(out, rest, start..start + length, elements);
    }
    out.push(']');
}

/// Inputs for a model from its metadata, the body of `GET /v1/models/<model>/metadata`: those of the signature of that
/// name. `shape` may replace the shape of an input by its name; dimensions that are still open become 1. `fill` is what
/// an input of that name holds.
///
/// # Errors
/// When the body is not such metadata, has no such signature, or a shape is not said or too large.
pub(crate) fn inputs_from_signature(
    metadata: &[u8],
    signature: &str,
    shape: impl Fn(&str) -> Option<Vec<usize>>,
    fill: impl Fn(&str) -> Fill,
) -> Result<Vec<Input>, Error> {
    let wrong = |problem: String| Error::input("metadata", problem);
    let metadata: Value =
        serde_json::from_slice(metadata).map_err(|error| wrong(error.to_string()))?;
    let signatures = metadata.pointer("/metadata/signature_def/signature_def");
    let signatures = signatures.and_then(Value::as_object);
    let signatures =
        signatures.ok_or_else(|| wrong("expected 'metadata.signature_def'".to_owned()))?;
    let inputs = signatures.get(signature).and_then(|it| it.get("inputs")?.as_object());
    let inputs = inputs.ok_or_else(|| {
        let names: Vec<&str> = signatures.keys().map(String::as_str).collect();
        let problem = format!("no signature '{signature}'; expected one of {}", names.join(", "));
        Error::plan("--signature", problem)
    })?;
    let mut made = Vec::with_capacity(inputs.len());
    for (name, input) in inputs {
        let given = input.get("dtype").and_then(Value::as_str).unwrap_or_default();
        let dtype = data_type(given).ok_or_else(|| {
            Error::input(name, format!("the type '{given}' cannot be made up; send --body"))
        })?;
        let shape = shape(name).or_else(|| declared(input)).ok_or_else(|| {
            Error::input(name, "its number of dimensions is open; give it with --shape NAME:DIMS")
        })?;
        made.push(Input::filled(name, dtype, &shape, fill(name))?);
    }
    Ok(made)
}

/// The shape that the metadata say, open dimensions as 1; `None` where the number of dimensions is open.
fn declared(input: &Value) -> Option<Vec<usize>> {
    let shape = input.get("tensor_shape")?;
    if shape.get("unknown_rank").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    // 64-bit numbers are strings in the JSON of protocol buffers.
    let size = |it: &Value| match it.get("size") {
        Some(Value::String(text)) => text.parse().unwrap_or(1),
        Some(number) => number.as_u64().unwrap_or(1) as usize,
        None => 1,
    };
    let dims = shape.get("dim").and_then(Value::as_array);
    Some(dims.map_or_else(Vec::new, |it| it.iter().map(size).collect()))
}

/// A type by TensorFlow's name; `None` of one that JSON has no elements for.
fn data_type(name: &str) -> Option<DataType> {
    Some(match name {
        "DT_BOOL" => DataType::Bool,
        "DT_UINT8" => DataType::Uint8,
        "DT_UINT16" => DataType::Uint16,
        "DT_UINT32" => DataType::Uint32,
        "DT_UINT64" => DataType::Uint64,
        "DT_INT8" => DataType::Int8,
        "DT_INT16" => DataType::Int16,
        "DT_INT32" => DataType::Int32,
        "DT_INT64" => DataType::Int64,
        "DT_HALF" => DataType::Fp16,
        "DT_BFLOAT16" => DataType::Bf16,
        "DT_FLOAT" => DataType::Fp32,
        "DT_DOUBLE" => DataType::Fp64,
        "DT_STRING" => DataType::Bytes,
        _ => return None,
    })
}

/// Does the body look like the answer to a prediction: rows in `predictions`, or `outputs`?
pub(crate) fn is_prediction(reply: &CheckedReply<'_>) -> bool {
    let Ok(answer) = serde_json::from_slice::<Value>(reply.body) else { return false };
    let rows = answer.get("predictions").and_then(Value::as_array);
    rows.map_or_else(|| answer.get("outputs").is_some_and(|it| !it.is_null()), |it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, shape: &[usize]) -> Input {
        let data = (0..shape.iter().product::<usize>() as u8).collect();
        Input::raw(name, DataType::Uint8, shape, data).unwrap()
    }

    #[track_caller]
    fn check(inputs: &[Input], expected: &str) {
        let request = tfs_predict("a b", "s", inputs).unwrap();
        let text = String::from_utf8(request.encode("h")).unwrap();
        assert!(text.starts_with("POST /v1/models/a%20b:predict HTTP/1.1\r\n"), "{text}");
        let body = format!("\r\n\r\n{{\"signature_name\":\"s\",{expected}}}");
        assert!(text.ends_with(&body), "{text}");
    }

    #[test]
    fn rows_are_instances_and_what_has_no_rows_in_common_is_inputs() {
        check(&[input("x", &[2, 1, 2])], r#""instances":[[[0,1]],[[2,3]]]"#);
        check(&[input("x", &[2])], r#""instances":[0,1]"#);
        let both = [input("x", &[2, 2]), input("y", &[2])];
        check(&both, r#""instances":[{"x":[0,1],"y":0},{"x":[2,3],"y":1}]"#);
        check(&[input("x", &[1, 2]), input("y", &[])], r#""inputs":{"x":[[0,1]],"y":0}"#);
        check(&[input("y", &[])], r#""inputs":0"#);
        check(&[input("x", &[1, 0])], r#""instances":[[]]"#);
    }

    /// As TensorFlow Serving writes them.
    const METADATA: &str = r#"{"model_spec": {"name": "m", "signature_name": "", "version": "1"},
        "metadata": {"signature_def": {"signature_def": {
          "serving_default": {"inputs": {
              "x": {"dtype": "DT_FLOAT", "name": "x:0", "tensor_shape": {"unknown_rank": false,
                "dim": [{"size": "-1", "name": ""}, {"size": "4", "name": ""}]}},
              "t": {"dtype": "DT_STRING", "tensor_shape": {"dim": [{"size": "-1", "name": ""}]}}},
            "outputs": {}, "method_name": "tensorflow/serving/predict"},
          "open": {"inputs": {"x": {"dtype": "DT_INT64", "tensor_shape": {"dim": [], "unknown_rank": true}}}},
          "odd": {"inputs": {"x": {"dtype": "DT_COMPLEX64", "tensor_shape": {"dim": []}}}}}}}}"#;

    #[test]
    fn the_inputs_of_a_signature_are_those_of_its_metadata() {
        let made = |signature: &str, given: Option<&[usize]>| {
            let shape = |name: &str| given.filter(|_| name == "x").map(<[usize]>::to_vec);
            inputs_from_signature(METADATA.as_bytes(), signature, shape, |_| Fill::Zeros)
                .map_err(|it| it.to_string())
        };
        let shapes = |given| {
            let inputs = made("serving_default", given).unwrap();
            inputs.into_iter().map(|it| (it.name, it.dtype, it.shape)).collect::<Vec<_>>()
        };
        let text = ("t".to_owned(), DataType::Bytes, vec![1]);
        let x = |shape: &[usize]| ("x".to_owned(), DataType::Fp32, shape.to_vec());
        assert_eq!(shapes(None), [x(&[1, 4]), text.clone()]);
        assert_eq!(shapes(Some(&[8, 4])), [x(&[8, 4]), text]);
        assert!(made("other", None).unwrap_err().contains("one of serving_default, open, odd"));
        assert!(made("open", None).unwrap_err().contains("--shape"));
        assert_eq!(made("open", Some(&[2])).unwrap()[0].shape, [2]);
        assert!(made("odd", None).unwrap_err().contains("DT_COMPLEX64"));
        let nothing = inputs_from_signature(b"{}", "s", |_| None, |_| Fill::Zeros).unwrap_err();
        assert!(nothing.to_string().contains("metadata.signature_def"), "{nothing}");
    }

    #[test]
    fn a_prediction_has_rows_or_outputs() {
        let check = |body: &[u8]| is_prediction(&CheckedReply { request: 0, status: 200, body });
        assert!(check(br#"{"predictions":[[1]]}"#) && check(br#"{"outputs":[1]}"#));
        assert!(!check(br#"{"predictions":[]}"#) && !check(br#"{"error":"x"}"#) && !check(b"<p>"));
    }
}
