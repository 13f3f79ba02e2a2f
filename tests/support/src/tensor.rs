//! A tensor as the tests see it, in both of its forms on the wire: raw little-endian bytes and JSON.

use std::fmt::Write;

use base64::{Engine, prelude::BASE64_STANDARD};
use half::{bf16, f16};
use serde_json::{Value, json};

use super::{Client, Reply};

/// A named tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Name of the input or output.
    pub name: String,
    /// As `FP32`.
    pub datatype: String,
    /// All dimensions.
    pub shape: Vec<usize>,
    /// The elements as the binary extension sends them.
    pub raw: Vec<u8>,
}

impl Tensor {
    /// A tensor of any type.
    pub fn new(name: &str, datatype: &str, shape: &[usize], raw: impl Into<Vec<u8>>) -> Tensor {
        let (name, datatype) = (name.to_owned(), datatype.to_owned());
        Tensor { name, datatype, shape: shape.to_vec(), raw: raw.into() }
    }

    /// A tensor of 32-bit floats.
    pub fn fp32(name: &str, shape: &[usize], values: &[f32]) -> Tensor {
        let raw = values.iter().flat_map(|it| it.to_le_bytes());
        Tensor::new(name, "FP32", shape, raw.collect::<Vec<u8>>())
    }

    /// A tensor of strings.
    pub fn strings(name: &str, shape: &[usize], values: &[&[u8]]) -> Tensor {
        let length = |it: &&[u8]| u32::try_from(it.len()).unwrap().to_le_bytes();
        let raw = values.iter().flat_map(|it| [&length(it), *it].concat());
        Tensor::new(name, "BYTES", shape, raw.collect::<Vec<u8>>())
    }

    /// One of `tests/fixtures/expected`.
    pub fn expected(name: &str, written: &Value) -> Tensor {
        let raw = BASE64_STANDARD.decode(written["raw"].as_str().unwrap()).unwrap();
        Tensor::new(name, written["datatype"].as_str().unwrap(), &dims(&written["shape"]), raw)
    }

    /// The elements as numbers; none for strings.
    pub fn numbers(&self) -> Vec<f64> {
        self.texts().unwrap_or_default().iter().filter_map(|it| it.parse().ok()).collect()
    }

    /// The elements as JSON writes them; `None` for strings that are not UTF-8.
    pub fn texts(&self) -> Option<Vec<String>> {
        let raw = &self.raw;
        Some(match &*self.datatype {
            "BOOL" => each(raw, |[it]| (it != 0).to_string()),
            "UINT8" => each(raw, |it| u8::from_le_bytes(it).to_string()),
            "UINT16" => each(raw, |it| u16::from_le_bytes(it).to_string()),
            "UINT32" => each(raw, |it| u32::from_le_bytes(it).to_string()),
            "UINT64" => each(raw, |it| u64::from_le_bytes(it).to_string()),
            "INT8" => each(raw, |it| i8::from_le_bytes(it).to_string()),
            "INT16" => each(raw, |it| i16::from_le_bytes(it).to_string()),
            "INT32" => each(raw, |it| i32::from_le_bytes(it).to_string()),
            "INT64" => each(raw, |it| i64::from_le_bytes(it).to_string()),
            "FP16" => each(raw, |it| float(f16::from_le_bytes(it).to_f64())),
            "BF16" => each(raw, |it| float(bf16::from_le_bytes(it).to_f64())),
            "FP32" => each(raw, |it| float(f32::from_le_bytes(it).into())),
            "FP64" => each(raw, |it| float(f64::from_le_bytes(it))),
            "BYTES" => {
                let text = |it: &Vec<u8>| Some(json!(std::str::from_utf8(it).ok()?).to_string());
                self.split().iter().map(text).collect::<Option<_>>()?
            }
            other => panic!("no such datatype: {other}"),
        })
    }

    /// The strings of a BYTES tensor.
    pub fn split(&self) -> Vec<Vec<u8>> {
        let (mut strings, mut rest) = (Vec::new(), &*self.raw);
        while let Some((length, behind)) = rest.split_first_chunk() {
            let (string, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
            strings.push(string.to_vec());
            rest = behind;
        }
        strings
    }

    fn header(&self) -> String {
        let Tensor { name, datatype, shape, .. } = self;
        format!("\"name\":{},\"datatype\":\"{datatype}\",\"shape\":{shape:?}", json!(name))
    }
}

fn dims(shape: &Value) -> Vec<usize> {
    let dims = shape.as_array().unwrap().iter();
    dims.map(|it| usize::try_from(it.as_u64().unwrap()).unwrap()).collect()
}

fn each<const N: usize>(raw: &[u8], text: impl Fn([u8; N]) -> String) -> Vec<String> {
    let (elements, rest) = raw.as_chunks();
    assert!(rest.is_empty(), "{} bytes are no whole number of elements of {N}", raw.len());
    elements.iter().map(|it| text(*it)).collect()
}

fn float(value: f64) -> String {
    match value {
        it if it.is_nan() => "NaN".to_owned(),
        it if it.is_infinite() => if it > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        it => format!("{it:?}"),
    }
}

/// How an inference request and its reply carry their tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As raw bytes behind the JSON.
    Binary,
    /// As numbers and strings in the JSON.
    Json,
}

