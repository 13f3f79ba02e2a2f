//! Facts about tables, and about what is wrong with them.

use super::*;
use crate::samples::{grant, model, show_inputs};

/// Reads rows of cells into a table of these columns.
fn read(signature: &Signature, names: &[&str], rows: &str) -> Result<String, Error> {
    let mut table =
        Table::new(signature, names.iter().map(|it| (*it).to_owned()).collect(), grant())?;
    JsonReader::document(rows.as_bytes(), grant(), |reader| {
        reader.array(|reader, _| {
            reader.array(|reader, at| table.read_cell(at, reader))?;
            table.end_row()
        })
    })?;
    Ok(show_inputs(&table.finish()?))
}

#[track_caller]
fn check(signature: &Signature, names: &[&str], rows: &str, expected: &str) {
    assert_eq!(read(signature, names, rows).map_err(|it| it.to_string()), Ok(expected.into()));
}

#[track_caller]
fn refused(signature: &Signature, names: &[&str], rows: &str, part: &str) {
    let error = read(signature, names, rows).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn a_table_has_no_more_columns_than_the_model_can_take() {
    let names: Vec<String> = (0..=MOST_COLUMNS).map(|it| it.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let three = model(8, &["x FP32 [3]"], &[]);
    refused(&three, &names[..4], "[]", "expected shape [-1,3], the table has 4 columns");
    let open = model(8, &["x FP32 [-1]"], &[]);
    refused(&open, &names, "[]", "more columns than the 65536 that are taken");
    let wide = model(8, &["x FP32 [65537]"], &[]);
    refused(&wide, &names, "[]", "no rows");
}

#[test]
fn a_column_is_found_in_its_place_or_in_a_map() {
    let signature = model(8, &["x FP32 [-1]"], &[]);
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    let mut table = Table::new(&signature, names, grant()).unwrap();
    assert_eq!((table.position("b", 1), table.places.len()), (Some(1), 0));
    assert_eq!((table.position("c", 0), table.places.len()), (Some(2), 3));
    assert_eq!(table.position("d", 3), None);
}

#[test]
fn rows_that_leave_out_their_cells_do_not_fill_the_memory() {
    let rows = format!("[{}]", ["[1]"; 9].join(","));
    let batch = model(8, &["x FP32 [3]"], &[]);
    refused(&batch, &["a", "b", "c"], &rows, "record 9: is one row more than max_batch_size 8");
    let matrix = model(0, &["x FP32 [-1,60000]"], &[]);
    let names: Vec<String> = (0..60_000).map(|it| it.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rows = format!("[{}]", vec!["[]"; 100].join(","));
    refused(&matrix, &names, &rows, "leave out more than 4194304 values");
}

#[test]
fn columns_are_inputs_by_name_in_any_order_and_others_are_read_past() {
    let signature = model(8, &["a FP32 []", "b BYTES [1]", "c? INT64 [1]"], &[]);
    let rows = r#"[["x", {"any": [1]}, 1.5], ["y", null, null]]"#;
    let expected = "b BYTES [2,1] [\"x\",\"y\"]\na FP32 [2] [1.5,NaN]\n";
    check(&signature, &["b", "other", "a"], rows, expected);
    refused(&signature, &["B", "a"], "[]", "is 'B' meant for 'b'?");
    refused(&signature, &["a", "a"], "[]", "two columns have the name 'a'");
    refused(&signature, &[], "[]", "no columns");
    let many: Vec<String> = (0..100).map(|it| format!("n{it}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    refused(&signature, &many, "[]", "'n18', 'n19', ..");
    refused(&signature, &["a", "b"], "[]", "no rows");
}

#[test]
fn columns_of_other_names_are_the_elements_of_the_only_input() {
    let rows = "[[1,2,3],[4,null,6]]";
    let expected = "x FP32 [2,3] [1.0,2.0,3.0,4.0,NaN,6.0]\n";
    for signature in [model(8, &["x FP32 [3]"], &[]), model(0, &["x FP32 [-1,3]"], &[])] {
        check(&signature, &["p", "q", "r"], rows, expected);
    }
    let narrow = model(8, &["x FP32 [2]"], &[]);
    refused(&narrow, &["p", "q", "r"], rows, "expected shape [-1,2], the table has 3 columns");
    let texts = model(8, &["x BYTES [2]"], &[]);
    let expected = "x BYTES [2,2] [\"a\",\"b\",\"c\",\"\"]\n";
    check(&texts, &["p", "q"], r#"[["a","b"],["c",""]]"#, expected);
    refused(&narrow, &["p", "q"], "[[1,[2]]]", "record 1, column 'q': [0][1]: expected one");
}

/// A model of one row of numbers with these names.
fn named(input: &str, names: &[&str]) -> Signature {
    let mut signature = model(8, &[input], &[]);
    signature.inputs[0].labels = names.iter().map(|it| (*it).to_owned()).collect();
    signature
}

#[test]
fn columns_with_the_names_of_the_only_inputs_are_put_in_its_order() {
    let signature = named("x FP32 [3]", &["p", "q", "r"]);
    let expected = "x FP32 [2,3] [1.0,2.0,3.0,4.0,NaN,6.0]\n";
    check(&signature, &["p", "q", "r"], "[[1,2,3],[4,null,6]]", expected);
    check(&signature, &["r", "p", "q"], "[[3,1,2],[6,4,null]]", expected);
    // Where no name is one of the model's, the order is.
    check(&signature, &["a", "b", "c"], "[[1,2,3],[4,null,6]]", expected);
    check(&signature, &["P", "0", "x_2"], "[[1,2,3],[4,null,6]]", expected);
    let texts = named("x BYTES [2]", &["p", "q"]);
    check(&texts, &["q", "p"], r#"[["b","a"]]"#, "x BYTES [1,2] [\"a\",\"b\"]\n");
}

#[test]
fn columns_that_are_not_all_those_of_the_only_input_are_refused_by_name() {
    let signature = named("x FP32 [3]", &["age", "income", "rate"]);
    let unknown = "input 'x': the model has no columns 'incomes'; its columns are 'age', 'income', 'rate'; \
                   is 'incomes' meant for 'income'?";
    refused(&signature, &["rate", "age", "incomes"], "[]", unknown);
    let missing = "input 'x': the columns 'income', 'rate' are not there; the model's are 'age', 'income', 'rate'";
    refused(&signature, &["age"], "[]", missing);
    let names: Vec<String> = (0..100).map(|it| format!("n{it}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let wide = named("x FP32 [100]", &names);
    refused(&wide, &["n0"], "[]", "'n20', .. are not there");
}

#[test]
fn a_cell_may_be_an_array_where_its_column_is_an_input() {
    let signature = model(8, &["a FP32 [2]", "b INT64 [1]"], &[]);
    let rows = "[[[1,2],7],[[3,4],8]]";
    let expected = "a FP32 [2,2] [1.0,2.0,3.0,4.0]\nb INT64 [2,1] [7,8]\n";
    check(&signature, &["a", "b"], rows, expected);
    let problem = "record 2, column 'a': [1][0]: expected shape [2] as in the first row";
    refused(&signature, &["a", "b"], "[[[1,2],7],[[3],8]]", problem);
    refused(&signature, &["a", "b"], "[[[1,2],null]]", "column 'b': [0][1]: expected a value");
    refused(&signature, &["a", "b"], "[[[1,2]]]", "record 1, column 'b': expected a value");
}
