//! RecordIO bodies, and the tensors that they become.

use std::{fs, path::Path};

use super::*;
use crate::samples::{model, show_inputs};
use proptest::prelude::*;

fn decode(
    signature: &Signature,
    missing: MissingValue,
    left_out: LeftOut,
    body: &[u8],
) -> Result<Vec<NamedTensor>, Error> {
    super::decode(signature, missing, left_out, body, &Grant::all(0))
}

/// A body that the SageMaker Python SDK encoded (`tests/fixtures/make_recordio.py`).
fn written_by_the_sdk(name: &str) -> Vec<u8> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/recordio").join(name);
    fs::read(path).unwrap()
}

#[track_caller]
fn check(name: &str, port: &str, absent: MissingValue, expected: &str) {
    let signature = model(8, &[port], &[]);
    let inputs = decode(&signature, absent, LeftOut::Any, &written_by_the_sdk(name)).unwrap();
    assert_eq!(show_inputs(&inputs).trim_end(), expected, "{name}");
}

/// A body of one record with this feature.
fn body(name: &str, value: value::Value) -> Vec<u8> {
    let features = [(name.to_owned(), Value { value: Some(value) })].into();
    let mut out = Vec::new();
    frames::write(&mut out, &Record { features, ..Record::default() }.encode_to_vec()).unwrap();
    out
}

fn floats32(values: &[f32], keys: &[u64], shape: &[u64]) -> Vec<u8> {
    let (values, keys, shape) = (values.to_vec(), keys.to_vec(), shape.to_vec());
    body(VALUES, value::Value::Float32Tensor(Float32Tensor { values, keys, shape }))
}