/// The JSON and what follows it. `extra` is more of the request's object, as `"id":"7"`.
pub fn infer_body(inputs: &[Tensor], form: Form, extra: &str) -> (String, Vec<u8>) {
    let mut json = String::from("{\"inputs\":[");
    let mut raw = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let data = match form {
            Form::Binary => {
                raw.extend_from_slice(&input.raw);
                format!("\"parameters\":{{\"binary_data_size\":{}}}", input.raw.len())
            }
            Form::Json => {
                format!("\"data\":[{}]", input.texts().expect("it has a JSON form").join(","))
            }
        };
        write!(json, "{comma}{{{},{data}}}", input.header()).unwrap();
    }
    json.push(']');
    if form == Form::Binary {
        json.push_str(",\"parameters\":{\"binary_data_output\":true}");
    }
    if !extra.is_empty() {
        write!(json, ",{extra}").unwrap();
    }
    json.push('}');
    (json, raw)
}

impl Client {
    /// Runs a model over KServe v2.
    #[track_caller]
    pub fn infer(&mut self, model: &str, inputs: &[Tensor], form: Form, extra: &str) -> Reply {
        let (json, raw) = infer_body(inputs, form, extra);
        let length = json.len().to_string();
        let headers: &[(&str, &str)] = match form {
            Form::Binary => &[("inference-header-content-length", &length)],
            Form::Json => &[],
        };
        let body = [json.as_bytes(), &raw].concat();
        self.post(&format!("/v2/models/{model}/infer"), headers, body)
    }
}

impl Reply {
    /// The outputs of an inference reply in its order. Those that came as JSON are turned into bytes.
    #[track_caller]
    pub fn outputs(&self) -> Vec<Tensor> {
        assert_eq!(self.status, 200, "{}", self.text());
        let length = self.header("inference-header-content-length");
        let length = length.map_or(self.body.len(), |it| it.parse().unwrap());
        let (head, mut rest) = self.body.split_at(length);
        // serde_json knows neither NaN nor infinities, and rounds floats its own way: all as strings.
        let text = quote_data(std::str::from_utf8(head).unwrap());
        let head: Value = serde_json::from_str(&text).unwrap();
        let output = |it: &Value| {
            let (name, datatype) = (it["name"].as_str().unwrap(), it["datatype"].as_str().unwrap());
            let raw = match it["parameters"]["binary_data_size"].as_u64() {
                Some(size) => {
                    let (raw, behind) = rest.split_at(usize::try_from(size).unwrap());
                    rest = behind;
                    raw.to_vec()
                }
                None => {
                    let data = it["data"].as_array().expect("data or binary_data_size").iter();
                    data.flat_map(|it| element(datatype, it.as_str().unwrap())).collect()
                }
            };
            Tensor::new(name, datatype, &dims(&it["shape"]), raw)
        };
        let outputs = head["outputs"].as_array().unwrap().iter().map(output).collect();
        assert!(rest.is_empty(), "{} bytes behind the last output", rest.len());
        outputs
    }

    /// The only output.
    #[track_caller]
    pub fn output(&self) -> Tensor {
        let mut outputs = self.outputs();
        assert_eq!(outputs.len(), 1, "{outputs:?}");
        outputs.remove(0)
    }
}

/// Puts what stands between the brackets of `"data":[..]` into quotes, element by element, unless it is a
/// string already.
fn quote_data(text: &str) -> String {
    let mut quoted = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("\"data\":[") {
        quoted.push_str(before);
        quoted.push_str("\"data\":[");
        rest = behind;
        if behind.starts_with('"') {
            continue;
        }
        let (data, behind) = behind.split_once(']').expect("the end of the data");
        let elements = data.split(',').filter(|it| !it.is_empty());
        let elements: Vec<String> = elements.map(|it| format!("\"{it}\"")).collect();
        quoted.push_str(&elements.join(","));
        quoted.push(']');
        rest = behind;
    }
    quoted + rest
}

/// The bytes of one element of JSON data.
fn element(datatype: &str, text: &str) -> Vec<u8> {
    fn number<T: std::str::FromStr>(text: &str) -> T {
        text.parse().unwrap_or_else(|_| panic!("no number of the type: {text}"))
    }
    match datatype {
        "BOOL" => vec![number::<bool>(text).into()],
        "UINT8" => number::<u8>(text).to_le_bytes().to_vec(),
        "UINT16" => number::<u16>(text).to_le_bytes().to_vec(),
        "UINT32" => number::<u32>(text).to_le_bytes().to_vec(),
        "UINT64" => number::<u64>(text).to_le_bytes().to_vec(),
        "INT8" => number::<i8>(text).to_le_bytes().to_vec(),
        "INT16" => number::<i16>(text).to_le_bytes().to_vec(),
        "INT32" => number::<i32>(text).to_le_bytes().to_vec(),
        "INT64" => number::<i64>(text).to_le_bytes().to_vec(),
        "FP16" => f16::from_f64(number(text)).to_le_bytes().to_vec(),
        "BF16" => bf16::from_f64(number(text)).to_le_bytes().to_vec(),
        "FP32" => number::<f32>(text).to_le_bytes().to_vec(),
        "FP64" => number::<f64>(text).to_le_bytes().to_vec(),
        "BYTES" => Tensor::strings("", &[], &[text.as_bytes()]).raw,
        other => panic!("no such datatype: {other}"),
    }
}
