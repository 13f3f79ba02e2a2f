//! Tables whose columns have names, as pandas writes them: each column is an input, or all of them together are the only
//! one.

use std::{borrow::Cow, collections::HashMap};

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use crate::{
    error::Error,
    protocol::{
        elements::TensorBuilder,
        json::{BytesForm, Reader, Token},
        number::Excerpt,
        rows, shapes,
    },
    signature::{Port, Signature, nearest},
};

/// Most columns of a table for which the model says no number: those that are read past are among them.
const MOST_COLUMNS: usize = 1 << 16;

/// Most cells that rows may leave out altogether. Each becomes a missing value, and takes none of the body.
const MOST_LEFT_OUT: usize = 1 << 22;

/// Names of columns that an error lists.
const MOST_SHOWN: usize = 20;

/// A table in the making.
pub(super) struct Table<'s> {
    signature: &'s Signature,
    columns: Vec<Column<'s>>,
    /// Which of them are inputs, or elements of one.
    taken: Vec<usize>,
    /// The input that all columns are the elements of, in their order; `None` where each is an input.
    whole: Option<&'s Port>,
    /// Where the columns are, once that was asked out of their order.
    places: HashMap<String, usize>,
    /// Rows that have ended.
    rows: usize,
    /// Cells that they left out.
    left_out: usize,
}

struct Column<'s> {
    name: String,
    /// `None` where no input has that name: it is read past.
    port: Option<&'s Port>,
    builder: TensorBuilder,
    /// Of one cell.
    cell: Shape,
    /// Rows that have one.
    rows: usize,
}