#[track_caller]
fn refused(body: &[u8], expected: &str) {
    let signature = model(8, &["x FP32 [3]"], &[]);
    let decode = |missing| decode(&signature, missing, LeftOut::Any, body);
    let error = decode(MissingValue::Nan).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn dense_rows_of_the_sdk_in_each_of_its_types() {
    let (port, missing) = ("x FP32 [3]", MissingValue::Nan);
    let rows = "x FP32 [2,3] [1.5,0.0,-2.25,0.0,1000000.0,3.0]";
    check("dense_float32.rec", port, missing, rows);
    check("dense_float64_labels.rec", port, missing, rows);
    check("dense_int32.rec", port, missing, "x FP32 [2,3] [7.0,-1.0,0.0,2.0,3.0,4.0]");
    check("dense_int32.rec", "x INT64 [3]", missing, "x INT64 [2,3] [7,-1,0,2,3,4]");
    check("dense_float32.rec", "x FP64 [-1]", missing, &rows.replace("FP32", "FP64"));
}

#[test]
fn sparse_rows_of_the_sdk_are_missing_or_zero_where_they_say_nothing() {
    let port = "x FP32 [3]";
    let rows = "x FP32 [2,3] [1.5,0.0,-2.25,0.0,1000000.0,3.0]";
    check("sparse_float32_labels.rec", port, MissingValue::Zero, rows);
    let rows = "x FP32 [2,3] [1.5,NaN,-2.25,NaN,1000000.0,3.0]";
    check("sparse_float32_labels.rec", port, MissingValue::Nan, rows);
    let rows = "x FP32 [2,3] [NaN,4.5,NaN,NaN,NaN,NaN]";
    check("sparse_float64_empty_row.rec", port, MissingValue::Nan, rows);
}

#[test]
fn a_sparse_row_without_a_shape_has_the_models() {
    let signature = model(8, &["x FP32 [3]"], &[]);
    let (zero, any) = (MissingValue::Zero, LeftOut::Any);
    let inputs = decode(&signature, zero, any, &floats32(&[2.0], &[1], &[])).unwrap();
    assert_eq!(show_inputs(&inputs), "x FP32 [1,3] [0.0,2.0,0.0]\n");
    let open = model(8, &["x FP32 [-1]"], &[]);
    let error = decode(&open, zero, any, &floats32(&[2.0], &[1], &[])).unwrap_err().to_string();
    assert!(error.contains("RecordIO record 1: is sparse and has no shape"), "{error}");
}

#[test]
fn what_is_no_row_is_refused_with_its_record() {
    let row = floats32(&[1.0, 2.0, 3.0], &[], &[]);
    let then = |tail: &[u8]| [row.as_slice(), tail].concat();
    refused(&then(b"x"), "RecordIO record 2: at byte 36: expected 8 bytes of header, found 1");
    refused(&then(b"\x0a\x23\xd7\xce\x04\0\0\0\xff\xff\xff\xff"), "record 2: no protobuf record");
    refused(&then(&floats32(&[1.0], &[], &[])), "record 2: has 1 values, expected 3 as the first");
    refused(&floats32(&[1.0], &[], &[2]), "record 1: has 1 values, its shape calls for 2");
    refused(&floats32(&[1.0], &[1, 2], &[3]), "record 1: has 1 values and 2 keys");
    refused(&floats32(&[1.0], &[3], &[3]), "record 1: names position 3, the row has 3 positions");
    refused(&floats32(&[1.0], &[0], &[u64::MAX, 2]), "values, the model takes 3");
    let image = value::Value::Bytes(record::Bytes::default());
    refused(&body(VALUES, image.clone()), "record 1: the feature 'values' is of bytes");
    refused(&body("picture", image), "record 1: expected the feature 'values', found 'picture'");
    refused(b"", "the RecordIO body has no records");
    refused(&floats32(&[1.0; 4], &[], &[]), "record 1 has 4 values, the model takes 3");
    let signature = model(8, &["x FP32 [3]"], &[]);
    let zero = |body: Vec<u8>| {
        decode(&signature, MissingValue::Zero, LeftOut::Any, &body).unwrap_err().to_string()
    };
    let error = zero(floats32(&[1.0], &[], &[]));
    assert!(error.contains("expected shape [-1,3], the RecordIO body has [1,1]"), "{error}");
    let error = zero(floats32(&[1.0], &[0], &[u64::MAX, 2]));
    assert!(error.contains("more than the 4205568 that a body"), "{error}");
}

#[test]
fn to_xgboost_columns_at_the_end_may_be_left_out_dense_or_sparse() {
    let signature = model(8, &["x FP32 [3]"], &[]);
    let decode = |left_out, body: &[u8]| decode(&signature, MissingValue::Nan, left_out, body);
    let two = [floats32(&[1.0], &[], &[]), floats32(&[2.0], &[0], &[1])].concat();
    let inputs = decode(LeftOut::Any, &two).unwrap();
    assert_eq!(show_inputs(&inputs), "x FP32 [2,3] [1.0,NaN,NaN,2.0,NaN,NaN]\n");
    let inputs = decode(LeftOut::One, &floats32(&[1.0, 2.0], &[], &[])).unwrap();
    assert_eq!(show_inputs(&inputs), "x FP32 [1,3] [1.0,2.0,NaN]\n");
    for body in [two, floats32(&[1.0; 4], &[], &[]), floats32(&[1.0], &[0], &[4])] {
        let error = decode(LeftOut::One, &body).unwrap_err();
        assert!(matches!(error, Error::InvalidInput { .. }), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in any::<Vec<u8>>(),
        values in prop::collection::vec(any::<f32>(), 0..4),
        keys in prop::collection::vec(prop_oneof![0u64..5, any::<u64>()], 0..4),
        shape in prop::collection::vec(prop_oneof![0u64..5, any::<u64>()], 0..3),
    ) {
        let mut framed = Vec::new();
        frames::write(&mut framed, &bytes).unwrap();
        for dims in ["[3]", "[-1]", "[2,-1]", "[]"] {
            let signature = model(8, &[&format!("x FP32 {dims}")], &[]);
            for body in [&bytes, &framed, &floats32(&values, &keys, &shape)] {
                let _ = decode(&signature, MissingValue::Zero, LeftOut::Any, body);
                let _ = decode(&signature, MissingValue::Nan, LeftOut::One, body);
            }
        }
    }

    #[test]
    fn what_was_written_is_read_back(values in prop::collection::vec(any::<f32>(), 1..20)) {
        let tensor = Tensor::from_vec(backend::Shape::new(&[values.len()]), values.clone()).unwrap();
        let mut out = Vec::new();
        write(&mut out, &[("score", tensor)]).unwrap();
        let frames: Vec<&[u8]> = Frames::new(&out).map(Result::unwrap).collect();
        let record = Record::decode(frames[0]).unwrap();
        let Some(value::Value::Float32Tensor(read)) = &record.label["score"].value else { panic!() };
        let bits = |it: &[f32]| it.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&read.values), bits(&values));
    }
}
