//! JSON values, and the tensors that they become.

use std::{borrow::Cow, fmt};

use backend::{DataType, Shape, Tensor};
use proptest::prelude::*;

use super::*;
use crate::{elements::TensorBuilder, samples::grant};
use inference::error::Error;

#[track_caller]
fn refused<'a, T: fmt::Debug>(
    body: &'a [u8],
    read: impl FnOnce(&mut JsonReader<'a>) -> Result<T, Error>,
    text: &str,
) {
    assert_eq!(JsonReader::document(body, grant(), read).unwrap_err().to_string(), text);
}

fn shaped(dtype: DataType, form: BytesForm, body: &str) -> Result<Tensor, Error> {
    JsonReader::document(body.as_bytes(), grant(), |reader| {
        let mut builder = TensorBuilder::new(dtype, None, grant());
        let shape = reader.shaped_elements(&mut builder, form)?;
        Ok(builder.finish(shape).unwrap())
    })
}

#[track_caller]
fn shape(body: &str, expected: &[usize]) {
    let tensor = shaped(DataType::Fp32, BytesForm::Text, body).unwrap();
    assert_eq!(tensor.shape().dims(), expected, "{body}");
}

#[track_caller]
fn irregular(body: &str, text: &str) {
    let error = shaped(DataType::Fp32, BytesForm::Text, body).unwrap_err();
    assert_eq!(error.to_string(), text, "{body}");
}

fn skip(body: &[u8]) -> Result<(), Error> {
    JsonReader::document(body, grant(), JsonReader::skip_value)
}

