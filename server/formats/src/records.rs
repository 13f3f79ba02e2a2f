//! Rows as objects whose keys are the columns of a table. The first one names the columns.

use backend::NamedTensor;

use crate::{
    inputs::only_input,
    json::{JsonReader, Token},
    number::Excerpt,
    table::{Table, check_columns},
};
use inference::{error::Error, grant::Grant, granted::Granted, signature::Signature};

/// The records so far.
pub struct Records<'s> {
    signature: &'s Signature,
    grant: &'s Grant,
    table: Option<Table<'s>>,
    gaps: Gaps,
    rows: usize,
}

/// What a key means that a record lacks, and the first one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gaps {
    /// A missing value.
    Missing,
    /// A mistake.
    Refused,
}

impl<'s> Records<'s> {
    /// Records that may lack keys of the first one, which are missing values then.
    pub fn with_gaps(signature: &'s Signature, grant: &'s Grant) -> Records<'s> {
        Records { signature, grant, table: None, gaps: Gaps::Missing, rows: 0 }
    }

    /// Records that all have the keys of the first one.
    pub fn whole(signature: &'s Signature, grant: &'s Grant) -> Records<'s> {
        Records { gaps: Gaps::Refused, ..Records::with_gaps(signature, grant) }
    }

    /// Reads one more record.
    ///
    /// # Errors
    /// When it is no object, has a key that the first one lacks, lacks one and must not, or a value does not fit.
    pub fn push(&mut self, reader: &mut JsonReader<'_>) -> Result<(), Error> {
        self.rows += 1;
        let record = self.rows;
        let table = match &mut self.table {
            Some(table) => table,
            none => {
                let keys = keys(self.signature, self.gaps, reader)?;
                none.insert(Table::new(self.signature, keys, self.grant)?)
            }
        };
        let start = reader.mark();
        // Records have their keys in the same order, as a rule.
        let mut next = 0;
        reader.object(|reader, key| match table.position(&key, next) {
            Some(at) => {
                next = at + 1;
                table.read_cell(at, reader)
            }
            None => {
                let key = Excerpt(&key);
                let problem = format!("record {record}: the first record has no column '{key}'");
                Err(reader.error(problem))
            }
        })?;
        if let (Gaps::Refused, Some(name)) = (self.gaps, table.absent_cell()) {
            let name = Excerpt(name);
            let problem =
                format!("record {record}: expected the keys of the first, '{name}' is missing");
            return Err(reader.error_about(&start, problem));
        }
        table.end_row()
    }

    /// The inputs; none where there are no records.
    ///
    /// # Errors
    /// When their columns do not fill the only input.
    pub fn finish(self) -> Result<Vec<NamedTensor>, Error> {
        self.table.map_or_else(|| Ok(Vec::new()), Table::finish)
    }
}

/// Keys of a record beyond the columns of the model: so many are read, to be named in an error.
const UNKNOWN: usize = 8;

/// The keys of the object at the reader, which is not read.
fn keys(
    signature: &Signature,
    gaps: Gaps,
    reader: &mut JsonReader<'_>,
) -> Result<Vec<String>, Error> {
    if reader.peek()? != Token::Object {
        return Err(reader.error("expected an object with the columns as keys"));
    }
    let known = only_input(signature).map_or(0, |it| it.labels.len());
    let most = (gaps == Gaps::Refused).then_some(known + UNKNOWN);
    let mut keys = Granted::new(reader.grant());
    let record = reader.mark();
    reader.revisit(record, |reader| {
        reader.object(|reader, key| {
            check_columns(signature, keys.len() + 1)?;
            if most == Some(keys.len()) {
                let problem = format_args!("expected the model's {known} columns, found more keys");
                return Err(reader.error(problem));
            }
            keys.push(reader.owned(key)?)?;
            reader.skip_value()
        })
    })?;
    Ok(keys.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rows::{List, read_list},
        samples::{model, show_inputs},
    };

    fn named() -> Signature {
        let mut signature = model(8, &["x FP64 [3]"], &[]);
        signature.inputs[0].labels = ["a", "b", "c"].map(str::to_owned).into();
        signature
    }

    fn read(body: &str) -> Result<String, Error> {
        let signature = named();
        let grant = Grant::all(0);
        let mut reader = JsonReader::new(body.as_bytes(), &grant)?;
        Ok(show_inputs(&read_list(&signature, &mut reader, List::RowsOrOne)?))
    }

    #[test]
    fn objects_by_the_names_of_columns_are_rows_in_the_order_of_the_model() {
        let expected = "x FP64 [2,3] [1.0,2.0,3.0,4.0,NaN,6.0]\n";
        let body = r#"[{"c": 3, "a": 1, "b": 2}, {"a": 4, "b": null, "c": 6}]"#;
        assert_eq!(read(body).unwrap(), expected);
        assert_eq!(read("[[1, 2, 3], [4, NaN, 6]]").unwrap(), expected);
        assert_eq!(read(r#"[{"x": [1, 2, 3]}, {"x": [4, NaN, 6]}]"#).unwrap(), expected);
    }

    #[test]
    fn objects_that_have_not_the_columns_of_the_model_are_refused() {
        let refused = |body: &str, part: &str| {
            let error = read(body).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(r#"[{"a": 1, "b": 2}]"#, "the columns 'c' are not there");
        refused(r#"[{"a": 1, "b": 2, "c": 3, "d": 4}]"#, "the model has no columns 'd'");
        let later = r#"[{"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 3}]"#;
        refused(later, "record 2: expected the keys of the first, 'b' is missing");
        let other = r#"[{"a": 1, "b": 2, "c": 3}, [1, 2, 3]]"#;
        refused(other, "expected an object");
        let many: Vec<String> = (0..12).map(|it| format!("\"k{it}\": 0")).collect();
        let many = format!("[{{\"a\": 0, {}}}]", many.join(", "));
        refused(&many, "expected the model's 3 columns, found more keys");
        refused(r#"[{"z": 1}]"#, "'z' is not an input");
        refused(r#"[{"a": [1], "b": 2, "c": 3}]"#, "expected one value, found an array");
    }
}