impl<'s> Table<'s> {
    /// A table of these columns. They are inputs by name where all required inputs are among them, and others are then
    /// read past; else they are the elements of the only input.
    ///
    /// # Errors
    /// When neither is so, there is no column, there are more than the model can take, or two have one name.
    pub(super) fn new(signature: &'s Signature, names: Vec<String>) -> Result<Table<'s>, Error> {
        if names.is_empty() {
            return Err(Error::InvalidRequest("the table has no columns".to_owned()));
        }
        check_columns(signature, names.len())?;
        if let Some(name) = twice(&names) {
            let name = Excerpt(name);
            return Err(Error::InvalidRequest(format!("two columns have the name '{name}'")));
        }
        let mut required = signature.inputs.iter().filter(|it| !it.optional);
        let by_name = required.all(|it| names.iter().any(|name| *name == *it.name))
            && names.iter().any(|it| signature.input(it).is_some());
        let whole = rows::only_input(signature).filter(|_| !by_name);
        if !by_name && whole.is_none() {
            return Err(lacking(signature, &names));
        }
        let given = names.len();
        if let Some(port) = whole.filter(|it| width(it).is_some_and(|most| most < given)) {
            let expected = signature.shape_text(port);
            let problem = format!("expected shape {expected}, the table has {given} columns");
            return Err(Error::input(&*port.name, problem));
        }
        let column = |name: String| {
            let port = whole.or_else(|| signature.input(&name));
            // The type of what is read past does not matter.
            let dtype = port.map_or(DataType::Bytes, |it| it.dtype);
            let builder = TensorBuilder::new(dtype, None);
            Column { name, port, builder, cell: Shape::default(), rows: 0 }
        };
        let columns: Vec<Column<'_>> = names.into_iter().map(column).collect();
        let taken = (0..).zip(&columns).filter(|it| it.1.port.is_some()).map(|it| it.0).collect();
        let places = HashMap::new();
        Ok(Table { signature, columns, taken, whole, places, rows: 0, left_out: 0 })
    }

    /// Where the column of that name is; most likely `next`.
    pub(super) fn position(&mut self, name: &str, next: usize) -> Option<usize> {
        if self.columns.get(next).is_some_and(|it| it.name == name) {
            return Some(next);
        }
        if self.places.is_empty() {
            let names = self.columns.iter().map(|it| it.name.clone());
            self.places = names.zip(0..).collect();
        }
        self.places.get(name).copied()
    }

    /// How many columns there are.
    pub(super) fn width(&self) -> usize {
        self.columns.len()
    }

    /// Reads the cell of this row in column `at`. `null` is a missing value: NaN for floats.
    ///
    /// # Errors
    /// With the row, counted from 1, and the column, when the value does not fit.
    pub(super) fn read_cell(&mut self, at: usize, reader: &mut Reader<'_>) -> Result<(), Error> {
        let (record, whole) = (self.rows + 1, self.whole.is_some());
        let Some(column) = self.columns.get_mut(at) else { return reader.skip_value() };
        column.read(reader, record, whole).map_err(|error| match error {
            Error::InvalidRequest(problem) => {
                let name = Excerpt(&column.name);
                Error::InvalidRequest(format!("record {record}, column '{name}': {problem}"))
            }
            other => other,
        })
    }

    /// Takes the text of this row in column `at` by `push`, which adds it to a builder.
    ///
    /// # Errors
    /// That of `push`.
    pub(super) fn push_cell(
        &mut self,
        at: usize,
        push: impl FnOnce(&mut TensorBuilder) -> Result<(), String>,
    ) -> Result<(), String> {
        let record = self.rows + 1;
        match self.columns.get_mut(at) {
            Some(column) if column.port.is_some() => {
                column.rows = record;
                push(&mut column.builder)
            }
            _ => Ok(()),
        }
    }

    /// Ends a row. Cells that it does not have are missing values.
    ///
    /// # Errors
    /// When it is one row more than the model takes, or lacks a value of a type without missing values; when too many
    /// are left out.
    pub(super) fn end_row(&mut self) -> Result<(), Error> {
        self.rows += 1;
        let rows = self.rows;
        let most = self.signature.max_batch_size;
        if self.signature.batches() && most < rows {
            let problem = format!("record {rows}: is one row more than max_batch_size {most}");
            return Err(Error::InvalidRequest(problem));
        }
        for &at in &self.taken {
            let Some(column) = self.columns.get_mut(at).filter(|it| it.rows < rows) else {
                continue;
            };
            column.push_missing().map_err(|problem| {
                let name = Excerpt(&column.name);
                Error::InvalidRequest(format!("record {rows}, column '{name}': {problem}"))
            })?;
            column.rows = rows;
            self.left_out += 1;
        }
        match self.left_out <= MOST_LEFT_OUT {
            true => Ok(()),
            false => Err(Error::InvalidRequest(format!(
                "record {rows}: the records leave out more than {MOST_LEFT_OUT} values"
            ))),
        }
    }

    /// The inputs.
    ///
    /// # Errors
    /// When there are no rows, or the columns do not fill the only input.
    pub(super) fn finish(self) -> Result<Vec<NamedTensor>, Error> {
        let Table { signature, columns, whole, rows, .. } = self;
        if rows == 0 {
            return Err(Error::InvalidRequest("the table has no rows".to_owned()));
        }
        match whole {
            Some(port) => together(signature, port, columns, rows).map(|it| vec![it]),
            None => {
                let inputs = columns.into_iter().filter_map(|it| Some((it.port?, it)));
                let input = |(port, column): (&'s Port, Column<'s>)| {
                    let cell = column.cell.dims().iter().copied();
                    let shape = std::iter::once(rows).chain(cell).collect();
                    let tensor = column.builder.finish(shape);
                    let tensor = tensor.map_err(|it| Error::input(&*port.name, it.to_string()))?;
                    let tensor = shapes::as_rows(signature, port, tensor);
                    Ok(NamedTensor { name: port.name.clone(), tensor })
                };
                inputs.map(input).collect()
            }
        }
    }
}

impl Column<'_> {
    fn read(&mut self, reader: &mut Reader<'_>, record: usize, whole: bool) -> Result<(), Error> {
        if self.port.is_none() {
            return reader.skip_value();
        }
        let start = reader.mark();
        if reader.peek()? == Token::Null {
            reader.null()?;
            self.push_missing().map_err(|problem| reader.error_about(&start, problem))?;
            self.rows = record;
            return Ok(());
        }
        let cell = reader.shaped_elements(&mut self.builder, BytesForm::TextOrBase64)?;
        if whole && !cell.dims().is_empty() {
            return Err(reader.error_about(&start, "expected one value, found an array"));
        }
        if record == 1 {
            self.cell = cell;
        } else if cell != self.cell {
            let expected = &self.cell;
            let problem = format!("expected shape {expected} as in the first row, found {cell}");
            return Err(reader.error_about(&start, problem));
        }
        self.rows = record;
        Ok(())
    }

    fn push_missing(&mut self) -> Result<(), String> {
        let dtype = self.builder.dtype();
        let float =
            matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64);
        match float && self.cell.dims().is_empty() {
            true => self.builder.push_text("NaN"),
            false => Err(format!("expected a value for {dtype}, found none")),
        }
    }
}

