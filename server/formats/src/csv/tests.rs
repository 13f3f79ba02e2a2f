//! CSV bodies, and the tensors that they become.

use proptest::prelude::*;

use super::*;
use crate::samples::{model, show_inputs};

fn decode_table(signature: &Signature, body: &[u8]) -> Result<Vec<NamedTensor>, Error> {
    super::decode_table(signature, body, &Grant::all(0))
}

fn decode(signature: &Signature, body: &[u8]) -> Result<Vec<NamedTensor>, Error> {
    super::decode(signature, body, &Grant::all(0))
}

#[track_caller]
fn check(signature: &Signature, text: &str, expected: &str) {
    let inputs = decode(signature, text.as_bytes()).unwrap();
    assert_eq!(show_inputs(&inputs).trim_end(), expected);
}

#[track_caller]
fn refused(signature: &Signature, text: &str, expected: &str) {
    let error = decode(signature, text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, expected);
}

fn floats(dims: &str) -> Signature {
    model(8, &[&format!("x FP32 {dims}")], &[])
}

#[test]
fn records_are_rows() {
    check(&floats("[2]"), "1,2.5\r\n-3e2,4\r\n", "x FP32 [2,2] [1.0,2.5,-300.0,4.0]");
    check(&floats("[-1]"), "1,2,3", "x FP32 [1,3] [1.0,2.0,3.0]");
    check(&floats("[]"), "1\n2", "x FP32 [2] [1.0,2.0]");
}

#[test]
fn columns_are_reshaped_to_the_dimensions() {
    check(&floats("[1,2,2]"), "1,2,3,4", "x FP32 [1,1,2,2] [1.0,2.0,3.0,4.0]");
    check(&floats("[2,-1]"), "1,2,3,4", "x FP32 [1,2,2] [1.0,2.0,3.0,4.0]");
}

#[test]
fn an_empty_field_is_nan_for_floats_only() {
    check(&floats("[3]"), "1,,", "x FP32 [1,3] [1.0,NaN,NaN]");
    let integers = model(8, &["x INT32 [2]"], &[]);
    refused(
        &integers,
        "1,",
        "input 'x': CSV record 1, column 2: expected an integer for INT32, found ''",
    );
}

