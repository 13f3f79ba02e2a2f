//! Facts about requests made of examples, and about what is made of their outputs.

use backend::{NamedTensor, Shape, Tensor};
use proptest::prelude::*;

use super::*;
use crate::{
    EncodedReply,
    samples::{body, model, only, respond, show},
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, InferenceResponse},
    signature::Signature,
};

fn encode_results(
    results: &Results,
    signature: &Signature,
    response: &InferenceResponse,
) -> Result<EncodedReply, Error> {
    super::encode_results(results, signature, response, &Grant::all(0))
}

fn decode_examples(
    signature: &Signature,
    method: Method,
    body: &[u8],
) -> Result<(InferenceRequest, Results), Error> {
    super::decode_examples(signature, method, body, &Grant::all(0))
}

/// `y`'s classes have these names.
fn labelled(mut signature: Signature, labels: &[&str]) -> Signature {
    signature.outputs[0].labels = labels.iter().map(|it| (*it).to_owned()).collect();
    signature
}

fn classifier() -> Signature {
    labelled(model(8, &["x FP32 [2]", "n INT64 []"], &["y FP32 [3]"]), &["cat", "dog"])
}

fn regressor() -> Signature {
    model(8, &["x FP32 [1]"], &["y FP32 [1]"])
}

#[track_caller]
fn read(signature: &Signature, method: Method, request: &str) -> String {
    let (request, results) = decode_examples(signature, method, request.as_bytes()).unwrap();
    assert_eq!(request.outputs, results.outputs());
    show(&request)
}

#[track_caller]
fn reply(signature: &Signature, method: Method, response: &InferenceResponse) -> String {
    let results = Results::of(signature, method).unwrap();
    body(&encode_results(&results, signature, response).unwrap())
}

#[track_caller]
fn refused(signature: &Signature, method: Method, request: &str, expected: &str) {
    let error = decode_examples(signature, method, request.as_bytes()).unwrap_err();
    assert!(matches!(error, Error::InvalidRequest(_)));
    assert_eq!(error.to_string(), expected);
}

#[test]
fn features_become_inputs_with_one_row_for_each_example() {
    let request = r#"{"signature_name": "serving_default", "examples": [
        {"x": [1, 2.5], "n": 7, "more": {"b64": "AA=="}}, {"n": [-8], "x": [NaN, 4]}], "other": [1]}"#;
    let expected = "x FP32 [2,2] [1.0,2.5,NaN,4.0]\nn INT64 [2] [7,-8]\n";
    assert_eq!(read(&classifier(), Method::Classify, request), expected);
}

#[test]
fn a_list_stands_for_any_shape_of_as_many_elements() {
    let signature = model(8, &["x UINT8 [2,-1]", "s BYTES [1]"], &["y FP32 []"]);
    let request = r#"{"examples": [{"x": [1, 2, 3, 4], "s": "a"}, {"x": [[5, 6], [7, 8]], "s": {"b64": "/w=="}}]}"#;
    let expected = "x UINT8 [2,2,2] [1,2,3,4,5,6,7,8]\ns BYTES [2,1] [\"a\",{\"b64\":\"/w==\"}]\n";
    assert_eq!(read(&signature, Method::Regress, request), expected);
}

#[test]
fn the_context_has_what_an_example_lacks_wherever_it_stands() {
    let signature = model(8, &["x FP32 [1]", "who BYTES [1]"], &["y FP32 []"]);
    let expected = "x FP32 [2,1] [1.0,2.0]\nwho BYTES [2,1] [\"ann\",\"bob\"]\n";
    for request in [
        r#"{"context": {"who": "ann", "z": 1}, "examples": [{"x": 1}, {"x": 2, "who": "bob"}]}"#,
        r#"{"examples": [{"x": 1}, {"x": 2, "who": "bob"}], "context": {"z": 1, "who": "ann"}}"#,
    ] {
        assert_eq!(read(&signature, Method::Regress, request), expected);
    }
}

#[test]
fn a_long_context_is_not_repeated_without_end() {
    let signature = model(8, &["x FP32 [-1]"], &["y FP32 []"]);
    let context = vec!["1.25"; 1 << 18].join(",");
    let examples = vec!["{}"; 60].join(",");
    let request = format!("{{\"context\": {{\"x\": [{context}]}}, \"examples\": [{examples}]}}");
    let error = decode_examples(&signature, Method::Regress, request.as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with("examples[51]: the context is repeated"), "{error}");
}

