//! RecordIO with the records of AWS's algorithms.

use std::collections::BTreeMap;

use formats::recordio::{
    MAGIC,
    record::{self, Float32Tensor, Int32Tensor, Record, Value, value},
};
use prost::Message;

use super::{
    Target,
    invocations::{examples, invoke},
};

fn frame(record: &Record) -> Vec<u8> {
    let payload = record.encode_to_vec();
    let mut out = [&MAGIC[..], &(payload.len() as u32).to_le_bytes(), &payload].concat();
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn record(name: &str, value: value::Value) -> Record {
    let features = BTreeMap::from([(name.to_owned(), Value { value: Some(value) })]);
    Record { features, ..Record::default() }
}

/// Records.
pub(super) const RECORDIO: Target = Target {
    name: "recordio",
    decode: |data| invoke(Some("application/x-recordio-protobuf"), data),
    examples: || {
        let floats = |values: &[f32], keys: &[u64], shape: &[u64]| {
            let (values, keys, shape) = (values.to_vec(), keys.to_vec(), shape.to_vec());
            value::Value::Float32Tensor(Float32Tensor { values, keys, shape })
        };
        let integers = |values: &[i32], keys: &[u64], shape: &[u64]| {
            let (values, keys, shape) = (values.to_vec(), keys.to_vec(), shape.to_vec());
            value::Value::Int32Tensor(Int32Tensor { values, keys, shape })
        };
        let bytes =
            value::Value::Bytes(record::Bytes { value: vec![b"a".to_vec()], content_type: None });
        let records = [
            record("values", floats(&[1.0, 2.0], &[], &[])),
            record("values", floats(&[1.0, 2.0, 3.0], &[], &[3])),
            record("values", floats(&[1.0], &[7], &[10])),
            record("values", integers(&[1, 2], &[0, 5], &[6])),
            record("x", integers(&[1], &[], &[1])),
            record("values", bytes),
            Record::default(),
        ];
        let mut bodies: Vec<Vec<u8>> = records.iter().map(frame).collect();
        bodies.push(bodies.concat());
        // A record in several frames.
        let parts = [1u32, 2, 3]
            .map(|part| [&MAGIC[..], &(part << 29 | 4).to_le_bytes(), &[10, 2, 8, 1]].concat());
        bodies.push(parts.concat());
        examples(&bodies)
    },
    words: &["values", "\u{8}", "\u{a}", "\u{12}", "\u{1a}", "\u{0}\u{0}\u{0}\u{0}"],
};
