//! CSV as XGBoost's container reads it: no header, no quotes, whichever character is between the fields.

use backend::NamedTensor;

use formats::{
    expansion,
    matrix::{LeftOut, Matrix, RowError},
};
use inference::{error::Error, grant::Grant, signature::Signature};

/// What rows come in, for errors.
const FORMAT: &str = "CSV";

/// What may be between fields, the likeliest first: an earlier one may have others beside it.
const DELIMITERS: [char; 6] = [',', '\t', ';', ' ', ':', '|'];

/// Bytes of the first line that are looked at for the delimiter.
const LOOKED_AT: usize = 512;

/// The inputs in a text without a header.
///
/// A record is a line of numbers, with that character between them that the first line tells. Blanks around a
/// number are not part of it, and a field with nothing in it is NaN. So is what the model takes beyond the last field
/// of the records, as far as it may be `left_out`. Lines within the text are all records.
///
/// # Errors
/// When a field is no number, or a record has not as many fields as the first: [`Error::InvalidRequest`]. When it has
/// more than the model takes, or too few: [`Error::InvalidInput`]. Both name the record, counted from 1.
pub(super) fn decode(
    signature: &Signature,
    left_out: LeftOut,
    body: &[u8],
    grant: &Grant,
) -> Result<Vec<NamedTensor>, Error> {
    expansion::hold_ports(signature, grant)?;
    let text = std::str::from_utf8(body).map_err(|error| {
        let offset = error.valid_up_to();
        Error::InvalidRequest(format!("the CSV text is not UTF-8, at byte {offset}"))
    })?;
    let mut matrix = Matrix::new(signature, FORMAT, text.len(), grant)?;
    let text = text.trim_start_matches('\u{feff}');
    // A tab at the end of the text has an empty field behind it; line ends have not.
    let text = text.trim_matches(['\r', '\n']);
    if !text.trim_ascii().is_empty() {
        let (delimiter, mut columns) = (delimiter(text), None);
        for (record, line) in (1..).zip(text.split('\n')) {
            let line = line.strip_suffix('\r').unwrap_or(line);
            let given = match delimiter {
                // Columns that were aligned with blanks.
                ' ' => read(&mut matrix, record, line.split_ascii_whitespace())?,
                _ => read(&mut matrix, record, line.split(delimiter))?,
            };
            let expected = *columns.get_or_insert(given);
            if given != expected {
                let problem = RowError::Uneven { given, expected };
                return Err(Error::InvalidRequest(format!("CSV record {record} {problem}")));
            }
            let problem = matrix.end_short_row(left_out);
            let in_record = |it| Error::input(matrix.name(), format!("CSV record {record} {it}"));
            problem.map_err(in_record)?;
        }
    }
    matrix.finish(FORMAT)
}

/// The character between the fields of the first line.
fn delimiter(text: &str) -> char {
    let line = text.lines().next().unwrap_or_default();
    let looked_at = line.char_indices().take_while(|it| it.0 < LOOKED_AT).map(|it| it.1);
    let present: Vec<char> = looked_at.filter(|it| DELIMITERS.contains(it)).collect();
    DELIMITERS.into_iter().find(|it| present.contains(it)).unwrap_or(',')
}