#[test]
fn a_context_is_repeated_for_a_multiple_of_the_body() {
    let signature = model(1024, &["x FP32 [-1]"], &["y FP32 []"]);
    let context = vec!["1.25"; 1 << 11].join(",");
    let request = |count: usize| {
        let examples = vec!["{}"; count].join(",");
        format!("{{\"context\": {{\"x\": [{context}]}}, \"examples\": [{examples}]}}")
    };
    assert!(decode_examples(&signature, Method::Regress, request(200).as_bytes()).is_ok());
    let request = request(300);
    let most = (1 << 20) + 100 * request.len();
    let error = decode_examples(&signature, Method::Regress, request.as_bytes()).unwrap_err();
    let expected = format!("the context is repeated for more than {most} bytes");
    assert!(error.to_string().contains(&expected), "{error}");
}

#[test]
fn a_model_that_does_not_batch_may_count_examples_in_its_first_dimension() {
    let signature = model(0, &["x FP32 [-1,2]"], &["y FP32 [-1,1]"]);
    let two = r#"{"examples": [{"x": [1, 2]}, {"x": [3, 4]}]}"#;
    assert_eq!(read(&signature, Method::Regress, two), "x FP32 [2,2] [1.0,2.0,3.0,4.0]\n");
    let signature = model(0, &["x FP32 [2]"], &["y FP32 [1]"]);
    let one = r#"{"examples": [{"x": [1, 2]}]}"#;
    assert_eq!(read(&signature, Method::Regress, one), "x FP32 [2] [1.0,2.0]\n");
}

#[test]
fn an_optional_input_is_in_all_examples_or_in_none() {
    let signature = model(8, &["x FP32 [1]", "w? FP32 [1]"], &["y FP32 []"]);
    let none = r#"{"examples": [{"x": 1}, {"x": 2}]}"#;
    assert_eq!(read(&signature, Method::Regress, none), "x FP32 [2,1] [1.0,2.0]\n");
    refused(
        &signature,
        Method::Regress,
        r#"{"examples": [{"x": 1}, {"x": 2, "w": 3}]}"#,
        "examples[1].w: the first example does not have the feature 'w', at byte 38",
    );
    refused(
        &signature,
        Method::Regress,
        r#"{"examples": [{"x": 1, "w": 3}, {"x": 2}]}"#,
        "examples[1]: expected the feature 'w', found none, at byte 32",
    );
}

