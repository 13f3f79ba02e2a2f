//! Requests of the KServe v2 protocol, as JSON and with raw tensors, and SageMaker's invocations.

use std::fmt::Write;

use half::{bf16, f16};
use serde_json::Value;

use crate::{DataType, Error, Fill, Input, Method, Request, UnknownDatatype, data::strings};

/// `POST /v2/models/<model>/infer` with all data in the JSON, flat.
///
/// # Errors
/// When a BYTES input is not UTF-8, or the model's name cannot be part of a path.
pub fn kserve_json(model: &str, inputs: &[Input]) -> Result<Request, Error> {
    let request = Request::new(Method::Post, infer_path(model))?;
    Ok(request.header("Content-Type", "application/json")?.body(json_body(inputs)?))
}

/// Its body, which `/invocations` takes, too.
///
/// # Errors
/// When a BYTES input is not UTF-8.
pub fn json_body(inputs: &[Input]) -> Result<String, Error> {
    let mut body = String::from(r#"{"inputs":["#);
    for (i, input) in inputs.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(body, "{comma}{{{},\"data\":[", description(input));
        body.push_str(&Elements::of(input)?.text);
        body.push_str("]}");
    }
    body.push_str("]}");
    Ok(body)
}

/// The same with the data behind the JSON, as the binary extension has it. The outputs are asked for in
/// the same form.
///
/// # Errors
/// When the model's name cannot be part of a path.
pub fn kserve_binary(model: &str, inputs: &[Input]) -> Result<Request, Error> {
    let mut header = String::from(r#"{"parameters":{"binary_data_output":true},"inputs":["#);
    for (i, input) in inputs.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(
            header,
            "{comma}{{{},\"parameters\":{{\"binary_data_size\":{}}}}}",
            description(input),
            input.data.len()
        );
    }
    header.push_str("]}");
    let length = header.len().to_string();
    let mut body = header.into_bytes();
    for input in inputs {
        body.extend_from_slice(&input.data);
    }
    let request = Request::new(Method::Post, infer_path(model))?
        .header("Content-Type", "application/octet-stream")?
        .header("Inference-Header-Content-Length", &length)?;
    Ok(request.body(body))
}

/// `POST /invocations` with this body.
///
/// # Errors
/// When the content type cannot be the value of a header.
pub fn invocations(content_type: &str, body: impl Into<Vec<u8>>) -> Result<Request, Error> {
    let request = Request::new(Method::Post, "/invocations")?;
    Ok(request.header("Content-Type", content_type)?.body(body))
}

/// Inputs for a model from its metadata, the body of `GET /v2/models/<model>`: `shape` may replace the
/// shape of an input by its name; dimensions that are still open become 1. `fill` is what an input of that name holds.
///
/// # Errors
/// When the body is not such metadata, or a shape is too large.
pub fn inputs_from_metadata(
    metadata: &[u8],
    shape: impl Fn(&str) -> Option<Vec<usize>>,
    fill: impl Fn(&str) -> Fill,
) -> Result<Vec<Input>, Error> {
    let wrong = |problem: &str| Error::input("metadata", problem);
    let metadata: Value =
        serde_json::from_slice(metadata).map_err(|error| wrong(&error.to_string()))?;
    let inputs = metadata.get("inputs").and_then(Value::as_array);
    let inputs = inputs.ok_or_else(|| wrong("expected an array 'inputs'"))?;
    let mut made = Vec::with_capacity(inputs.len());
    for input in inputs {
        let text = |field| input.get(field).and_then(Value::as_str);
        let name = text("name").ok_or_else(|| wrong("expected each input to have a 'name'"))?;
        let dtype = text("datatype").unwrap_or_default().parse();
        let dtype: DataType =
            dtype.map_err(|it: UnknownDatatype| Error::input(name, it.to_string()))?;
        let dims = input.get("shape").and_then(Value::as_array);
        let dims = dims.ok_or_else(|| Error::input(name, "the metadata have no 'shape'"))?;
        let declared = dims.iter().map(|it| it.as_u64().map_or(1, |it| it as usize));
        let shape = shape(name).unwrap_or_else(|| declared.collect());
        made.push(Input::filled(name, dtype, &shape, fill(name))?);
    }
    Ok(made)
}

