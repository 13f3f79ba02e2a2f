//! That no body takes more memory while it is decoded than its codec asks for. Memory is measured, not computed.

use bytes::Bytes;

use crate::{
    kserve_v2::{self, generate},
    samples::{PEAK, bodies::*, model, within_grant},
    tfs,
};

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
                let body = Bytes::from(body);
                within_grant(PEAK, LOOSE, &name, |grant| {
                    kserve_v2::decode(&signature, None, body.clone(), grant)
                });
                within_grant(PEAK, LOOSE, &name, |grant| {
                    generate::decode(&signature, &body, grant)
                });
            }
            for unit in UNITS {
                let body = repeated("{\"x\":[", unit, "]}", length);
                within_grant(PEAK, LOOSE, &body[..20], |grant| {
                    generate::decode(&signature, body.as_bytes(), grant)
                });
            }
            let body = format!("{{{}}}", keys(length));
            within_grant(PEAK, LOOSE, "generate", |grant| {
                generate::decode(&signature, body.as_bytes(), grant)
            });
        }
        let raw = Bytes::from(vec![1; 24_000]);
        within_grant(PEAK, LOOSE, "raw", |grant| {
            kserve_v2::decode(&signature, Some(0), raw.clone(), grant)
        });
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
                    within_grant(PEAK, LOOSE, &name, |grant| {
                        tfs::decode_predict(&signature, body.as_bytes(), grant)
                    });
                }
            }
            let body = format!("{{{},\"instances\":[0]}}", keys(length));
            within_grant(PEAK, LOOSE, "keys", |grant| {
                tfs::decode_predict(&signature, body.as_bytes(), grant)
            });
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
                        within_grant(PEAK, LOOSE, &format!("{length} {body:.60}"), |grant| {
                            let (method, body) = (tfs::Method::Classify, body.as_bytes());
                            tfs::decode_examples(&signature, method, body, grant)
                        });
                    }
                }
            }
        }
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
    let bound = within_grant(PEAK, LOOSE, "v2", |grant| {
        kserve_v2::decode(&signature, None, Bytes::from(v2), grant)
    });
    assert!(bound < 6 * own, "{bound}");
    let rows = format!(r#"{{"instances":[[{row}]]}}"#);
    let bound = within_grant(PEAK, LOOSE, "rows", |grant| {
        tfs::decode_predict(&signature, rows.as_bytes(), grant)
    });
    assert!(bound < 4 * own, "{bound}");
}
