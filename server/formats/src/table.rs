//! Tables whose columns have names, as pandas writes them: each column is an input, or all of them together are the
//! only one.

mod names;

use std::collections::HashMap;

use backend::{DataType, NamedTensor, Shape, Tensor};
use bytes::Bytes;

use crate::{
    elements::{ElementError, TensorBuilder},
    expansion::MOST_CELLS,
    inputs,
    json::{BytesForm, JsonReader, Token},
    number::Excerpt,
    shapes,
};
use inference::{
    error::Error,
    grant::Grant,
    signature::{Port, Signature},
};

/// Most columns of a table for which the model says no number: those that are read past are among them.
const MOST_COLUMNS: usize = 1 << 16;

/// Bytes that a column takes beside its name and its elements: where it is, its builder, its part of the only input.
const COLUMN: usize = 768;

/// A table in the making.
pub struct Table<'s> {
    signature: &'s Signature,
    grant: &'s Grant,
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
    builder: TensorBuilder<'s>,
    /// Of one cell.
    cell: Shape,
    /// Rows that have one.
    rows: usize,
    /// Which element of the only input it is, from the first.
    place: usize,
}

impl<'s> Table<'s> {
    /// A table of these columns. They are inputs by name where all required inputs are among them, and others are then
    /// read past; else they are the elements of the only input: by name where one of its columns has such a name, else
    /// in their order.
    ///
    /// # Errors
    /// When neither is so, there is no column, there are more than the model can take, or two have one name. Where
    /// columns have the names of the only input's: when one has not, or one of the input's is not there.
    pub fn new(
        signature: &'s Signature,
        names: Vec<String>,
        grant: &'s Grant,
    ) -> Result<Table<'s>, Error> {
        if names.is_empty() {
            return Err(Error::InvalidRequest("the table has no columns".to_owned()));
        }
        check_columns(signature, names.len())?;
        // Where the columns are is kept by their names, too.
        let texts = names.iter().map(String::len).fold(0, usize::saturating_add);
        grant.hold(names.len().saturating_mul(COLUMN).saturating_add(texts))?;
        if let Some(name) = names::twice(&names) {
            let name = Excerpt(name);
            return Err(Error::InvalidRequest(format!("two columns have the name '{name}'")));
        }
        let mut required = signature.inputs.iter().filter(|it| !it.optional);
        let by_name = required.all(|it| names.iter().any(|name| *name == *it.name))
            && names.iter().any(|it| signature.input(it).is_some());
        let whole = inputs::only_input(signature).filter(|_| !by_name);
        if !by_name && whole.is_none() {
            return Err(names::lacking(signature, &names));
        }
        let places = whole.map(|it| names::places(it, &names)).transpose()?.flatten();
        let given = names.len();
        if let Some(port) = whole.filter(|it| it.elements().is_some_and(|most| most < given)) {
            let expected = signature.shape_text(port);
            let problem = format!("expected shape {expected}, the table has {given} columns");
            return Err(Error::input(&*port.name, problem));
        }
        let column = |(at, name): (usize, String)| {
            let place = places.as_ref().map_or(at, |it| it[at]);
            let port = whole.or_else(|| signature.input(&name));
            let builder = match port {
                // The type of what is read past does not matter.
                None => TensorBuilder::new(DataType::Bytes, None, grant),
                Some(port) if whole.is_some() => TensorBuilder::of_element(port, place, grant),
                Some(port) => TensorBuilder::of(port, None, grant),
            };
            Column { name, port, builder, cell: Shape::default(), rows: 0, place }
        };
        let columns: Vec<Column<'_>> = names.into_iter().enumerate().map(column).collect();
        let taken = (0..).zip(&columns).filter(|it| it.1.port.is_some()).map(|it| it.0).collect();
        let places = HashMap::new();
        Ok(Table { signature, grant, columns, taken, whole, places, rows: 0, left_out: 0 })
    }

    /// Where the column of that name is; most likely `next`.
    pub fn position(&mut self, name: &str, next: usize) -> Option<usize> {
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
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Reads the cell of this row in column `at`. `null` is a missing value: NaN for floats.
    ///
    /// # Errors
    /// With the row, counted from 1, and the column, when the value does not fit.
    pub fn read_cell(&mut self, at: usize, reader: &mut JsonReader<'_>) -> Result<(), Error> {
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
    pub fn push_cell(
        &mut self,
        at: usize,
        push: impl FnOnce(&mut TensorBuilder<'s>) -> Result<(), ElementError>,
    ) -> Result<(), ElementError> {
        let record = self.rows + 1;
        match self.columns.get_mut(at) {
            Some(column) if column.port.is_some() => {
                column.rows = record;
                push(&mut column.builder)
            }
            _ => Ok(()),
        }
    }

    /// The first column without a cell in this row.
    pub fn absent_cell(&self) -> Option<&str> {
        let mut columns = self.taken.iter().filter_map(|at| self.columns.get(*at));
        columns.find(|it| it.rows <= self.rows).map(|it| &*it.name)
    }

    /// Ends a row. Cells that it does not have are missing values.
    ///
    /// # Errors
    /// When it is one row more than the model takes, or lacks a value of a type without missing values; when too many
    /// are left out.
    pub fn end_row(&mut self) -> Result<(), Error> {
        self.rows += 1;
        let rows = self.rows;
        let most = self.signature.most_rows.filter(|_| self.signature.batches());
        if let Some(most) = most.filter(|it| *it < rows) {
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
        match self.left_out <= MOST_CELLS {
            true => Ok(()),
            false => Err(Error::InvalidRequest(format!(
                "record {rows}: the records leave out more than {MOST_CELLS} values"
            ))),
        }
    }

    /// The inputs.
    ///
    /// # Errors
    /// When there are no rows, or the columns do not fill the only input.
    pub fn finish(self) -> Result<Vec<NamedTensor>, Error> {
        let Table { signature, grant, mut columns, whole, rows, .. } = self;
        if rows == 0 {
            return Err(Error::InvalidRequest("the table has no rows".to_owned()));
        }
        match whole {
            Some(port) => {
                columns.sort_unstable_by_key(|it| it.place);
                together(signature, port, columns, rows, grant).map(|it| vec![it])
            }
            None => {
                let inputs = columns.into_iter().filter_map(|it| Some((it.port?, it)));
                let input = |(port, column): (&'s Port, Column<'s>)| {
                    let cell = column.cell.dims().iter().copied();
                    let shape = std::iter::once(rows).chain(cell).collect();
                    let NamedTensor { name, tensor } = column.builder.finish_input(port, shape)?;
                    Ok(NamedTensor { name, tensor: shapes::as_rows(signature, port, tensor) })
                };
                inputs.map(input).collect()
            }
        }
    }
}

impl Column<'_> {
    fn read(
        &mut self,
        reader: &mut JsonReader<'_>,
        record: usize,
        whole: bool,
    ) -> Result<(), Error> {
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

    fn push_missing(&mut self) -> Result<(), ElementError> {
        let dtype = self.builder.dtype();
        let float =
            matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64);
        match float && self.cell.dims().is_empty() {
            true => self.builder.push_text("NaN"),
            false => Err(ElementError::Missing(dtype)),
        }
    }
}

/// All columns as one input: their first elements, then their second ones.
fn together(
    signature: &Signature,
    port: &Port,
    columns: Vec<Column<'_>>,
    rows: usize,
    grant: &Grant,
) -> Result<NamedTensor, Error> {
    let width = columns.len();
    let row = shapes::flat(&port.dims, width);
    let shape: Option<Shape> = match (signature.batches(), row) {
        (true, Some(row)) => Some(std::iter::once(rows).chain(row).collect()),
        (false, _) if port.any_rank => Some(Shape::new(&[rows, width])),
        (false, Some(row)) if rows == 1 => Some(Shape::new(&row)),
        (false, _) if port.takes(&[rows, width]) => Some(Shape::new(&[rows, width])),
        (false, _) if width == 1 && port.takes(&[rows]) => Some(Shape::new(&[rows])),
        _ => None,
    };
    let Some(shape) = shape else {
        let expected = signature.shape_text(port);
        let problem = format!("expected shape {expected}, the table has [{rows},{width}]");
        return Err(Error::input(&*port.name, problem));
    };
    let list = |builder: TensorBuilder<'_>| builder.finish(Shape::new(&[rows]));
    let lists: Result<Vec<Tensor>, _> = columns.into_iter().map(|it| list(it.builder)).collect();
    let problem = |it: backend::SizeMismatch| Error::input(&*port.name, it);
    let lists = lists.map_err(problem)?;
    grant.hold(lists.iter().map(Tensor::byte_len).fold(0, usize::saturating_add))?;
    let data = interleaved(port.dtype, &lists, rows);
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
pub fn check_columns(signature: &Signature, columns: usize) -> Result<(), Error> {
    let most = most_columns(signature);
    if columns <= most {
        return Ok(());
    }
    let problem = format!("the table has more columns than the {most} that are taken");
    Err(Error::InvalidRequest(problem))
}

fn most_columns(signature: &Signature) -> usize {
    let only = inputs::only_input(signature).and_then(Port::elements);
    only.map_or(MOST_COLUMNS, |it| it.max(MOST_COLUMNS))
}

/// The name of a column, which pandas may have numbered.
///
/// # Errors
/// When it is neither a string nor an integer.
pub fn column_name(reader: &mut JsonReader<'_>) -> Result<String, Error> {
    match reader.peek()? {
        Token::Number => Ok(reader.number::<i64>()?.to_string()),
        _ => {
            let name = reader.string()?;
            reader.owned(name)
        }
    }
}

#[cfg(test)]
mod tests;
