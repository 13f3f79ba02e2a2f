//! The text of libsvm: a line is a row, `index:value` a value in it, and what is left out is missing or zero.

use backend::NamedTensor;

use crate::{
    expansion,
    matrix::{Matrix, MissingValue},
    number::Excerpt,
};
use inference::{error::Error, grant::Grant, granted::Granted, signature::Signature};

/// Which index of libsvm is that of the first column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IndexBase {
    /// 1 where no index of the body is 0, else 0.
    #[default]
    Auto,
    /// 0, as XGBoost itself takes them.
    Zero,
    /// 1, as the format has it.
    One,
}

/// What a row is called in errors.
const FORMAT: &str = "libsvm";

/// The inputs in a libsvm text.
///
/// A record is a line: a label, which is not used and may be absent; `qid:N`, which is not used either; and
/// `index:value` in any order. Values of one index are added up, as SciPy does for XGBoost's container. What no index
/// names is `missing`. A `#` begins a comment. Blank lines within the text are records without a value. A model whose
/// number of columns is open gets as many as the largest index calls for.
///
/// # Errors
/// When a word is nothing of that, or a value is not of the input's type: [`Error::InvalidRequest`]. When an
/// index is beyond the model's columns: [`Error::InvalidInput`]. All name the record, counted from 1.
pub fn decode(
    signature: &Signature,
    base: IndexBase,
    missing: MissingValue,
    body: &[u8],
    grant: &Grant,
) -> Result<Vec<NamedTensor>, Error> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let offset = error.valid_up_to();
        Error::InvalidRequest(format!("the libsvm text is not UTF-8, at byte {offset}"))
    })?;
    let mut matrix = Matrix::new(signature, FORMAT, text.len(), grant)?;
    let text = text.trim_ascii();
    let Range { smallest, largest } = range(text)?;
    let first = match base {
        IndexBase::Zero => 0,
        IndexBase::One => 1,
        IndexBase::Auto => u64::from(smallest.is_some_and(|it| it >= 1)),
    };
    let columns = matrix.width().map(|it| it as u64);
    let width = columns.unwrap_or(largest.map_or(0, |it| (it + 1).saturating_sub(first)));
    // What is wider than memory is refused by the matrix.
    let row = usize::try_from(width).unwrap_or(usize::MAX);
    expansion::hold_ports(signature, grant)?;
    let mut entries: Granted<'_, (usize, Value<'_>)> = Granted::new(grant);
    for (record, line) in records(text) {
        entries.clear();
        for pair in values(record, line) {
            let (index, value) = pair?;
            let column = index.checked_sub(first).filter(|&it| it < width).ok_or_else(|| {
                let last = (width + first).saturating_sub(1);
                let problem = format!(
                    "libsvm record {record}: index {index} is beyond the model's {width} columns, expected \
                     {first} to {last}"
                );
                Error::input(matrix.name(), problem)
            });
            entries.push((usize::try_from(column?).unwrap_or(usize::MAX), Value::Text(value)))?;
        }
        entries.sort_by_key(|it| it.0)?;
        add_up(entries.within_room()).map_err(|text| {
            in_record(record, format_args!("expected a number, found '{}'", Excerpt(text)))
        })?;
        let added = matrix.sparse(row, missing, &mut entries, |matrix, value| match value {
            Value::Text(text) => matrix.text(text),
            Value::Sum(sum) => matrix.number(*sum),
        });
        added.map_err(|it| in_record(record, it))?;
    }
    matrix.finish(FORMAT)
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'a> {
    /// As it stands in the text.
    Text(&'a str),
    /// Of several of one index.
    Sum(f64),
}

impl<'a> Value<'a> {
    /// Its number, or the text that is none.
    fn number(self) -> Result<f64, &'a str> {
        match self {
            Value::Text(text) => text.parse().map_err(|_| text),
            Value::Sum(sum) => Ok(sum),
        }
    }
}