#[test]
fn an_object_is_read_key_by_key_with_the_path_in_errors() {
    let read = |reader: &mut JsonReader<'_>| {
        reader.object(|reader, key| match key.as_ref() {
            "inputs" => {
                reader.array(|reader, _| reader.object(|reader, _| reader.usize().map(drop)))
            }
            _ => reader.skip_value(),
        })
    };
    assert_eq!(
        JsonReader::document(br#" { "x" : [1,{}] , "inputs" : [ { "a" : 1 } ] } "#, grant(), read),
        Ok(())
    );
    let text = "inputs[1].shape: expected an integer >= 0, found '-1', at byte 29";
    refused(br#"{"inputs": [{"a":2},{"shape":-1}]}"#, read, text);
    refused(b"{\"a\":1,}", read, "expected a key, found '}', at byte 7");
    refused(b"{\"a\" 1}", read, "expected ':' after a key, found '1', at byte 5");
    refused(b"{\"a\":1", read, "expected ',' or '}', found the end, at byte 6");
    refused(b"{\"a\":1}]", read, "expected the end, found ']', at byte 7");
    refused(b"[]", read, "expected an object, found an array, at byte 0");
    let picture = "expected an object, found a JPEG picture; a model takes files that has a \
                   preprocessor_config.json beside it, at byte 0";
    refused(b"\xff\xd8\xff\xe0\x00\x10JFIF", read, picture);
}

#[test]
fn a_repeated_key_is_refused_however_it_is_written() {
    let read = |reader: &mut JsonReader<'_>| reader.object(|reader, _| reader.skip_value());
    refused(br#"{"a":1,"\u0061":2}"#, read, "the key 'a' is repeated, at byte 7");
    let many: Vec<String> = (0..1000).map(|it| format!("\"{it}\":0")).collect();
    assert!(
        JsonReader::document(format!("{{{}}}", many.join(",")).as_bytes(), grant(), read).is_ok()
    );
    let again = format!("{{{},\"999\":0}}", many.join(","));
    assert!(JsonReader::document(again.as_bytes(), grant(), read).is_err());
}

#[test]
fn strings_are_freed_of_escapes_and_borrowed_where_there_are_none() {
    let read = |body| JsonReader::document(body, grant(), JsonReader::string);
    assert!(matches!(read(br#""plain""#), Ok(Cow::Borrowed("plain"))));
    let long = format!("\"{}\\n{}\"", "x".repeat(100), "ü".repeat(100));
    assert_eq!(read(long.as_bytes()).unwrap(), format!("{}\n{}", "x".repeat(100), "ü".repeat(100)));
    assert_eq!(
        read(br#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00""#).unwrap(),
        "\"\\/\u{8}\u{c}\n\r\té😀"
    );
}

#[test]
fn unsound_strings_are_refused_where_they_break() {
    let string = JsonReader::string;
    refused(b"\"ab", string, "the string does not end, at byte 3");
    refused(b"\"a\nb\"", string, "control character 0x0a in a string; expected \\u000a, at byte 2");
    refused(b"\"a\0\"", string, "control character 0x00 in a string; expected \\u0000, at byte 2");
    refused(br#""a\x""#, string, "unknown escape in a string, at byte 2");
    refused(br#""\ud800""#, string, "lone surrogate \\ud800 in a string, at byte 1");
    refused(br#""\ud800\u0041""#, string, "lone surrogate \\ud800 in a string, at byte 1");
    refused(br#""\udc00""#, string, "lone surrogate \\udc00 in a string, at byte 1");
    refused(br#""\u12"#, string, "expected four hexadecimal digits after \\u, at byte 1");
    refused(b"\"\xff\"", string, "the JSON text is not UTF-8, at byte 1");
    refused(b"\xff", string, "expected a string, found '\u{fffd}', at byte 0");
    let bom = "the JSON text begins with a byte order mark; expected none, at byte 0";
    refused(b"\xef\xbb\xbf\"\"", string, bom);
}

#[test]
fn nesting_of_a_million_ends_at_the_bound() {
    for open in ["[", "{\"a\":"] {
        let body = open.repeat(1_000_000);
        assert!(
            skip(body.as_bytes())
                .unwrap_err()
                .to_string()
                .contains("nesting depth exceeds maximum allowed limit (100)")
        );
        let error = shaped(DataType::Fp32, BytesForm::Text, &body);
        assert!(error.is_err());
    }
    let deepest = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(skip(deepest.as_bytes()), Ok(()));
    assert!(shaped(DataType::Fp32, BytesForm::Text, &deepest).is_ok());
}

#[test]
fn the_shape_is_the_nesting() {
    shape("1", &[]);
    irregular("1, 2", "expected the end, found ',', at byte 1");
    shape("[]", &[0]);
    shape("[1, 2, 3]", &[3]);
    shape("[[1],[2],[3]]", &[3, 1]);
    shape("[[[1,2],[3,4],[5,6]]]", &[1, 3, 2]);
    shape("[[],[]]", &[2, 0]);
}

#[test]
fn irregular_nesting_is_refused_at_its_first_place() {
    irregular("[[1,2],[3]]", "[1]: expected 2 elements as in the array before, found 1, at byte 9");
    irregular("[[1,2],3]", "[1]: expected an array, found '3', at byte 7");
    irregular("[1,[2]]", "[1]: expected a number, found an array, at byte 3");
    irregular("[[],[1]]", "[1]: expected 0 elements as in the array before, found 1, at byte 6");
    irregular("[[1,2],[3,4", "expected ',' or ']', found the end, at byte 11");
    irregular("[[1,2],[3,]]", "[1][1]: expected a number for FP32, found ']', at byte 10");
}

#[test]
fn an_element_of_another_type_is_named_by_its_index() {
    let read = |dtype, body| shaped(dtype, BytesForm::Text, body).unwrap_err().to_string();
    assert_eq!(
        read(DataType::Fp32, "[[1,2],[3,\"x\"]]"),
        "[1][1]: expected a number for FP32, found a string, at byte 10"
    );
    assert_eq!(read(DataType::Fp32, "[1e400]"), "[0]: 1e400 does not fit FP32, at byte 1");
    assert_eq!(read(DataType::Uint8, "[1, 256]"), "[1]: 256 does not fit UINT8, at byte 4");
    assert_eq!(read(DataType::Int64, "1.0"), "expected an integer for INT64, found 1.0, at byte 0");
    assert_eq!(read(DataType::Bool, "[0]"), "[0]: expected true or false, found '0', at byte 1");
    assert_eq!(read(DataType::Bytes, "[null]"), "[0]: expected a string, found 'null', at byte 1");
}

#[test]
fn base64_is_read_where_it_is_allowed() {
    let body = r#"["a", {"b64": "/wA="}]"#;
    let tensor = shaped(DataType::Bytes, BytesForm::TextOrBase64, body).unwrap();
    assert_eq!(tensor.strings().collect::<Vec<_>>(), [b"a".as_slice(), b"\xff\0"]);
    assert!(shaped(DataType::Bytes, BytesForm::Text, body).is_err());
    for bad in [r#"{"b64":"?"}"#, r#"{"b65":""}"#, "{}", r#"{"b64":"","b64":""}"#] {
        assert!(shaped(DataType::Bytes, BytesForm::TextOrBase64, bad).is_err(), "{bad}");
    }
    let long = format!(r#"{{"{}": ""}}"#, "k".repeat(1000));
    let error = shaped(DataType::Bytes, BytesForm::TextOrBase64, &long).unwrap_err().to_string();
    assert!(error.contains(&format!("found '{}...'", "k".repeat(40))), "{error}");
}

#[test]
fn elements_beyond_the_expected_number_are_counted_and_not_kept() {
    let mut builder = TensorBuilder::new(DataType::Bytes, Some(1), grant());
    let mut reader = JsonReader::new(br#"["a",["b"],"c"]"#, grant()).unwrap();
    reader.elements(&mut builder, BytesForm::Text).unwrap();
    assert_eq!(builder.count(), 3);
    assert!(builder.finish(Shape::new(&[1])).is_ok());
}

#[test]
fn a_marked_value_is_read_again() {
    let mut reader = JsonReader::new(b"[[1,2],3]", grant()).unwrap();
    let mark = reader.mark();
    assert_eq!(reader.skip_value(), Ok(()));
    let mut builder = TensorBuilder::new(DataType::Int64, None, grant());
    reader.revisit(mark, |reader| reader.elements(&mut builder, BytesForm::Text)).unwrap();
    assert_eq!(builder.count(), 3);
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn nested_output_follows_the_shape() {
    let nested = |shape: &[usize]| {
        let count = shape.iter().product::<usize>() as u64;
        let values: Vec<u64> = (0..count).collect();
        let tensor = Tensor::from_vec(Shape::new(shape), values).unwrap();
        let mut out = Vec::new();
        write::nested(&mut out, &tensor, write::BytesAs::Text).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(nested(&[]), "0");
    assert_eq!(nested(&[3]), "[0,1,2]");
    assert_eq!(nested(&[2, 1, 2]), "[[[0,1]],[[2,3]]]");
    assert_eq!(nested(&[2, 2, 1]), "[[[0],[1]],[[2],[3]]]");
    assert_eq!(nested(&[2, 0, 3]), "[[],[]]");
    assert_eq!(nested(&[0, 3]), "[]");
}

#[test]
fn strings_out_are_escaped_or_base64_or_an_error() {
    use write::{BytesAs, NotText};
    let strings = [b"a\"\\\n\x01\xc3\xa9".as_slice(), b"\xff"];
    let tensor = Tensor::from_strings(Shape::new(&[2]), strings).unwrap();
    let mut out = Vec::new();
    assert_eq!(write::flat(&mut out, &tensor, BytesAs::Text), Err(NotText(1)));
    out.clear();
    write::flat(&mut out, &tensor, BytesAs::TextOrBase64).unwrap();
    assert_eq!(out, r#"["a\"\\\n\u0001é",{"b64":"/w=="}]"#.as_bytes());
}

/// JSON text of any sort, from a value that serde_json writes.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_json_is_accepted(value in any_json()) {
        prop_assert_eq!(skip(value.to_string().as_bytes()), Ok(()));
    }

    #[test]
    fn what_is_not_json_is_refused_as_serde_json_refuses_it(
        value in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>(), insert in any::<bool>(),
    ) {
        let mut body = value.to_string().into_bytes();
        let at = at.index(body.len());
        if insert { body.insert(at, byte) } else { body[at] = byte }
        let expected = serde_json::from_slice::<serde_json::Value>(&body);
        // serde_json refuses numbers that no double holds; here that depends on the type.
        let range = matches!(&expected, Err(it) if it.to_string().contains("out of range"));
        prop_assert!(range || skip(&body).is_ok() == expected.is_ok(), "{}", String::from_utf8_lossy(&body));
    }

    #[test]
    fn any_string_survives_writing_and_reading(text in any::<String>()) {
        let mut out = Vec::new();
        write::string(&mut out, &text);
        prop_assert_eq!(JsonReader::document(&out, grant(), JsonReader::string).unwrap(), text.as_str());
        let by_serde = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(JsonReader::document(by_serde.as_bytes(), grant(), JsonReader::string).unwrap(), text);
    }

    #[test]
    fn a_tensor_survives_nesting(dims in prop::collection::vec(1usize..4, 0..5)) {
        let count = dims.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|it| it as f32 / 3.0).collect();
        let tensor = Tensor::from_vec(Shape::new(&dims), values).unwrap();
        let mut out = Vec::new();
        write::nested(&mut out, &tensor, write::BytesAs::Text).unwrap();
        let back = shaped(DataType::Fp32, BytesForm::Text, std::str::from_utf8(&out).unwrap()).unwrap();
        prop_assert_eq!(back.shape(), tensor.shape());
        prop_assert_eq!(back.to_bytes(), tensor.to_bytes());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(body in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = skip(&body);
        let soup: Vec<u8> = body.iter().map(|&it| b"[]{},:\"\\u0d8-1.eN "[usize::from(it) % 18]).collect();
        let _ = skip(&soup);
        for dtype in DataType::ALL {
            let _ = shaped(dtype, BytesForm::TextOrBase64, &String::from_utf8_lossy(&soup));
        }
    }
}