#[test]
fn mistakes_are_named_by_index_and_feature() {
    let check = |request: &str, expected: &str| {
        refused(&regressor(), Method::Regress, request, expected);
    };
    check("{}", "expected the key 'examples', found none");
    check(r#"{"examples": []}"#, "examples: expected at least one example, found none, at byte 15");
    check(
        r#"{"examples": 1}"#,
        "examples: expected an array of examples, found a number, at byte 13",
    );
    check(r#"{"examples": [1]}"#, "examples[0]: expected an object, found '1', at byte 14");
    check(
        r#"{"examples": [{"x": 1}, {"X": 1, "z": 2}]}"#,
        "examples[1]: expected the feature 'x', found none; 'X' is no input, at byte 24",
    );
    check(
        r#"{"examples": [{"x": 1}, {"x": [1, "a"]}]}"#,
        "examples[1].x[1]: expected a number for FP32, found a string, at byte 34",
    );
    check(
        r#"{"examples": [{"x": 1}, {"x": [1, 2]}]}"#,
        "examples[1].x: expected shape [1] as in the first example, found [2], at byte 30",
    );
    check(
        r#"{"signature_name": "s", "examples": [{"x": 1}]}"#,
        "signature_name: expected 'serving_default', the only signature, found 's', at byte 19",
    );
    check(
        r#"{"context": 1, "examples": [{}]}"#,
        "context: expected an object, found '1', at byte 12",
    );
}

#[test]
fn a_label_file_names_the_classes_of_the_scores_in_their_order() {
    let scores = Tensor::from_vec(Shape::new(&[2, 3]), vec![0.5f32, 0.1, 0.25, 1.0, f32::NAN, 0.0]);
    let reply = reply(&classifier(), Method::Classify, &only("y", scores.unwrap()));
    let expected =
        r#"{"results":[[["cat",0.5],["dog",0.1],["",0.25]],[["cat",1.0],["dog",NaN],["",0.0]]]}"#;
    assert_eq!(reply, expected);
}

#[test]
fn a_label_file_may_have_more_lines_than_there_are_classes() {
    let signature = labelled(model(8, &["x FP32 [1]"], &["y FP32 [2]"]), &["a", "b", "c", "d"]);
    let scores = Tensor::from_vec(Shape::new(&[2, 2]), vec![1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let expected = r#"{"results":[[["a",1.0],["b",2.0]],[["a",3.0],["b",4.0]]]}"#;
    assert_eq!(reply(&signature, Method::Classify, &only("y", scores)), expected);
}

#[test]
fn labels_and_scores_may_be_two_outputs_in_either_order() {
    for outputs in [["l BYTES [2]", "p FP64 [2]"], ["p FP64 [2]", "l BYTES [2]"]] {
        let signature = model(8, &["x FP32 [1]"], &outputs);
        let results = Results::of(&signature, Method::Classify).unwrap();
        assert_eq!(results.outputs(), ["p".into(), "l".into()]);
        let reply = reply(&signature, Method::Classify, &respond(&signature, 2));
        let expected = r#"{"results":[[["s0",0.0],["s1",0.5]],[["s2",1.0],["s3",1.5]]]}"#;
        assert_eq!(reply, expected);
    }
    let numbers = model(8, &["x FP32 [1]"], &["i INT64 [2]", "p FP32 [2]"]);
    let reply = reply(&numbers, Method::Classify, &respond(&numbers, 1));
    assert_eq!(reply, r#"{"results":[[["0",0.0],["1",0.5]]]}"#);
}

#[test]
fn regressions_are_numbers_one_for_each_row() {
    for outputs in ["y FP32 [1]", "y FP32 []", "y FP16 [-1]"] {
        let signature = model(8, &["x FP32 [1]"], &[outputs]);
        let mut response = respond(&model(8, &[], &[&outputs.replace("-1", "1")]), 3);
        assert_eq!(reply(&signature, Method::Regress, &response), r#"{"results":[0.0,0.5,1.0]}"#);
        let values = regressions("y", &response).unwrap();
        assert_eq!(values, [0.0, 0.5, 1.0]);
        let wide = Tensor::from_vec(Shape::new(&[1, 2]), vec![0.0f32; 2]).unwrap();
        response.outputs = vec![NamedTensor { name: "y".into(), tensor: wide }];
        let results = Results::of(&signature, Method::Regress).unwrap();
        let error = encode_results(&results, &signature, &response).unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)));
    }
}

#[test]
fn a_model_without_such_outputs_is_refused_with_what_it_would_take() {
    let check = |signature: &Signature, method, part: &str| {
        let error = decode_examples(signature, method, b"{").unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let plain = model(8, &["x FP32 [1]"], &["y FP32 [3]"]);
    check(&plain, Method::Classify, "model 'm' cannot classify: expected an output of scores");
    check(&plain, Method::Classify, "its outputs are 'y' FP32 [-1,3]; use predict");
    check(&plain, Method::Regress, "model 'm' cannot regress: expected exactly one output");
    let integers = labelled(model(8, &["x FP32 [1]"], &["y INT32 [2]"]), &["a", "b"]);
    check(&integers, Method::Classify, "cannot classify");
    check(&integers, Method::Regress, "cannot regress");
    let differ = model(8, &["x FP32 [1]"], &["l BYTES [2]", "y FP32 [3]"]);
    check(&differ, Method::Classify, "cannot classify");
}

#[test]
fn predict_is_read_and_answered_as_ever() {
    let signature = regressor();
    let request = br#"{"inputs": [[1]]}"#;
    let (request, results) = decode_examples(&signature, Method::Predict, request).unwrap();
    assert_eq!(
        (show(&request).as_str(), &results),
        ("x FP32 [1,1] [1.0]\n", &Results::Predictions(Form::Column))
    );
    let reply = encode_results(&results, &signature, &respond(&signature, 1)).unwrap();
    assert_eq!(body(&reply), r#"{"outputs":[[0.0]]}"#);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in any::<Vec<u8>>(),
        value in r#"[\[\]{}:,"xn0164. -]{0,40}"#,
        key in "context|examples",
    ) {
        for method in [Method::Classify, Method::Regress] {
            let _ = decode_examples(&classifier(), method, &bytes);
            let request = format!("{{\"{key}\": {value}, \"examples\": [{value}]}}");
            let _ = decode_examples(&regressor(), method, request.as_bytes());
        }
    }
}