/// One entry for each index, of entries in their order; a text that is no number where one has to be added.
fn add_up<'a>(entries: &mut Vec<(usize, Value<'a>)>) -> Result<(), &'a str> {
    let mut problem = None;
    entries.dedup_by(|later, kept| {
        if later.0 != kept.0 || problem.is_some() {
            return false;
        }
        match kept.1.number().and_then(|one| Ok(one + later.1.number()?)) {
            Ok(sum) => kept.1 = Value::Sum(sum),
            Err(it) => problem = Some(it),
        }
        true
    });
    problem.map_or(Ok(()), Err)
}

/// The records of a text without blanks around it, each with its number.
fn records(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.split('\n').filter(move |_| !text.is_empty());
    lines.enumerate().map(|(at, line)| (at + 1, line))
}

/// The smallest and the largest index of a body.
struct Range {
    smallest: Option<u64>,
    largest: Option<u64>,
}

fn range(text: &str) -> Result<Range, Error> {
    let mut range = Range { smallest: None, largest: None };
    for (record, line) in records(text) {
        for value in values(record, line) {
            let (index, _) = value?;
            range.smallest = Some(range.smallest.map_or(index, |it| it.min(index)));
            range.largest = range.largest.max(Some(index));
        }
    }
    Ok(range)
}

/// The values of a record with their indices.
fn values(record: usize, line: &str) -> impl Iterator<Item = Result<(u64, &str), Error>> {
    let line = line.split('#').next().unwrap_or_default();
    let words = line.split_ascii_whitespace().enumerate();
    let not_a_value = move |word| {
        in_record(record, format_args!("expected index:value, found '{}'", Excerpt(word)))
    };
    words.filter_map(move |(at, word)| match word.split_once(':') {
        Some(("qid", id)) if id.parse::<u64>().is_ok() => None,
        Some((index, value)) => {
            // One less than the largest number, so that there is a number of columns.
            let index = index.parse().ok().filter(|&it| it < u64::MAX);
            Some(index.map(|it| (it, value)).ok_or_else(|| not_a_value(word)))
        }
        None if at == 0 && is_number(word) => None,
        None => Some(Err(not_a_value(word))),
    })
}

fn is_number(word: &str) -> bool {
    word.parse::<f64>().is_ok()
}