/// The inputs there that have dimensions which are open, by their names; none where the body is no such metadata.
pub(crate) fn open_inputs(metadata: &[u8]) -> Vec<String> {
    let metadata: Value = serde_json::from_slice(metadata).unwrap_or_default();
    let inputs = metadata.get("inputs").and_then(Value::as_array).into_iter().flatten();
    let is_open = |it: &&Value| {
        let dims = it.get("shape").and_then(Value::as_array).into_iter().flatten();
        dims.into_iter().any(|it| it.as_u64().is_none())
    };
    let name = |it: &Value| it.get("name").and_then(Value::as_str).map(str::to_owned);
    inputs.filter(is_open).filter_map(name).collect()
}

/// The path of a model's metadata; `/infer` behind it is the path of its inference.
pub(crate) fn model_path(model: &str) -> String {
    format!("/v2/models/{}", escaped(model))
}

/// A model's name as a part of a path.
pub(crate) fn escaped(model: &str) -> String {
    let mut path = String::new();
    for byte in model.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path
}

fn infer_path(model: &str) -> String {
    format!("{}/infer", model_path(model))
}

/// Name, shape and type as members of a JSON object.
fn description(input: &Input) -> String {
    let Input { name, dtype, shape, .. } = input;
    let name = Value::from(name.as_str());
    let shape = Value::from(shape.clone());
    format!(r#""name":{name},"shape":{shape},"datatype":"{dtype}""#)
}

/// The elements of an input as JSON has them, separated by commas.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    pub(crate) text: String,
    /// Where each ends in the text.
    ends: Vec<usize>,
}

impl Elements {
    /// Those of an input.
    ///
    /// # Errors
    /// When one is not UTF-8.
    pub(crate) fn of(input: &Input) -> Result<Elements, Error> {
        let data = input.data.as_slice();
        let mut out = Elements::default();
        match input.dtype {
            DataType::Bool => out.read(data, |[it]: [u8; 1]| it != 0),
            DataType::Uint8 => out.read(data, u8::from_le_bytes),
            DataType::Uint16 => out.read(data, u16::from_le_bytes),
            DataType::Uint32 => out.read(data, u32::from_le_bytes),
            DataType::Uint64 => out.read(data, u64::from_le_bytes),
            DataType::Int8 => out.read(data, i8::from_le_bytes),
            DataType::Int16 => out.read(data, i16::from_le_bytes),
            DataType::Int32 => out.read(data, i32::from_le_bytes),
            DataType::Int64 => out.read(data, i64::from_le_bytes),
            DataType::Fp16 => out.read(data, |it| Float(f16::from_le_bytes(it).to_f32())),
            DataType::Bf16 => out.read(data, |it| Float(bf16::from_le_bytes(it).to_f32())),
            DataType::Fp32 => out.read(data, |it| Float(f32::from_le_bytes(it))),
            DataType::Fp64 => out.read(data, |it| Float(f64::from_le_bytes(it))),
            DataType::Bytes => {
                for (i, string) in strings(data).flatten().enumerate() {
                    let string = std::str::from_utf8(string).map_err(|_| {
                        let problem = format!("element {i} is not UTF-8, JSON needs it");
                        Error::input(&input.name, problem)
                    })?;
                    out.push(Value::from(string));
                }
            }
        }
        Ok(out)
    }

    /// One of them; empty where there are not so many.
    pub(crate) fn get(&self, at: usize) -> &str {
        let before = at.checked_sub(1).map(|it| self.ends.get(it).map_or(0, |end| end + 1));
        let end = self.ends.get(at).copied().unwrap_or_default();
        self.text.get(before.unwrap_or(0)..end).unwrap_or_default()
    }

    fn push(&mut self, element: impl std::fmt::Display) {
        let comma = if self.ends.is_empty() { "" } else { "," };
        let _ = write!(self.text, "{comma}{element}");
        self.ends.push(self.text.len());
    }

    fn read<const N: usize, T: std::fmt::Display>(
        &mut self,
        data: &[u8],
        read: impl Fn([u8; N]) -> T,
    ) {
        let (elements, _) = data.as_chunks::<N>();
        elements.iter().for_each(|it| self.push(read(*it)));
    }
}

