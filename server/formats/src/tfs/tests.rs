//! Requests and replies of TensorFlow Serving's REST API, with golden files.

use backend::{Shape, Tensor};
use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    EncodedReply,
    samples::{body, golden, model, only, respond, show},
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::{Named, Signature},
};

fn encode(
    form: Form,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    super::encode(form, signature, response, &Grant::all(0))
}

fn decode_predict(signature: &Signature, body: &[u8]) -> Result<(InferenceRequest, Form), Error> {
    super::decode_predict(signature, body, &Grant::all(0))
}

/// A request, what was read of it, and the reply to it.
#[track_caller]
fn check(name: &str, signature: &Signature, request: &str) {
    let (decoded, form) = decode_predict(signature, request.as_bytes()).unwrap();
    let rows = decoded.inputs[0].tensor.shape().rows().unwrap_or(1);
    let reply = encode(form, signature, &respond(signature, rows)).unwrap();
    assert_eq!(reply.content_type, "application/json");
    let text = format!("{request}\n\n{}\n{}\n", show(&decoded), body(&reply));
    golden(&format!("tfs/{name}.txt"), &text);
}

#[track_caller]
fn refused(signature: &Signature, request: &str, expected: &str) {
    let error = decode_predict(signature, request.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, expected);
}

fn two_to_two() -> Signature {
    model(8, &["a FP32 [2]", "b BYTES [1]"], &["p FP32 [2]", "q BYTES [1]"])
}

fn one_to_one() -> Signature {
    model(8, &["x FP32 [2]"], &["y FP32 [1]"])
}