/// Adds the fields of that record to the row that is being read. Returns their number.
fn read<'a>(
    matrix: &mut Matrix<'_>,
    record: usize,
    fields: impl Iterator<Item = &'a str>,
) -> Result<usize, Error> {
    let mut given = 0;
    for (column, text) in (1..).zip(fields) {
        matrix.text(text).map_err(|it| {
            Error::InvalidRequest(format!("CSV record {record}, column {column}: {it}"))
        })?;
        given = column;
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples::{model, show_inputs};
    use proptest::prelude::*;

    fn decode(
        signature: &Signature,
        left_out: LeftOut,
        body: &[u8],
    ) -> Result<Vec<NamedTensor>, Error> {
        super::decode(signature, left_out, body, &Grant::all(0))
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let inputs =
            decode(&model(8, &["x FP32 [-1]"], &[]), LeftOut::Any, text.as_bytes()).unwrap();
        assert_eq!(show_inputs(&inputs).trim_end(), format!("x FP32 {expected}"), "{text}");
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = decode(&model(8, &["x FP32 [2]"], &[]), LeftOut::Any, text.as_bytes())
            .unwrap_err()
            .to_string();
        assert_eq!(error, expected);
    }

    #[test]
    fn the_first_line_tells_the_delimiter() {
        for text in
            ["1,2.5\n3,-4\n", "1\t2.5\n3\t-4", "1;2.5\r\n3;-4\r\n", "1 2.5\n3   -4", "1|2.5\n3|-4"]
        {
            check(text, "[2,2] [1.0,2.5,3.0,-4.0]");
        }
        check("1, 2\n 3 ,4", "[2,2] [1.0,2.0,3.0,4.0]");
        check("1e5\n-2", "[2,1] [100000.0,-2.0]");
    }

    #[test]
    fn a_field_with_nothing_in_it_is_missing() {
        check("1,,3", "[1,3] [1.0,NaN,3.0]");
        check(",\n1,", "[2,2] [NaN,NaN,1.0,NaN]");
        check("1\t\t\n", "[1,3] [1.0,NaN,NaN]");
        check("1\n\n2", "[3,1] [1.0,NaN,2.0]");
        check("nan,-inf,+1,.5", "[1,4] [NaN,-Infinity,1.0,0.5]");
    }

    #[test]
    fn what_a_record_leaves_out_at_its_end_is_missing() {
        let inputs = decode(&model(8, &["x FP32 [3]"], &[]), LeftOut::Any, b"1\n4\n").unwrap();
        assert_eq!(show_inputs(&inputs).trim_end(), "x FP32 [2,3] [1.0,NaN,NaN,4.0,NaN,NaN]");
        let error =
            decode(&model(8, &["x INT32 [3]"], &[]), LeftOut::Any, b"1").unwrap_err().to_string();
        assert!(error.contains("record 1") && error.contains("INT32"), "{error}");
        let wide = model(0, &["x FP32 [-1,1000000]"], &[]);
        let error = decode(&wide, LeftOut::Any, b"1\n1\n").unwrap_err().to_string();
        assert!(error.contains("record 2") && error.contains("send fewer rows"), "{error}");
    }

    #[test]
    fn of_a_pickled_booster_one_field_may_be_left_out_and_no_more() {
        let signature = model(8, &["x FP32 [3]"], &[]);
        let inputs = decode(&signature, LeftOut::One, b"1,2\n3,4").unwrap();
        assert_eq!(show_inputs(&inputs).trim_end(), "x FP32 [2,3] [1.0,2.0,NaN,3.0,4.0,NaN]");
        let error = decode(&signature, LeftOut::One, b"1").unwrap_err();
        assert!(matches!(error, Error::InvalidInput { .. }));
        let expected = "input 'x': CSV record 1 has 1 values, the model takes 3; it is a Booster in a pickle, of \
                        which XGBoost's container takes 2 or 3: send the others empty where they are missing";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_is_wrong_is_named_with_record_and_column() {
        refused("1,2\n3,x", "CSV record 2, column 2: expected a number for FP32, found 'x'");
        refused("a,b\n1,2", "CSV record 1, column 1: expected a number for FP32, found 'a'");
        refused("1,2\n3", "CSV record 2 has 1 values, expected 2 as the first");
        refused("1,2,3", "input 'x': CSV record 1 has 3 values, the model takes 2");
        refused("\n \n", "the CSV body has no records");
        refused("1\u{e9},2", "CSV record 1, column 1: expected a number for FP32, found '1\u{e9}'");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in any::<Vec<u8>>(), text in "[0-9a.,;:\t| \r\n-]{0,40}") {
            for dims in ["[2]", "[-1]", "[]"] {
                let signature = model(8, &[&format!("x FP32 {dims}")], &[]);
                let _ = decode(&signature, LeftOut::Any, &body);
                let _ = decode(&signature, LeftOut::One, text.as_bytes());
            }
        }
    }
}