/// The shortest text that reads back as the same number; `NaN`, `Infinity` and `-Infinity` as bare words,
/// which KServe servers take.
struct Float<T>(T);

impl<T: Into<f64> + Copy + std::fmt::Debug> std::fmt::Display for Float<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value: f64 = self.0.into();
        if value.is_finite() {
            write!(f, "{:?}", self.0)
        } else if value.is_nan() {
            f.write_str("NaN")
        } else {
            f.write_str(if value > 0.0 { "Infinity" } else { "-Infinity" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Request) -> String {
        String::from_utf8_lossy(&request.encode("h:80")).into_owned()
    }

    #[test]
    fn a_json_request_holds_the_data() {
        let raw: Vec<u8> = [0.5f32, -2.0, 1e-7].iter().flat_map(|it| it.to_le_bytes()).collect();
        let floats = Input::raw("x", DataType::Fp32, &[1, 3], raw).unwrap();
        let strings = b"\x02\0\0\0a\"\0\0\0\0".to_vec();
        let strings = Input::raw("s", DataType::Bytes, &[2], strings).unwrap();
        let request = text(&kserve_json("my model", &[floats, strings]).unwrap());
        assert!(request.starts_with("POST /v2/models/my%20model/infer HTTP/1.1\r\n"), "{request}");
        let body = concat!(
            r#"{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[0.5,-2.0,1e-7]},"#,
            r#"{"name":"s","shape":[2],"datatype":"BYTES","data":["a\"",""]}]}"#
        );
        assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
    }

    #[test]
    fn every_type_can_be_written_as_json() {
        for (dtype, one) in [
            (DataType::Bool, "true"),
            (DataType::Int8, "1"),
            (DataType::Uint64, "1"),
            (DataType::Int64, "1"),
        ] {
            let mut data = vec![0; dtype.size().unwrap()];
            data[0] = 1;
            let input = Input::raw("x", dtype, &[1], data).unwrap();
            let request = text(&kserve_json("m", &[input]).unwrap());
            assert!(request.contains(&format!("\"data\":[{one}]")), "{request}");
        }
        for (dtype, data) in [(DataType::Fp16, [0x00, 0x38]), (DataType::Bf16, [0x00, 0x3f])] {
            let input = Input::raw("x", dtype, &[1], data.to_vec()).unwrap();
            assert!(text(&kserve_json("m", &[input]).unwrap()).contains("\"data\":[0.5]"));
        }
    }

    #[test]
    fn a_binary_request_says_where_the_tensors_begin() {
        let input = Input::raw("x", DataType::Uint8, &[3], b"abc".to_vec()).unwrap();
        let request = text(&kserve_binary("m", &[input.clone(), input]).unwrap());
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let json = body.strip_suffix("abcabc").unwrap();
        assert!(
            head.contains(&format!("Inference-Header-Content-Length: {}", json.len())),
            "{head}"
        );
        let json: Value = serde_json::from_str(json).unwrap();
        assert_eq!(json["inputs"][1]["parameters"]["binary_data_size"], 3);
    }

    #[test]
    fn metadata_become_inputs_with_open_dimensions_closed() {
        let metadata = br#"{"name":"m","inputs":[
            {"name":"a","datatype":"FP32","shape":[-1,30]},
            {"name":"b","datatype":"INT64","shape":[-1,-1]}]}"#;
        let shape = |name: &str| (name == "b").then(|| vec![2, 7]);
        let inputs = inputs_from_metadata(metadata, shape, |_| Fill::Zeros).unwrap();
        let shapes: Vec<_> = inputs.iter().map(|it| it.shape.clone()).collect();
        assert_eq!(shapes, [vec![1, 30], vec![2, 7]]);
        assert_eq!(inputs[1].data.len(), 2 * 7 * 8);
        for wrong in ["{}", r#"{"inputs":[{"name":"a","datatype":"F","shape":[1]}]}"#, "[1"] {
            assert!(inputs_from_metadata(wrong.as_bytes(), |_| None, |_| Fill::Zeros).is_err());
        }
    }
}