#[test]
fn rows_of_values() {
    check("row_values", &one_to_one(), r#"{"instances": [[1.0, 2.0], [3, 4e1]]}"#);
}

#[test]
fn rows_of_objects() {
    let request = r#"{"signature_name": "serving_default", "ignored": {"a": []},
 "instances": [{"a": [1, NaN], "b": ["x"]}, {"b": {"b64": "/w=="}, "a": [3, -Infinity]}]}"#;
    // The second row's `b` is a scalar, the first row's a list.
    refused(
        &two_to_two(),
        request,
        "instances[1].b: expected shape [1] as in the first row, found [], at byte 110",
    );
    check("row_objects", &two_to_two(), &request.replace(r#"["x"]"#, r#""x""#));
}

#[test]
fn columns_of_values() {
    check("column_values", &one_to_one(), r#"{"inputs": [[1.0, 2.0]]}"#);
}

#[test]
fn columns_of_objects() {
    let request = r#"{"inputs": {"a": [[1, 2], [3, 4]], "b": ["x", {"b64": "eQ=="}]}}"#;
    check("column_objects", &two_to_two(), request);
}

#[test]
fn scalars_with_and_without_a_list_around_them() {
    let signature = model(8, &["x INT64 [1]"], &["y BOOL []"]);
    check("scalars_bare", &signature, r#"{"instances": [1, 2, 3]}"#);
    check("scalars_wrapped", &signature, r#"{"instances": [[1], [2], [3]]}"#);
}

#[test]
fn a_model_of_numbers_answers_numbers() {
    let signature = model(8, &["x! FP32 [1]"], &["y! FP32 [1]"]);
    for (request, reply) in [
        (r#"{"instances": [1, 2, 5]}"#, r#"{"predictions":[0.0,0.5,1.0]}"#),
        (r#"{"inputs": [1, 2, 5]}"#, r#"{"outputs":[0.0,0.5,1.0]}"#),
    ] {
        let (_, form) = decode_predict(&signature, request.as_bytes()).unwrap();
        assert_eq!(body(&encode(form, &signature, &respond(&signature, 3)).unwrap()), reply);
    }
    let shape = r#""tensor_shape":{"dim":[{"size":"-1","name":""}],"#;
    assert_eq!(body(&metadata(&signature)).matches(shape).count(), 2);
}

#[test]
fn bytes_of_the_only_input() {
    let signature = model(8, &["image BYTES [1]"], &["thumb_bytes BYTES []"]);
    check("bytes_only_input", &signature, r#"{"instances": [{"b64": "AAE="}, "text"]}"#);
    check("bytes_named", &signature, r#"{"instances": [{"image": {"b64": "AAE="}}]}"#);
}

#[test]
fn without_batching_the_only_row_is_the_tensor() {
    let signature = model(0, &["x FP32 [2]"], &["y FP32 [2]"]);
    check("unbatched_row", &signature, r#"{"instances": [[1, 2]]}"#);
    check("unbatched_column", &signature, r#"{"inputs": [1, 2]}"#);
}

#[test]
fn one_form_and_the_one_signature() {
    let signature = one_to_one();
    let both = "expected either 'instances' or 'inputs', found both";
    refused(&signature, r#"{"instances": [[1, 2]], "inputs": [[1, 2]]}"#, both);
    let neither = "expected the key 'instances' or 'inputs', found neither";
    refused(&signature, r#"{"instance": [[1, 2]]}"#, neither);
    refused(
        &signature,
        r#"{"signature_name": "other", "inputs": [[1, 2]]}"#,
        "signature_name: expected 'serving_default', the only signature, found 'other', at byte 19",
    );
    assert!(decode_predict(&signature, br#"{"signature_name": "", "inputs": [[1, 2]]}"#).is_ok());
}

#[test]
fn a_body_that_names_two_signatures_is_refused() {
    let (name, others, unusable) = ("a".into(), [].into(), [].into());
    let definitions = Bytes::new();
    let named = Named { name, index: 0, method: None, others, unusable, definitions };
    let signature = Signature { named: Some(named), ..one_to_one() };
    refused(
        &signature,
        r#"{"parameters": {"signature_name": "a"}, "signature_name": "b", "inputs": [[1, 2]]}"#,
        "signature_name: expected 'a', which it names before, found 'b', at byte 58",
    );
}

#[test]
fn mistakes_are_named_by_index_and_key() {
    let signature = two_to_two();
    refused(
        &signature,
        r#"{"instances": [{"a": [1, "x"], "b": "y"}]}"#,
        "instances[0].a[1]: expected a number for FP32, found a string, at byte 25",
    );
    refused(
        &signature,
        r#"{"instances": [{"a": [1, 2], "b": "y"}, {"a": [1, 2]}]}"#,
        "instances[1]: expected the keys of the first row, 'b' is missing, at byte 40",
    );
    refused(
        &signature,
        r#"{"instances": [{"a": [1, 2]}, {"b": "y", "a": [1, 2]}]}"#,
        "instances[1].b: the first row does not have the input 'b', at byte 36",
    );
    refused(
        &signature,
        r#"{"inputs": {"aa": 1}}"#,
        "inputs.aa: 'aa' is not an input; the model's inputs are 'a', 'b', did you mean 'a'?, at byte 17",
    );
    refused(
        &signature,
        r#"{"instances": [1]}"#,
        "instances[0]: expected an object with the keys 'a', 'b', for each input its value, at byte 15",
    );
    refused(
        &one_to_one(),
        r#"{"instances": [[1, 2], [3]]}"#,
        "instances[1]: expected 2 elements as in the array before, found 1, at byte 25",
    );
}

#[test]
fn no_rows_are_no_request() {
    refused(
        &one_to_one(),
        r#"{"instances": []}"#,
        "instances: expected at least one row, found none, at byte 14",
    );
    refused(
        &one_to_one(),
        r#"{"instances": {"x": [1, 2]}}"#,
        "instances: expected an array of rows, found an object, at byte 14",
    );
}

#[test]
fn floats_are_written_shortest_and_bytes_that_are_no_text_as_base64() {
    let signature = one_to_one();
    let values = vec![0.1f32, 1.0, f32::NAN, f32::NEG_INFINITY];
    let floats = only("y", Tensor::from_vec(Shape::new(&[2, 2]), values).unwrap());
    let reply = encode(Form::Row, &signature, &floats).unwrap();
    assert_eq!(body(&reply), r#"{"predictions":[[0.1,1.0],[NaN,-Infinity]]}"#);
    let strings = Tensor::from_strings(Shape::new(&[2]), [b"a".as_slice(), b"\xff"]).unwrap();
    let reply = encode(Form::Column, &signature, &only("y", strings)).unwrap();
    assert_eq!(body(&reply), r#"{"outputs":["a",{"b64":"/w=="}]}"#);
}

#[test]
fn rows_of_several_outputs_with_strings_are_cut_where_they_begin() {
    let signature = model(8, &["x FP32 [1]"], &["s BYTES [2]", "n INT32 []"]);
    let reply = encode(Form::Row, &signature, &respond(&signature, 2)).unwrap();
    let expected = r#"{"predictions":[{"s":["s0","s1"],"n":0},{"s":["s2","s3"],"n":1}]}"#;
    assert_eq!(body(&reply), expected);
}

#[test]
fn every_state_has_its_name() {
    let states = [
        (VersionState::Start, "START"),
        (VersionState::Loading, "LOADING"),
        (VersionState::Available, "AVAILABLE"),
        (VersionState::Unloading, "UNLOADING"),
        (VersionState::End, "END"),
    ];
    for (state, name) in states {
        let text = body(&status(&[VersionStatus { version: 1, state, failure: None }]));
        assert!(text.contains(&format!("\"{name}\"")), "{text}");
    }
}

#[test]
fn status_and_metadata() {
    let versions = [
        VersionStatus { version: 123, state: VersionState::Available, failure: None },
        VersionStatus {
            version: 2,
            state: VersionState::End,
            failure: Some("no \"file\"".to_owned()),
        },
    ];
    golden("tfs/status.json", &(body(&status(&versions)) + "\n"));
    let signature = model(8, &["x FP32 [-1,3]", "ids INT64 []"], &["y BYTES [1]"]);
    golden("tfs/metadata.json", &(body(&metadata(&signature)) + "\n"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in any::<Vec<u8>>(),
        value in r#"[\[\]{}:,"ab0164. -]{0,40}"#,
        key in "instances|inputs",
    ) {
        for signature in [one_to_one(), two_to_two(), model(0, &["b BYTES []"], &[])] {
            let _ = decode_predict(&signature, &bytes);
            let _ = decode_predict(&signature, format!("{{\"{key}\": {value}}}").as_bytes());
        }
    }
}
