//! That no body takes more memory while it is decoded than its codec says beforehand. Memory is measured, not computed.

use allocation_counter::measure;
use bytes::Bytes;

use flate2::{Compression, write::DeflateEncoder};
use inference::signature::Signature;
use prost::Message;
use std::{collections::BTreeMap, io::Write};

use crate::{
    csv, kserve_v2,
    kserve_v2::generate,
    recordio::{
        self,
        record::{Float32Tensor, Int32Tensor, Record, Value, value},
    },
    sagemaker::{self, Dialect, Invocation, Options},
    samples::model,
    tfs,
};

/// Bytes that stand for an error's text, and for what a lone small request takes.
const SMALL: u64 = 4 << 10;

#[track_caller]
fn within<T>(bound: usize, name: &str, decode: impl FnOnce() -> T) {
    let mut decoded = None;
    let measured = measure(|| decoded = Some(decode()));
    let most = measured.bytes_max;
    assert!(most <= bound as u64 + SMALL, "{name}: takes {most} bytes, the bound is {bound}");
}

/// Lengths below and above that from which separators are counted.
const LENGTHS: [usize; 3] = [40, 1_000, LONG];

/// Bounds above this are by separators.
const LOOSE: usize = 256 << 10;

/// A length above that.
const LONG: usize = 40_000;

fn repeated(open: &str, unit: &str, close: &str, length: usize) -> String {
    let units = length / unit.len() + 1;
    let list = unit.repeat(units);
    format!("{open}{}{close}", list.strip_suffix(',').unwrap_or(&list))
}

/// Keys that differ, with values, up to a length.
fn keys(length: usize) -> String {
    let mut out = String::new();
    for at in 0.. {
        if length < out.len() {
            break;
        }
        out.push_str(&format!("{}\"{at:x}\":0", if at == 0 { "" } else { "," }));
    }
    out
}

fn signatures() -> Vec<Signature> {
    ["x FP32 [-1]", "x INT64 [-1]", "x BOOL [-1]", "x BYTES [-1]", "x FP64 [3]", "x UINT8 []"]
        .into_iter()
        .map(|port| model(1 << 20, &[port], &["y FP32 [2]"]))
        .chain([model(0, &["x FP64 [-1,-1]"], &[]), model(8, &["x BYTES []", "p? FP32 [1]"], &[])])
        .chain([named(2), named(40)])
        .collect()
}

/// A model whose only input has so many columns, with names as those of [`keys`].
fn named(columns: usize) -> Signature {
    let mut signature = model(1 << 20, &[&format!("y FP64 [{columns}]")], &[]);
    signature.inputs[0].labels = (0..columns).map(|it| format!("{it:x}")).collect();
    signature
}

/// Each signature with short bodies, and one of numbers and one of strings with long ones.
fn cases() -> Vec<(Signature, usize)> {
    let long = ["x INT64 [-1]", "x BYTES [-1]"].map(|port| model(1 << 20, &[port], &[]));
    let short = signatures().into_iter().flat_map(|it| [(it.clone(), 40), (it, 1_000)]);
    short.chain(long.map(|it| (it, LONG))).collect()
}

/// Units of which lists are made.
const UNITS: [&str; 9] =
    ["0,", "true,", "\"\",", "\"\\u0041\",", "[],", "{},", "[0],", "-1,", "NaN,"];