fn in_record(record: usize, problem: impl std::fmt::Display) -> Error {
    Error::InvalidRequest(format!("libsvm record {record}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{model, show_inputs};
    use proptest::prelude::*;

    fn decode(
        signature: &Signature,
        base: IndexBase,
        missing: MissingValue,
        body: &[u8],
    ) -> Result<Vec<NamedTensor>, Error> {
        super::decode(signature, base, missing, body, &Grant::all(0))
    }

    #[track_caller]
    fn check_as(base: IndexBase, dims: &str, text: &str, expected: &str) {
        let signature = model(8, &[&format!("x FP32 {dims}")], &[]);
        let inputs = decode(&signature, base, MissingValue::Nan, text.as_bytes()).unwrap();
        assert_eq!(show_inputs(&inputs).trim_end(), format!("x FP32 {expected}"), "{text}");
    }

    #[track_caller]
    fn check(dims: &str, text: &str, expected: &str) {
        check_as(IndexBase::Auto, dims, text, expected);
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let signature = model(8, &["x FP32 [3]"], &[]);
        let (base, missing) = (IndexBase::Auto, MissingValue::Nan);
        let error = decode(&signature, base, missing, text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, expected, "{text}");
    }

    #[test]
    fn what_is_left_out_is_missing() {
        check("[3]", "1 0:0.5 2:-1e3\n0 1:7\n", "[2,3] [0.5,NaN,-1000.0,NaN,7.0,NaN]");
    }

    #[test]
    fn values_of_one_index_are_added_up() {
        check("[2]", "0:1 1:3 0:2.5 0:-1\n1:4", "[2,2] [2.5,3.0,NaN,4.0]");
        check("[1]", "0:1 0:nan", "[1,1] [NaN]");
    }

    #[test]
    fn to_others_than_xgboost_what_is_left_out_is_zero() {
        let signature = model(8, &["x FP32 [3]"], &[]);
        let (base, missing) = (IndexBase::Auto, MissingValue::Zero);
        let inputs = decode(&signature, base, missing, b"1 0:0.5\n0").unwrap();
        assert_eq!(show_inputs(&inputs), "x FP32 [2,3] [0.5,0.0,0.0,0.0,0.0,0.0]\n");
    }

    #[test]
    fn labels_query_ids_and_comments_are_not_values() {
        check("[2]", "+1.0 qid:3 1:2 # a comment\r\n 1:3 2:4", "[2,2] [2.0,NaN,3.0,4.0]");
        check("[2]", "0:1 1:2", "[1,2] [1.0,2.0]");
    }

    #[test]
    fn indices_begin_at_one_unless_there_is_a_zero_or_it_is_configured() {
        check("[3]", "1:1 3:3", "[1,3] [1.0,NaN,3.0]");
        check("[3]", "1:1\n0:5", "[2,3] [NaN,1.0,NaN,5.0,NaN,NaN]");
        check_as(IndexBase::Zero, "[3]", "1:1 2:2", "[1,3] [NaN,1.0,2.0]");
        check_as(IndexBase::One, "[3]", "2:2", "[1,3] [NaN,2.0,NaN]");
    }

    #[test]
    fn an_open_number_of_columns_is_that_of_the_largest_index() {
        check("[-1]", "1:1\n3:3", "[2,3] [1.0,NaN,NaN,NaN,NaN,3.0]");
    }

    #[test]
    fn a_record_without_a_value_is_a_row_of_missing_ones() {
        check("[2]", "0:1\n\n1\n1:2", "[4,2] [1.0,NaN,NaN,NaN,NaN,NaN,NaN,2.0]");
    }

    #[test]
    fn an_index_beyond_the_model_names_record_and_index() {
        let expected =
            "input 'x': libsvm record 2: index 4 is beyond the model's 3 columns, expected 1 to 3";
        refused("1:1\n4:1", expected);
        let expected =
            "input 'x': libsvm record 1: index 3 is beyond the model's 3 columns, expected 0 to 2";
        refused("0:1 3:1", expected);
        let signature = model(8, &["x FP32 [3]"], &[]);
        let error =
            decode(&signature, IndexBase::One, MissingValue::Nan, b"0:1").unwrap_err().to_string();
        assert!(
            error.ends_with("index 0 is beyond the model's 3 columns, expected 1 to 3"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_value_is_refused_with_its_record() {
        refused("1:1\n0 2:2 3", "libsvm record 2: expected index:value, found '3'");
        refused("a:1", "libsvm record 1: expected index:value, found 'a:1'");
        refused("-1:1", "libsvm record 1: expected index:value, found '-1:1'");
        refused("1:x", "libsvm record 1: expected a number for FP32, found 'x'");
        refused("1:1 1:x", "libsvm record 1: expected a number, found 'x'");
        refused("0.5 word", "libsvm record 1: expected index:value, found 'word'");
        refused(" \n", "the libsvm body has no records");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in any::<Vec<u8>>(), text in "[0-9:. #qid\\-\n]{0,40}") {
            for dims in ["[3]", "[-1]", "[]", "[0]", "[2,-1]"] {
                for rows in [0, 8] {
                    let signature = model(rows, &[&format!("x FP32 {dims}")], &[]);
                    for base in [IndexBase::Auto, IndexBase::Zero, IndexBase::One] {
                        let _ = decode(&signature, base, MissingValue::Nan, &body);
                        let _ = decode(&signature, base, MissingValue::Zero, text.as_bytes());
                    }
                }
            }
        }
    }
}
