//! JSON as AWS's built-in algorithms take it: rows under `features`, or under `data` and `features` with the
//! positions of those values that are not zero.

use backend::NamedTensor;

use formats::{
    json::{JsonReader, Token},
    matrix::{Matrix, MissingValue, numbers},
    recordio, rows,
};
use inference::{error::Error, granted::Granted, signature::Signature};

/// What a row is called in errors.
const FORMAT: &str = "JSON";

/// Does this key, with the reader at its value, which is not read, make such a row of its object? It does not where
/// it is the name of an input, or no input takes rows of numbers: then it is a row by the names of inputs.
pub(super) fn is_features(signature: &Signature, reader: &mut JsonReader<'_>, key: &str) -> bool {
    let open = || numbers(signature).is_some() && signature.input(key).is_none();
    match key {
        "features" => open(),
        "data" if open() => {
            let mut found = false;
            let start = reader.mark();
            let _ = reader.revisit(start, |reader| {
                reader.object(|reader, key| {
                    found = key == "features";
                    if found { Err(rows::enough()) } else { reader.skip_value() }
                })
            });
            found
        }
        _ => false,
    }
}

/// Is the value at the reader, which is not read, a list whose first element is such a row?
pub(super) fn is_list(signature: &Signature, reader: &mut JsonReader<'_>) -> bool {
    let start = reader.mark();
    let Ok(Some(first)) = rows::first_item(reader, &start) else { return false };
    let mut found = false;
    let _ = reader.revisit(first, |reader| {
        // As nearly always; and to be told so costs more than to look.
        if reader.peek()? != Token::Object {
            return Ok(());
        }
        reader.object(|reader, key| {
            found = is_features(signature, reader, &key);
            // A row by the names of inputs may be long.
            let ends = found || signature.input(&key).is_some();
            if ends { Err(rows::enough()) } else { reader.skip_value() }
        })
    });
    found
}

/// Reads a list of such rows.
///
/// # Errors
/// When it is empty, an element is no such row, or the rows do not fit the model.
pub(super) fn read_list(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
) -> Result<Vec<NamedTensor>, Error> {
    let mut matrix = Matrix::new(signature, FORMAT, reader.length(), reader.grant())?;
    reader.array(|reader, _| read_row(&mut matrix, reader))?;
    matrix.finish(FORMAT)
}

/// Reads such rows one after another, up to the end. `in_record` puts the number of a row into its error.
///
/// # Errors
/// Those of [`read_list`].
pub(super) fn read_lines(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
    in_record: impl Fn(usize, Error) -> Error,
) -> Result<Vec<NamedTensor>, Error> {
    let mut matrix = Matrix::new(signature, FORMAT, reader.length(), reader.grant())?;
    for record in 1.. {
        read_row(&mut matrix, reader).map_err(|error| in_record(record, error))?;
        if reader.is_at_end() {
            break;
        }
    }
    matrix.finish(FORMAT)
}

/// One row. Keys that are no features are passed over: AWS's algorithms know some.
fn read_row(matrix: &mut Matrix<'_>, reader: &mut JsonReader<'_>) -> Result<(), Error> {
    let mut found = false;
    let start = reader.mark();
    reader.object(|reader, key| match &*key {
        "features" => read_once(&mut found, matrix, reader),
        "data" => reader.object(|reader, key| match &*key {
            "features" => read_once(&mut found, matrix, reader),
            _ => reader.skip_value(),
        }),
        _ => reader.skip_value(),
    })?;
    match found {
        true => Ok(()),
        false => {
            Err(reader
                .error_about(&start, "expected the key 'features', or 'data' with 'features'"))
        }
    }
}

fn read_once(
    found: &mut bool,
    matrix: &mut Matrix<'_>,
    reader: &mut JsonReader<'_>,
) -> Result<(), Error> {
    if std::mem::replace(found, true) {
        return Err(reader.error("the row has its features already"));
    }
    read_features(matrix, reader)
}

