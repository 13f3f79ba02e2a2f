//! What MLflow's image takes: tables as pandas writes them, or tensors, and parameters beside them. Source:
//! <https://mlflow.org/docs/latest/genai/serving/>.

use super::{Decoded, ReplyFormat};
use formats::{
    expansion,
    json::JsonReader,
    records::Records,
    rows::{self, List},
    table::{Table, check_columns, column_name},
};
use inference::{error::Error, grant::Grant, granted::Granted, signature::Signature};

/// The keys of which a body has exactly one.
const KEYS: [&str; 4] = ["dataframe_split", "dataframe_records", "instances", "inputs"];

/// The inputs in a body that has one of [`KEYS`], and perhaps `params`.
///
/// # Errors
/// When it has several of them; when the table or the tensors do not fit the model, with row and column.
pub(super) fn decode(signature: &Signature, body: &[u8], grant: &Grant) -> Result<Decoded, Error> {
    expansion::hold_ports(signature, grant)?;
    let mut found: Option<(String, _)> = None;
    JsonReader::document(body, grant, |reader| {
        reader.takes_missing(signature.takes_missing);
        reader.object(|reader, key| {
            if !KEYS.contains(&&*key) {
                return reader.skip_value();
            }
            if let Some((first, _)) = &found {
                let keys = KEYS.join("', '");
                let problem = format!("expected one of '{keys}', found both '{first}' and '{key}'");
                return Err(Error::InvalidRequest(problem));
            }
            let inputs = match &*key {
                "dataframe_split" => split(signature, reader),
                "dataframe_records" => records(signature, reader),
                "instances" => rows::read_list(signature, reader, List::Rows),
                _ => rows::read_columns(signature, reader),
            }?;
            found = Some((reader.owned(key)?, inputs));
            Ok(())
        })
    })?;
    let (_, inputs) = found.ok_or_else(|| {
        Error::InvalidRequest(format!("expected one of the keys '{}'", KEYS.join("', '")))
    })?;
    Ok(Decoded::stated(inputs, ReplyFormat::Rows))
}

type Inputs = Vec<backend::NamedTensor>;

/// `{"columns": [..], "index"?: [..], "data": [[..], ..]}`, the keys in any order.
fn split(signature: &Signature, reader: &mut JsonReader<'_>) -> Result<Inputs, Error> {
    let (mut names, mut data) = (None, None);
    reader.object(|reader, key| match &*key {
        "columns" => {
            let mut list = Granted::new(reader.grant());
            reader.array(|reader, at| {
                check_columns(signature, at + 1)?;
                list.push(column_name(reader)?)
            })?;
            names = Some(list.into_vec());
            Ok(())
        }
        "data" => {
            data = Some(reader.mark());
            reader.skip_value()
        }
        _ => reader.skip_value(),
    })?;
    let data = data.ok_or_else(|| reader.error("expected the key 'data', found none"))?;
    reader.revisit(data, |reader| {
        let grant = reader.grant();
        let mut table = names.map(|names| Table::new(signature, names, grant)).transpose()?;
        reader.array(|reader, record| {
            let table = match &mut table {
                Some(table) => table,
                none => none.insert(Table::new(signature, numbered(signature, reader)?, grant)?),
            };
            let mut width = 0;
            let start = reader.mark();
            reader.array(|reader, at| {
                width = at + 1;
                table.read_cell(at, reader)
            })?;
            if width != table.width() {
                let expected = table.width();
                let problem =
                    format!("record {}: expected {expected} values, found {width}", record + 1);
                return Err(reader.error_about(&start, problem));
            }
            table.end_row()
        })?;
        match table {
            Some(table) => table.finish(),
            None => Err(reader.error("expected at least one row, found none")),
        }
    })
}

/// Names for the columns of a table that gives none, by the length of the row at the reader.
fn numbered(signature: &Signature, reader: &mut JsonReader<'_>) -> Result<Vec<String>, Error> {
    let mut width = 0;
    let row = reader.mark();
    reader.revisit(row, |reader| {
        reader.array(|reader, at| {
            width = at + 1;
            check_columns(signature, width)?;
            reader.skip_value()
        })
    })?;
    // A number has no more digits than a text has bytes in front of its heap.
    reader.grant().hold(width.saturating_mul(2 * size_of::<String>()))?;
    Ok((0..width).map(|it| it.to_string()).collect())
}