#[test]
fn kserve_v2() {
    for (signature, length) in cases() {
        let dtype = signature.inputs[0].dtype;
        {
            let open = |shape: &str| {
                format!(r#"{{"inputs":[{{"name":"x","shape":{shape},"datatype":"{dtype}","data":["#)
            };
            let mut bodies = vec![
                repeated(r#"{"inputs":[{"name":"x","shape":["#, "1,", "]}]}", length),
                format!(r#"{{"parameters":{{{}}},"inputs":[]}}"#, keys(length)),
                format!(r#"{{"inputs":[{{"parameters":{{{}}}}}]}}"#, keys(length)),
            ];
            for unit in UNITS {
                let count = length / unit.len() + 1;
                bodies.push(repeated(&open(&format!("[{count},1]")), unit, "]}]}", length));
                bodies.push(repeated(&open("[1000000000]"), unit, "]}]}", length));
                let later = r#"{"inputs":[{"data":["#;
                let close = format!(r#"],"name":"x","shape":[{count}],"datatype":"{dtype}"}}]}}"#);
                bodies.push(repeated(later, unit, &close, length));
            }
            for body in bodies {
                let name = format!("{dtype} {length} {:.60}", body);
                let bound = kserve_v2::expanded(&signature, None, body.as_bytes(), LOOSE);
                let body = Bytes::from(body);
                within(bound, &name, || kserve_v2::decode(&signature, None, body.clone()));
                let bound = generate::expanded(&signature, &body, LOOSE);
                within(bound, &name, || generate::decode(&signature, &body));
            }
            for unit in UNITS {
                let body = repeated("{\"x\":[", unit, "]}", length);
                let bound = generate::expanded(&signature, body.as_bytes(), LOOSE);
                within(bound, &body[..20], || generate::decode(&signature, body.as_bytes()));
            }
            let body = format!("{{{}}}", keys(length));
            let bound = generate::expanded(&signature, body.as_bytes(), LOOSE);
            within(bound, "generate", || generate::decode(&signature, body.as_bytes()));
        }
        let raw = Bytes::from(vec![1; 24_000]);
        let bound = kserve_v2::expanded(&signature, Some(0), &raw, LOOSE);
        within(bound, "raw", || kserve_v2::decode(&signature, Some(0), raw.clone()));
    }
}

#[test]
fn tensorflow_serving() {
    for (signature, length) in cases() {
        {
            for (open, close) in [
                ("{\"instances\":[", "]}"),
                ("{\"instances\":[[", "]]}"),
                ("{\"inputs\":[", "]}"),
                ("{\"inputs\":{\"x\":[", "]}}"),
                ("{\"instances\":[{\"x\":[", "]}]}"),
            ] {
                for unit in
                    UNITS.iter().chain(&["{\"x\":0},", "{\"b64\":\"AAAA\"},", "\"long text\","])
                {
                    let body = repeated(open, unit, close, length);
                    let name = format!("{length} {:.40}", body);
                    let bound =
                        tfs::expanded(&signature, tfs::Method::Predict, body.as_bytes(), LOOSE);
                    within(bound, &name, || tfs::decode_predict(&signature, body.as_bytes()));
                }
            }
            let body = format!("{{{},\"instances\":[0]}}", keys(length));
            let bound = tfs::expanded(&signature, tfs::Method::Predict, body.as_bytes(), LOOSE);
            within(bound, "keys", || tfs::decode_predict(&signature, body.as_bytes()));
        }
    }
}

#[test]
fn examples_with_a_context() {
    let outputs = ["scores FP32 [2]"];
    for port in ["x FP32 [-1]", "x INT64 [-1]", "x BYTES [-1]"] {
        let signature = model(1 << 20, &[port, "y FP32 [1]"], &outputs);
        for length in [40, 1_000, 20_000] {
            for context in [10, length / 2] {
                for unit in ["0,", "\"\","] {
                    let context = repeated("{\"x\":[", unit, "]}", context);
                    let bodies = [
                        repeated(
                            &format!("{{\"context\":{context},\"examples\":["),
                            "{\"y\":0},",
                            "]}",
                            length,
                        ),
                        repeated(
                            &format!("{{\"c\\u006fntext\":{context},\"examples\":["),
                            "{\"y\":0},",
                            "]}",
                            length,
                        ),
                        repeated("{\"examples\":[", "{\"x\":[0,0,0],\"y\":1},", "]}", length),
                    ];
                    for body in bodies {
                        let bound = tfs::expanded(
                            &signature,
                            tfs::Method::Classify,
                            body.as_bytes(),
                            LOOSE,
                        );
                        within(bound, &format!("{length} {body:.60}"), || {
                            tfs::decode_examples(&signature, tfs::Method::Classify, body.as_bytes())
                        });
                    }
                }
            }
        }
    }
}

/// Decodes under every option that picks another decoder.
#[track_caller]
fn invoke(signature: &Signature, content_type: Option<&str>, body: impl Into<Bytes>) {
    let body = body.into();
    let dialects = [
        None,
        Some(Dialect::Tfs),
        Some(Dialect::HuggingFace),
        Some(Dialect::Mlflow),
        Some(Dialect::Xgboost),
    ];
    // The long ones are for the bounds, not for the dialects.
    let dialects = if body.len() < LONG { &dialects[..] } else { &dialects[..1] };
    for &dialect in dialects {
        let options = Options { dialect, largest_body: Some(1 << 30), ..Options::default() };
        let invocation = Invocation::read(content_type, None, None).unwrap();
        let name = format!("{content_type:?} {dialect:?} {:?}", &body[..body.len().min(60)]);
        let mut bound = 0;
        let look =
            measure(|| bound = sagemaker::expanded(signature, &invocation, &options, &body, LOOSE));
        // The header of an array is inflated.
        let most = if content_type == Some("application/x-npz") { 64 << 10 } else { 8 << 10 };
        assert!(look.bytes_max <= most, "{name}: the look takes {} bytes", look.bytes_max);
        within(bound, &name, || sagemaker::decode(signature, &invocation, &options, body.clone()));
    }
}

#[test]
fn json_of_any_dialect() {
    for (signature, length) in cases() {
        {
            let mut bodies = vec![
                format!("{{{}}}", keys(length)),
                format!("{{{},\"instances\":[0]}}", keys(length)),
                format!("[{{{}}}]", keys(length)),
                repeated("[", "{\"1\":0,\"0\":0},", "]", length),
                repeated("{\"instances\":[", "{\"0\":0,\"1\":null},", "]}", length),
                repeated("", "{\"1\":0,\"0\":0}", "", length.min(5_000)),
                format!("{{\"dataframe_records\":[{{{}}}]}}", keys(length)),
                format!(
                    "{{\"dataframe_records\":[{{{}}},{}{{}}]}}",
                    keys(length),
                    "{},".repeat(10)
                ),
                // A key of which a look needs no more than the beginning.
                repeated("{\"\\u0061", "a", "\":0}", length),
                repeated("{\"\\u0061", "\\n\u{e9}", "\":0}", length),
                repeated("{\"dataframe_records\":[{\"a\":0,\"b\":0},", "{},", "]}", length),
                repeated("{\"dataframe_split\":{\"data\":[[", "0,", "]]}}", length),
                repeated("{\"dataframe_split\":{\"data\":[", "[0,1],", "]}}", length),
                repeated("", "\"\" ", "", length.min(5_000)),
                repeated("", "1-", "1", length.min(5_000)),
                repeated("", "\"\"", "", length.min(5_000)),
                repeated("", "true", "", length.min(5_000)),
                repeated("", "{\"x\":0}", "", length.min(5_000)),
                repeated("", "{\"inputs\":\"\"}", "", length.min(5_000)),
                repeated("{\"inputs\":[", "\"\",", "],\"parameters\":{\"p\":[1]}}", length),
            ];
            for open in ["[", "[[", "{\"x\":[", "{\"instances\":[", "{\"inputs\":["] {
                for unit in UNITS {
                    let close: String = open
                        .chars()
                        .rev()
                        .filter_map(|it| match it {
                            '[' => Some(']'),
                            '{' => Some('}'),
                            _ => None,
                        })
                        .collect();
                    bodies.push(repeated(open, unit, &close, length));
                }
            }
            let types = match length < LONG {
                true => &[None, Some("application/jsonlines")][..],
                false => &[None],
            };
            for body in bodies {
                for &content_type in types {
                    invoke(&signature, content_type, body.clone());
                }
            }
        }
    }
}

#[test]
fn rows_of_awss_algorithms() {
    for port in ["x FP32 [-1]", "x FP64 [-1]", "x UINT8 [1000]"] {
        let signature = model(1 << 20, &[port], &["y FP32 [1]"]);
        for length in LENGTHS {
            let sparse = "{\"features\":{\"values\":[],\"shape\":[1000]}},";
            for body in [
                repeated("{\"instances\":[", "{\"features\":[0,0]},", "]}", length),
                repeated("{\"instances\":[{\"features\":[", "0,", "]}]}", length),
                repeated("{\"instances\":[{\"features\":{\"values\":[", "0,", "]}}]}", length),
                repeated("{\"instances\":[{\"features\":{\"values\":[", "0,", "]}}]}", length),
                repeated("{\"instances\":[", sparse, "]}", length),
                repeated(
                    "{\"instances\":[",
                    &sparse.replace("values", "v\\u0061lues"),
                    "]}",
                    length,
                ),
                repeated("", sparse.trim_end_matches(','), "", length),
                repeated(
                    "{\"instances\":[{\"features\":[1]},",
                    "{\"features\":{\"values\":[],\"shape\":[100000]}},",
                    "]}",
                    length,
                ),
                format!(
                    "{{\"features\":{{\"shape\":[{length},2],\"keys\":[{}],\"values\":[{}]}}}}",
                    (0..length / 7).map(|it| it.to_string()).collect::<Vec<_>>().join(","),
                    vec!["0"; length / 7].join(",")
                ),
                "{\"instances\":[{\"features\":{\"shape\":[4000000],\"values\":[]}}]}".to_owned(),
            ] {
                for content_type in [Some("application/json"), Some("application/jsonlines")] {
                    invoke(&signature, content_type, body.clone());
                }
            }
        }
    }
}

#[test]
fn delimited_text_and_libsvm() {
    for (signature, length) in cases() {
        {
            for body in [
                repeated("", ",", "", length),
                // A number that is none, as long as the body.
                repeated("+", "0.", "", length),
                repeated("", "0,", "", length),
                repeated("", "1\n", "", length),
                repeated("1", ";", "", length),
                repeated("x\n", "1\n", "", length),
                repeated("inputs\n", "a\n", "", length),
                repeated("", "\"\"\"\",", "", length),
                repeated("", "\"\"\"\"\n", "", length),
                repeated("\"", "\"\"", "\"", length),
            ] {
                invoke(&signature, Some("text/csv"), body);
            }
            let header: Vec<String> = (0..length / 6).map(|it| format!("c{it}")).collect();
            let header = format!("{}\n{}", header.join(","), vec!["0"; length / 6].join(","));
            invoke(&signature, Some("text/csv"), header.clone());
            let bound = csv::expanded_table(&signature, header.as_bytes(), LOOSE);
            within(bound, "table", || csv::decode_table(&signature, header.as_bytes()));
            for body in [
                repeated("", "1\n", "", length),
                repeated("", "0:1 ", "", length),
                repeated("1000:1\n", "\n", "1:1", length),
                repeated("1000000000:1\n", "\n", "1:1", length),
                (0..length / 8).rev().map(|it| format!("{it}:1 ")).collect(),
            ] {
                invoke(&signature, Some("text/libsvm"), body);
            }
        }
    }
}

fn frames(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        let payload = record.encode_to_vec();
        out.extend_from_slice(&recordio::MAGIC);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&payload);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

fn record(value: value::Value) -> Record {
    let features = BTreeMap::from([("values".to_owned(), Value { value: Some(value) })]);
    Record { features, ..Record::default() }
}

#[test]
fn records() {
    let floats = |values: Vec<f32>, keys: Vec<u64>, shape: Vec<u64>| {
        record(value::Value::Float32Tensor(Float32Tensor { values, keys, shape }))
    };
    let integers = |values: Vec<i32>, keys: Vec<u64>, shape: Vec<u64>| {
        record(value::Value::Int32Tensor(Int32Tensor { values, keys, shape }))
    };
    for port in ["x FP32 [-1]", "x FP64 [-1]", "x UINT8 [100]"] {
        let signature = model(1 << 20, &[port], &["y FP32 [1]"]);
        for count in [1usize, 1000, 30_000] {
            let label = |at: usize| {
                let value = value::Value::Int32Tensor(Int32Tensor::default());
                (format!("{at:x}"), Value { value: Some(value) })
            };
            let labels = Record {
                label: (0..count).map(label).collect(),
                ..integers(vec![1; 100], vec![], vec![])
            };
            let empty = value::Value::Bytes(recordio::record::Bytes {
                value: vec![vec![]; count],
                content_type: None,
            });
            for body in [
                frames(&[floats(vec![1.0; count], vec![], vec![])]),
                frames(&[integers(vec![1; count], vec![], vec![])]),
                frames(&[integers(vec![1; count], vec![1; count], vec![count as u64])]),
                frames(&vec![integers(vec![], vec![], vec![1000]); count.min(2000)]),
                frames(&vec![integers(vec![1], vec![], vec![]); count]),
                frames(&[labels]),
                frames(&[record(empty)]),
                frames(&[integers(vec![], vec![], vec![1 << 20, 2])]),
                frames(&[
                    integers(vec![1], vec![], vec![]),
                    integers(vec![], vec![], vec![1 << 20]),
                ]),
                frames(&[integers(vec![1; 100], vec![], vec![1; count])]),
            ] {
                invoke(&signature, Some("application/x-recordio-protobuf"), body);
            }
        }
    }
}

/// An archive of these files.
fn archive(files: &[(&str, Vec<u8>)], deflate: bool) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in files {
        let packed = match deflate {
            true => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(data).unwrap();
                encoder.finish().unwrap()
            }
            false => data.clone(),
        };
        let mut common = vec![20, 0, 0, 0, if deflate { 8 } else { 0 }, 0, 0, 0, 0, 0];
        common.extend(crc32fast::hash(data).to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((data.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(packed);
    }
    let start = out.len() as u32;
    let length = directory.len() as u32;
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([(files.len() as u16).to_le_bytes(), (files.len() as u16).to_le_bytes()].concat());
    out.extend(length.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0".as_slice(), &length, header.as_bytes(), data].concat()
}

#[test]
fn arrays_of_numpy() {
    for port in ["x FP32 [-1]", "x FP64 [-1]", "x UINT8 [-1]"] {
        let signature = model(1 << 20, &[port], &["y FP32 [1]"]);
        for count in [1, 1000, 30_000] {
            let shape = format!("({count}, 1)");
            for (descr, size) in [("|u1", 1), ("<f4", 4), (">f4", 4), ("<i8", 8), ("|b1", 1)] {
                let file = npy(descr, &shape, &vec![0; count * size]);
                invoke(&signature, Some("application/x-npy"), file.clone());
                for deflate in [false, true] {
                    let body = archive(&[("x.npy", file.clone())], deflate);
                    invoke(&signature, Some("application/x-npz"), body);
                }
            }
            let integers = |values: &[i64]| {
                let data: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
                npy("<i8", &format!("({},)", values.len()), &data)
            };
            let indices = npy("|u1", &format!("({count},)"), &vec![0; count]);
            let starts: Vec<i64> = (0..=count as i64).collect();
            let files = [
                ("format.npy", b"csr".to_vec()),
                ("shape.npy", integers(&[count as i64, 8])),
                ("indptr.npy", integers(&starts)),
                ("indices.npy", indices.clone()),
                ("data.npy", indices),
            ];
            for deflate in [false, true] {
                invoke(&signature, Some("application/x-npz"), archive(&files, deflate));
            }
        }
        let dims = format!("({})", "1, ".repeat(20_000));
        invoke(&signature, Some("application/x-npy"), npy("<f8", &dims, &[0; 8]));
    }
}

#[test]
fn an_ordinary_body_takes_no_absurd_room() {
    // A picture as text, as it is written by Python.
    let signature = model(8, &["x FP32 [-1]"], &[]);
    let row = "0.4862745098039216, ".repeat(150_528);
    let row = row.trim_end_matches(", ");
    let v2 = format!(
        r#"{{"inputs":[{{"name":"x","shape":[1,150528],"datatype":"FP32","data":[{row}]}}]}}"#
    );
    let own = 150_528 * 4;
    let bound = kserve_v2::expanded(&signature, None, v2.as_bytes(), LOOSE);
    assert!(bound < 6 * own, "{bound}");
    let rows = format!(r#"{{"instances":[[{row}]]}}"#);
    let bound = tfs::expanded(&signature, tfs::Method::Predict, rows.as_bytes(), LOOSE);
    assert!(bound < 4 * own, "{bound}");
    let invocation = Invocation::read(Some("application/json"), None, None).unwrap();
    let bound =
        sagemaker::expanded(&signature, &invocation, &Options::default(), rows.as_bytes(), LOOSE);
    assert!(bound < 7 * own, "{bound}");
    let invocation = Invocation::read(Some("text/csv"), None, None).unwrap();
    let bound =
        sagemaker::expanded(&signature, &invocation, &Options::default(), row.as_bytes(), LOOSE);
    assert!(bound < 7 * own, "{bound}");
    // What needs no memory of its own gets none.
    let file = npy("<f4", "(1, 150528)", &vec![0; own]);
    let invocation = Invocation::read(Some("application/x-npy"), None, None).unwrap();
    assert_eq!(sagemaker::expanded(&signature, &invocation, &Options::default(), &file, LOOSE), 0);
}