/// A list of numbers, or an object of values with their keys and shape.
fn read_features(matrix: &mut Matrix<'_>, reader: &mut JsonReader<'_>) -> Result<(), Error> {
    if reader.peek()? == Token::Array {
        reader.array(|reader, _| {
            if matrix.takes_missing() && reader.peek()? == Token::Null {
                reader.null()?;
                return matrix.number(f64::NAN).map_err(|it| reader.error(it));
            }
            let text = reader.number_text()?;
            matrix.json_number(text).map_err(|it| reader.error(it))
        })?;
        return matrix.end_row().map_err(|it| reader.error(format_args!("the row {it}")));
    }
    let grant = reader.grant();
    let mut values = None::<Granted<'_, &str>>;
    let (mut keys, mut shape) = (Granted::new(grant), Granted::new(grant));
    reader.object(|reader, key| match &*key {
        "values" => {
            let list = values.insert(Granted::new(grant));
            reader.array(|reader, _| list.push(reader.number_text()?))
        }
        "keys" => reader.array(|reader, _| keys.push(reader.number()?)),
        "shape" => reader.array(|reader, _| shape.push(reader.number()?)),
        _ => reader.skip_value(),
    })?;
    let values = values.ok_or_else(|| reader.error("expected the key 'values'"))?;
    let values = values.iter().copied();
    let add = |matrix: &mut Matrix<'_>, text: &&str| matrix.json_number(text);
    let added = recordio::tensor(matrix, MissingValue::Zero, values, &keys, &shape, add);
    added.map_err(|it| reader.error(format_args!("the row {it}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples::{grant, model, show_inputs};
    use proptest::prelude::*;

    fn floats() -> Signature {
        model(8, &["x FP32 [3]"], &["y FP32 [1]"])
    }

    fn list(text: &str) -> Result<String, Error> {
        let signature = floats();
        let inputs = JsonReader::document(text.as_bytes(), grant(), |it| read_list(&signature, it));
        inputs.map(|it| show_inputs(&it))
    }

    #[track_caller]
    fn check_row(signature: &Signature, text: &str, expected: bool) {
        let text = format!("[{text}]");
        let mut reader = JsonReader::new(text.as_bytes(), grant()).unwrap();
        assert_eq!(is_list(signature, &mut reader), expected, "{text}");
        reader.skip_value().unwrap();
    }

    #[test]
    fn a_row_is_known_by_its_features_unless_they_are_an_input() {
        check_row(&floats(), r#"{"features": [1, 2]}"#, true);
        check_row(&floats(), r#"{"id": 7, "data": {"features": {"values": [1]}}}"#, true);
        check_row(&floats(), r#"{"data": [1]}"#, false);
        check_row(&floats(), r#"{"x": [1]}"#, false);
        check_row(&floats(), "[1]", false);
        let own = model(8, &["features FP32 [2]"], &[]);
        check_row(&own, r#"{"features": [1, 2]}"#, false);
        let texts = model(8, &["x BYTES [1]"], &[]);
        check_row(&texts, r#"{"features": [1, 2]}"#, false);
    }

    #[test]
    fn rows_are_lists_or_values_with_their_positions() {
        let rows = r#"[{"features": [1, 2.5, 3]},
            {"data": {"features": {"values": [9], "keys": [1], "shape": [3]}}},
            {"features": {"values": [4, 5, 6]}}]"#;
        let expected = "x FP32 [3,3] [1.0,2.5,3.0,0.0,9.0,0.0,4.0,5.0,6.0]\n";
        assert_eq!(list(rows), Ok(expected.to_owned()));
    }

    #[test]
    fn integers_are_exact_and_floats_are_rounded_once() {
        let rows = |model: &Signature, values: &str, keys: &str| {
            let sparse = format!(r#"{{"values": [{values}], "keys": [{keys}], "shape": [3]}}"#);
            let text = format!(r#"[{{"features": [{values}]}}, {{"features": {sparse}}}]"#);
            let inputs = JsonReader::document(text.as_bytes(), grant(), |it| read_list(model, it));
            inputs.map(|it| show_inputs(&it)).map_err(|it| it.to_string())
        };
        let large = "9007199254740993,-9223372036854775807,1e3";
        let expected = "x INT64 [2,3] [9007199254740993,-9223372036854775807,1000,\
                        9007199254740993,-9223372036854775807,1000]\n";
        assert_eq!(rows(&model(8, &["x INT64 [3]"], &[]), large, "0,1,2"), Ok(expected.to_owned()));
        let unsigned = rows(&model(8, &["x UINT64 [1]"], &[]), "18446744073709551615", "0");
        assert!(unsigned.unwrap_err().contains("3 values, expected 1"));
        let single = format!("[{{\"features\": [{}]}}]", "18446744073709551615");
        let unsigned = model(8, &["x UINT64 [1]"], &[]);
        let inputs =
            JsonReader::document(single.as_bytes(), grant(), |it| read_list(&unsigned, it))
                .unwrap();
        assert_eq!(show_inputs(&inputs), "x UINT64 [1,1] [18446744073709551615]\n");
        // A little above the middle of 1 and the next number of 32 bits; rounded to 64 bits first, it is the middle.
        let above = "1.00000005960464477540";
        let (floats, expected) = (model(8, &["x FP32 [1]"], &[]), above.parse::<f32>().unwrap());
        assert_ne!(expected, above.parse::<f64>().unwrap() as f32);
        let single = format!("[{{\"features\": [{above}]}}]");
        let inputs =
            JsonReader::document(single.as_bytes(), grant(), |it| read_list(&floats, it)).unwrap();
        assert_eq!(inputs[0].tensor.as_slice_of::<f32>(), Some([expected].as_slice()));
        let beyond = rows(&model(8, &["x INT64 [3]"], &[]), "1,-9223372036854775809,1", "0,1,2");
        assert!(beyond.unwrap_err().contains("-9223372036854775809 does not fit INT64"));
        let fraction = rows(&model(8, &["x INT64 [3]"], &[]), "1,0.5,1", "0,1,2").unwrap_err();
        assert!(fraction.contains("expected an integer for INT64, found 0.5"), "{fraction}");
    }

    #[test]
    fn lines_are_rows_and_errors_name_them() {
        let read = |text: &str| {
            let (signature, mut reader) =
                (floats(), JsonReader::new(text.as_bytes(), grant()).unwrap());
            let named = |record, error: Error| Error::InvalidRequest(format!("{record}: {error}"));
            read_lines(&signature, &mut reader, named).map(|it| show_inputs(&it))
        };
        let expected = "x FP32 [2,3] [1.0,2.0,3.0,4.0,5.0,6.0]\n";
        let lines = "{\"features\":[1,2,3]}\n{\"features\":[4,5,6]}\n";
        assert_eq!(read(lines), Ok(expected.to_owned()));
        let error = read("{\"features\":[1,2,3]}\n{\"x\":1}").unwrap_err().to_string();
        assert!(error.starts_with("2: expected the key 'features'"), "{error}");
    }

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = list(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        refused("[]", "the JSON body has no records");
        refused(r#"[{"features": [1, "2", 3]}]"#, "[0].features[1]: expected a number for FP64");
        refused(r#"[{"features": [1e300, 2, 3]}]"#, "does not fit FP32");
        refused(r#"[{"features": [1, 2]}]"#, "expected shape [-1,3], the JSON body has [1,2]");
        refused(
            r#"[{"features": [1,2,3]}, {"features": [1]}]"#,
            "has 1 values, expected 3 as the first",
        );
        refused(r#"[{"data": {"x": 1}}]"#, "expected the key 'features'");
        refused(r#"[{"features": {"keys": [1]}}]"#, "expected the key 'values'");
        let repeated = r#"[{"features": [1,2,3], "data": {"features": [1,2,3]}}]"#;
        refused(repeated, "has its features already");
        let sparse = r#"[{"features": {"values": [1, 2], "keys": [1], "shape": [3]}}]"#;
        refused(sparse, "has 2 values and 1 keys");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"[\[\]{}:,"0-9.eE-]{0,40}"#, rest in ".{0,20}") {
            let signature = floats();
            for text in [text.clone(), format!("[{{\"features\":{rest}}}]"), format!("[{{\"data\":{{\"features\":{text}")] {
                if let Ok(mut reader) = JsonReader::new(text.as_bytes(), grant()) {
                    let _ = is_list(&signature, &mut reader);
                    let _ = read_list(&signature, &mut reader);
                }
            }
        }
    }
}