/// `[{"column": value, ..}, ..]`. The first record names the columns.
fn records(signature: &Signature, reader: &mut JsonReader<'_>) -> Result<Inputs, Error> {
    let mut records = Records::with_gaps(signature, reader.grant());
    let mut is_empty = true;
    reader.array(|reader, _| {
        is_empty = false;
        records.push(reader)
    })?;
    match is_empty {
        true => Err(reader.error("expected at least one record, found none")),
        false => records.finish(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples::{model, show_inputs};

    fn decode(signature: &Signature, body: &[u8]) -> Result<Decoded, Error> {
        super::decode(signature, body, &Grant::all(0))
    }

    fn read(body: &str) -> Result<String, Error> {
        let signature = model(8, &["a FP32 []", "b INT64 [1]"], &["y FP32 []"]);
        decode(&signature, body.as_bytes()).map(|it| show_inputs(&it.inputs))
    }

    const TWO: &str = "a FP32 [2] [1.5,2.0]\nb INT64 [2,1] [3,4]\n";

    #[test]
    fn a_table_is_rows_under_columns_or_records() {
        let split = r#"{"dataframe_split": {"columns": ["a", "b"], "index": [0, 1], "data": [[1.5, 3], [2, 4]]}}"#;
        assert_eq!(read(split).unwrap(), TWO);
        let before = r#"{"params": {"x": [1]}, "dataframe_split": {"data": [[1.5, 3], [2, 4]], "columns": ["a", "b"]}}"#;
        assert_eq!(read(before).unwrap(), TWO);
        let records = r#"{"dataframe_records": [{"a": 1.5, "b": 3}, {"b": 4, "a": 2}]}"#;
        assert_eq!(read(records).unwrap(), TWO);
    }

    #[test]
    fn a_table_without_names_is_the_only_input() {
        let signature = model(8, &["x FP32 [2]"], &["y FP32 []"]);
        for body in [
            r#"{"dataframe_split": {"data": [[1, 2], [3, 4]]}}"#,
            r#"{"dataframe_split": {"columns": [0, 1], "data": [[1, 2], [3, 4]]}}"#,
            r#"{"instances": [[1, 2], [3, 4]]}"#,
            r#"{"inputs": {"x": [[1, 2], [3, 4]]}, "params": {}}"#,
        ] {
            let decoded = decode(&signature, body.as_bytes()).unwrap();
            assert_eq!(show_inputs(&decoded.inputs), "x FP32 [2,2] [1.0,2.0,3.0,4.0]\n", "{body}");
            assert_eq!(decoded.json_reply, ReplyFormat::Rows);
        }
    }

    #[test]
    fn records_have_many_columns_in_any_order() {
        let signature = model(8, &["x FP32 [-1]"], &["y FP32 []"]);
        let record = |keys: &mut dyn Iterator<Item = usize>| {
            let cells: Vec<String> = keys.map(|it| format!("\"{it}\":1")).collect();
            format!("{{{}}}", cells.join(","))
        };
        let (there, back) = (record(&mut (0..1000)), record(&mut (0..1000).rev()));
        let body = format!("{{\"dataframe_records\":[{there},{back}]}}");
        let decoded = decode(&signature, body.as_bytes()).unwrap();
        assert_eq!(decoded.inputs[0].tensor.shape().dims(), [2, 1000]);
        for body in [
            format!("{{\"dataframe_records\":[{}]}}", record(&mut (0..70_000))),
            format!("{{\"dataframe_split\":{{\"data\":[[{}]]}}}}", vec!["1"; 70_000].join(",")),
            format!(
                "{{\"dataframe_split\":{{\"columns\":[{}],\"data\":[]}}}}",
                vec!["1"; 70_000].join(",")
            ),
        ] {
            let error = decode(&signature, body.as_bytes()).err().unwrap().to_string();
            assert!(error.contains("more columns than the 65536"), "{error}");
        }
    }

    #[test]
    fn mistakes_are_found_with_their_record_and_column() {
        let refused = |body: &str, part: &str| {
            let error = read(body).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        let value = r#"{"dataframe_split": {"columns": ["a", "b"], "data": [[1, 3], ["x", 4]]}}"#;
        refused(value, "record 2, column 'a': dataframe_split.data[1][0]: expected a number");
        let short = r#"{"dataframe_split": {"columns": ["a", "b"], "data": [[1]]}}"#;
        refused(short, "record 1: expected 2 values, found 1");
        let key = r#"{"dataframe_records": [{"a": 1, "b": 3}, {"a": 1, "c": 3}]}"#;
        refused(key, "record 2: the first record has no column 'c'");
        let long = key.replace(r#""c""#, &format!(r#""{}""#, "c".repeat(1000)));
        let shown = format!("no column '{}...'", "c".repeat(40));
        refused(&long, &shown);
        refused(r#"{"dataframe_records": []}"#, "expected at least one record");
        refused(r#"{"dataframe_split": {"columns": ["a"]}}"#, "expected the key 'data'");
        refused(r#"{"instances": [{"a": 1, "b": 2}], "inputs": 1}"#, "found both 'instances' and");
        refused(r#"{"dataframe_split": {"data": []}}"#, "at least one row");
        refused("{}", "expected one of the keys");
    }
}
