//! Is an answer right? A server that is fast because it answers nonsense must not look good.

use std::sync::Arc;

use backend::NamedTensor;
use serde_json::{Deserializer, Value};

/// The one output of a request of one row.
#[derive(Debug)]
pub struct Expected {
    pub output: Arc<str>,
    pub values: Vec<f32>,
    /// How far an answer may lie off, relative to the value and at least to one; 0 for not at all.
    pub tolerance: f64,
}

impl Expected {
    /// Is this body of a KServe reply, with its data in the JSON or behind it, the right answer?
    pub fn is_body(&self, body: &[u8]) -> bool {
        let mut values = Deserializer::from_slice(body).into_iter::<Value>();
        let Some(Ok(answer)) = values.next() else { return false };
        let raw = body.get(values.byte_offset()..).unwrap_or_default();
        let output = &answer["outputs"][0];
        if output["name"] != *self.output {
            return false;
        }
        match output.get("data").and_then(Value::as_array) {
            // The text of a number may be that of the f32 or of the f64 that equals it.
            Some(data) => self.are_values(data.iter().map(|it| it.as_f64().map(|it| it as f32))),
            None => self.are_values(floats(raw)),
        }
    }

    /// Are these bytes of the output the right answer?
    pub fn is_raw(&self, output: &[u8]) -> bool {
        self.are_values(floats(output))
    }

    /// Are these outputs of a run of `rows` equal rows the right answer?
    pub fn are_outputs(&self, outputs: &[NamedTensor], rows: usize) -> bool {
        let [output] = outputs else { return false };
        let bytes = output.tensor.to_bytes();
        let row = bytes.len() / rows;
        output.name == self.output && bytes.chunks(row).all(|it| self.are_values(floats(it)))
    }

    fn are_values(&self, given: impl ExactSizeIterator<Item = Option<f32>>) -> bool {
        let close = |(given, &expected): (Option<f32>, &f32)| {
            let distance = given.map(|it| f64::from((it - expected).abs()));
            distance.is_some_and(|it| it <= self.tolerance * f64::from(expected.abs().max(1.0)))
        };
        given.len() == self.values.len() && given.zip(&self.values).all(close)
    }
}

fn floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = Option<f32>> {
    bytes.chunks(4).map(|it| it.try_into().ok().map(f32::from_le_bytes))
}
