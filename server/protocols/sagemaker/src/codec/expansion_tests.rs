//! That no body of `/invocations` takes more memory while it is decoded than is asked for. Memory is measured,
//! not computed.

use backend::{Shape, Tensor};
use bytes::Bytes;

use flate2::{Compression, write::DeflateEncoder};
use prost::Message;
use std::{collections::BTreeMap, io::Write};

use super::invocations::{self, Dialect, Invocation, Options, PipelineReply, ReplyFormat};
use formats::{
    csv,
    kserve_v2::{self, generate::Framing},
    negotiate::Media,
    recordio::{
        self,
        record::{Float32Tensor, Int32Tensor, Record, Value, value},
    },
    samples::{Peak, bodies::*, model, only, within_grant},
    tfs::{Form, Results},
};
use inference::{error::Error, grant::Grant, signature::Signature};

/// Bytes that work holds at once.
const PEAK: Peak = |work| allocation_counter::measure(work).bytes_max;

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
        within_grant(PEAK, LOOSE, &name, |grant| {
            invocations::decode(signature, &invocation, &options, body.clone(), grant)
        });
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
            within_grant(PEAK, LOOSE, "table", |grant| {
                csv::decode_table(&signature, header.as_bytes(), grant)
            });
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
    let own = 150_528 * 4;
    let rows = format!(r#"{{"instances":[[{row}]]}}"#);
    let granted = |content_type: &str, body: Bytes| {
        let invocation = Invocation::read(Some(content_type), None, None).unwrap();
        within_grant(PEAK, LOOSE, content_type, |grant| {
            invocations::decode(&signature, &invocation, &Options::default(), body, grant)
        })
    };
    let bound = granted("application/json", rows.into());
    assert!(bound < 7 * own, "{bound}");
    let bound = granted("text/csv", Bytes::copy_from_slice(row.as_bytes()));
    assert!(bound < 7 * own, "{bound}");
    // What needs no memory of its own gets none.
    let file = npy("<f4", "(1, 150528)", &vec![0; own]);
    assert_eq!(granted("application/x-npy", file.into()), 0);
}

#[test]
fn a_reply_that_gets_no_memory_is_not_begun() {
    let signature = model(1 << 20, &["x FP32 [-1]"], &["y FP32 [2]"]);
    let rows = Tensor::from_vec(Shape::new(&[50_000, 2]), vec![0.5f32; 100_000]).unwrap();
    let response = only("y", rows);
    for format in [
        ReplyFormat::Rows,
        ReplyFormat::Columns,
        ReplyFormat::Bare,
        ReplyFormat::Csv,
        ReplyFormat::Npy,
        ReplyFormat::HuggingFaceCsv,
        ReplyFormat::JsonLines(Media::Json),
        ReplyFormat::HuggingFaceLines(PipelineReply::default(), Media::Json),
        ReplyFormat::HuggingFace(PipelineReply::default()),
        ReplyFormat::Objects(Media::Json),
        ReplyFormat::Objects(Media::Csv),
        ReplyFormat::Generate(Framing::Object),
        ReplyFormat::KserveV2(kserve_v2::ReplyFormat::default()),
        ReplyFormat::Results(Results::Predictions(Form::Row)),
        ReplyFormat::Line(Box::new(ReplyFormat::Results(Results::Values("y".into())))),
    ] {
        let grant = Grant::nothing(0);
        let mut reply = None;
        let encode = || reply = Some(invocations::encode(&format, &signature, &response, &grant));
        let most = allocation_counter::measure(encode).bytes_max;
        assert!(matches!(reply, Some(Err(Error::NeverFits { .. }))), "{format:?}: {reply:?}");
        // How much it takes is found with a buffer.
        assert!(most <= 64 << 10, "{format:?}: takes {most} bytes");
        let asked = grant.granted();
        assert!(format == ReplyFormat::Npy || 100_000 < asked, "{format:?}: {asked}");
    }
}