/// All columns as one input: their first elements, then their second ones.
fn together(
    signature: &Signature,
    port: &Port,
    columns: Vec<Column<'_>>,
    rows: usize,
) -> Result<NamedTensor, Error> {
    let width = columns.len();
    let row = shapes::flat(&port.dims, width);
    let shape: Option<Shape> = match (signature.batches(), row) {
        (true, Some(row)) => Some(std::iter::once(rows).chain(row).collect()),
        (false, Some(row)) if rows == 1 => Some(Shape::new(&row)),
        (false, _) if shapes::fits(&port.dims, &[rows, width]) => Some(Shape::new(&[rows, width])),
        (false, _) if width == 1 && shapes::fits(&port.dims, &[rows]) => Some(Shape::new(&[rows])),
        _ => None,
    };
    let Some(shape) = shape else {
        let expected = signature.shape_text(port);
        let problem = format!("expected shape {expected}, the table has [{rows},{width}]");
        return Err(Error::input(&*port.name, problem));
    };
    let list = |builder: TensorBuilder| builder.finish(Shape::new(&[rows]));
    let lists: Result<Vec<Tensor>, _> = columns.into_iter().map(|it| list(it.builder)).collect();
    let problem = |it: backend::SizeMismatch| Error::input(&*port.name, it.to_string());
    let data = interleaved(port.dtype, &lists.map_err(problem)?, rows);
    let tensor = Tensor::new(port.dtype, shape, data).map_err(problem)?;
    Ok(NamedTensor { name: port.name.clone(), tensor })
}

/// One element of each list after the other, row by row.
fn interleaved(dtype: DataType, lists: &[Tensor], rows: usize) -> Bytes {
    let mut data = Vec::with_capacity(lists.iter().map(Tensor::byte_len).sum());
    match dtype.size() {
        Some(size) => {
            let lists: Vec<Bytes> = lists.iter().map(Tensor::to_bytes).collect();
            for row in 0..rows {
                for list in &lists {
                    let element = list.get(row * size..(row + 1) * size);
                    data.extend_from_slice(element.unwrap_or_default());
                }
            }
        }
        None => {
            let mut lists: Vec<_> = lists.iter().map(Tensor::strings).collect();
            for _ in 0..rows {
                for text in lists.iter_mut().filter_map(Iterator::next) {
                    data.extend_from_slice(&backend::encode_strings([text]));
                }
            }
        }
    }
    data.into()
}

/// That a table for this model may have so many columns, of whatever names: for who counts them before they have any.
///
/// # Errors
/// When they are too many.
pub(super) fn check_columns(signature: &Signature, columns: usize) -> Result<(), Error> {
    let only = rows::only_input(signature).and_then(width);
    let most = only.map_or(MOST_COLUMNS, |it| it.max(MOST_COLUMNS));
    if columns <= most {
        return Ok(());
    }
    let problem = format!("the table has more columns than the {most} that are taken");
    Err(Error::InvalidRequest(problem))
}

/// Most columns that one input can be given as: all its elements in one row. `None` where that is open.
fn width(port: &Port) -> Option<usize> {
    port.dims.iter().try_fold(1usize, |product, it| product.checked_mul((*it)?))
}

fn lacking(signature: &Signature, names: &[String]) -> Error {
    let given = names.iter().take(MOST_SHOWN).map(|it| format!("'{}'", Excerpt(it)));
    let given = given.collect::<Vec<_>>();
    let mut missing = signature.inputs.iter().filter(|it| !it.optional);
    let missing = missing.find(|it| !names.iter().any(|name| *name == *it.name));
    let hint = missing.and_then(|it| {
        let nearest = nearest(&it.name, names.iter().map(String::as_str))?;
        Some(format!("; is '{}' meant for '{}'?", Excerpt(nearest), it.name))
    });
    Error::InvalidRequest(format!(
        "expected columns with the names of the model's inputs ({}), found {}{}",
        rows::names_of(signature),
        given.join(", ") + if names.len() > MOST_SHOWN { ", .." } else { "" },
        hint.unwrap_or_default()
    ))
}

/// A name that occurs more than once.
fn twice(names: &[String]) -> Option<&str> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.windows(2).find_map(|it| match it {
        [one, other] if one == other => Some(*one),
        _ => None,
    })
}

/// The name of a column, which pandas may have numbered.
///
/// # Errors
/// When it is neither a string nor an integer.
pub(super) fn column_name(reader: &mut Reader<'_>) -> Result<String, Error> {
    match reader.peek()? {
        Token::Number => Ok(reader.number::<i64>()?.to_string()),
        _ => reader.string().map(Cow::into_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::samples::{model, show_inputs};

    /// Reads rows of cells into a table of these columns.
    fn read(signature: &Signature, names: &[&str], rows: &str) -> Result<String, Error> {
        let mut table = Table::new(signature, names.iter().map(|it| (*it).to_owned()).collect())?;
        Reader::document(rows.as_bytes(), |reader| {
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
        let mut table = Table::new(&signature, names).unwrap();
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
}