#[test]
fn numbers_may_be_spelled_as_other_programs_spell_them() {
    let text = "+1,007,.5,5.,-.5e1,nan,-inf,Infinity, 2 ,\"3\"";
    let values = "[1.0,7.0,0.5,5.0,-5.0,NaN,-Infinity,Infinity,2.0,3.0]";
    check(&floats("[10]"), text, &format!("x FP32 [1,10] {values}"));
    let booleans = model(8, &["x BOOL [4]"], &[]);
    check(&booleans, "True,0,1,FALSE", "x BOOL [1,4] [true,false,true,false]");
    for bad in [".", "+", "1e", "0x1", "--1", "+-1", "1 2", "e5", "1..2"] {
        assert!(decode(&floats("[1]"), bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn a_field_that_is_no_number_is_named_by_record_and_column() {
    let expected = "input 'x': CSV record 2, column 2: expected a number for FP32, found 'abc'";
    refused(&floats("[2]"), "1,2\n\n3,abc\n", expected);
}

#[test]
fn every_record_has_as_many_columns_as_the_inputs_have_elements() {
    let signature = floats("[2]");
    refused(&signature, "1,2,3", "CSV record 1 has 3 columns, expected 2: x (2)");
    refused(&signature, "1,2\n3", "CSV record 2 has 1 columns, expected 2: x (2)");
    refused(&signature, "1,2\n3,4,5,6\n", "CSV record 2 has 4 columns, expected 2: x (2)");
    refused(
        &floats("[-1,-1]"),
        "1,2",
        "CSV record 1 has 2 columns, expected x of shape [-1,-1,-1]",
    );
}

#[test]
fn several_inputs_share_the_columns_in_their_order() {
    let signature = model(8, &["a INT64 [1]", "b FP32 [-1]", "c? BYTES [1]"], &[]);
    let expected =
        "a INT64 [2,1] [1,3]\nb FP32 [2,2] [0.5,0.5,0.5,0.5]\nc BYTES [2,1] [\"x, y\",\"z\"]";
    check(&signature, "1,.5,.5,\"x, y\"\n3,.5,.5,z", expected);
    let fixed = model(8, &["a INT64 [1]", "c? BYTES [1]"], &[]);
    check(&fixed, "1", "a INT64 [1,1] [1]");
}

#[test]
fn a_header_of_exactly_the_columns_names_is_skipped() {
    let signature = model(8, &["a INT64 []", "b FP32 [2]"], &[]);
    check(&signature, "a,b_0,b_1\n1,2,3\n", "a INT64 [1] [1]\nb FP32 [1,2] [2.0,3.0]");
    let expected = "input 'a': CSV record 1, column 1: expected an integer for INT64, found 'b_0'";
    refused(&signature, "b_0,b_1,a\n2,3,1\n", expected);
    refused(&signature, "a,b_0,b_1\n", "the CSV text has no records");
}

#[test]
fn without_batching_the_text_is_one_row_or_one_matrix() {
    check(&model(0, &["x FP32 [2]"], &[]), "1,2", "x FP32 [2] [1.0,2.0]");
    check(&model(0, &["x FP32 [2,-1]"], &[]), "1\n2", "x FP32 [2,1] [1.0,2.0]");
    check(&model(0, &["x FP32 [-1]"], &[]), "1\n2", "x FP32 [2] [1.0,2.0]");
    let expected = "input 'x': expected shape [2], the CSV text has [1,3]";
    refused(&model(0, &["x FP32 [2]"], &[]), "1,2,3", expected);
    let two = model(0, &["a FP32 [1]", "b FP32 [1]"], &[]);
    refused(&two, "1,2\n3,4", "input 'a': expected shape [1], the CSV text has [2,1]");
}

#[test]
fn text_without_records_is_refused() {
    refused(&floats("[1]"), "\n\r\n", "the CSV text has no records");
    let error = decode(&floats("[1]"), b"1\n\xff").unwrap_err().to_string();
    assert_eq!(error, "the CSV text is not UTF-8, at byte 2");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in any::<Vec<u8>>(), text in "[0-9a.,+\"\r\n -]{0,40}") {
        for max_batch_size in [0, 8] {
            for dims in ["[]", "[1]", "[-1]", "[0]", "[2,-1]"] {
                let signature = model(max_batch_size, &[&format!("x FP32 {dims}")], &[]);
                let _ = decode(&signature, &body);
                let _ = decode(&signature, text.as_bytes());
            }
            let signature = model(max_batch_size, &["a BYTES [-1]", "b? INT8 [2]"], &[]);
            let _ = decode(&signature, text.as_bytes());
        }
    }

    #[test]
    fn floats_survive_the_text(values in prop::collection::vec(any::<f32>(), 1..40)) {
        let line: Vec<String> = values.iter().map(f32::to_string).collect();
        let inputs = decode(&floats("[-1]"), line.join(",").as_bytes()).unwrap();
        let read = inputs[0].tensor.as_slice_of::<f32>().unwrap();
        let same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
        prop_assert!(read.len() == values.len() && read.iter().zip(&values).all(same));
    }
}

#[test]
fn texts_of_categories_are_their_codes() {
    let of = |others_are_missing| {
        let mut signature = floats("[2]");
        let codes = ["red", " blue", "inf"].map(str::to_owned).into_iter().zip(0..).collect();
        let codes = backend::TextCodes { codes, others_are_missing };
        signature.inputs[0].text_codes = std::sync::Arc::new([(1, codes)].into());
        signature
    };
    for others_are_missing in [false, true] {
        let text = "1,red\n2, blue\n3,inf\n4,2\n5,+1\n6,\n";
        let expected = "x FP32 [6,2] [1.0,0.0,2.0,1.0,3.0,2.0,4.0,2.0,5.0,1.0,6.0,NaN]";
        check(&of(others_are_missing), text, expected);
        refused(
            &of(others_are_missing),
            "red,1",
            "input 'x': CSV record 1, column 1: expected a number for FP32, found 'red'",
        );
    }
    check(&of(true), "1,red\n2,green", "x FP32 [2,2] [1.0,0.0,2.0,NaN]");
    refused(
        &of(false),
        "1,red\n2,green",
        "input 'x': CSV record 2, column 2: 'green' is none of the categories that the model was trained on: 'red', \
         ' blue', 'inf'; send null, in CSV an empty field, for what is missing",
    );
}

#[test]
fn texts_that_look_like_numbers_are_texts_before_they_are_numbers() {
    let mut signature = floats("[2]");
    let codes = ["1", "2", "3", " 3"].map(str::to_owned).into_iter().zip(0..).collect();
    let codes = backend::TextCodes { codes, others_are_missing: false };
    signature.inputs[0].text_codes = std::sync::Arc::new([(1, codes)].into());
    // What stands in another column is a number still.
    let text = "1,1\n2,2\n3,3\n4, 3\n5, 1 \n7,\n";
    let expected = "x FP32 [6,2] [1.0,0.0,2.0,1.0,3.0,2.0,4.0,3.0,5.0,0.0,7.0,NaN]";
    check(&signature, text, expected);
    let table = decode_table(&signature, b"x_0,x_1\n1,1\n2,3").unwrap();
    assert_eq!(show_inputs(&table).trim_end(), "x FP32 [2,2] [1.0,0.0,2.0,2.0]");
    // A code would be the place of another category.
    refused(
        &signature,
        "1,0",
        "input 'x': CSV record 1, column 2: '0' is none of the categories that the model was trained on: '1', '2', \
         '3', ' 3'; send null, in CSV an empty field, for what is missing",
    );
}
