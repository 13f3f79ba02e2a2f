//! Inputs in JSON without a schema of their own: lists of rows, and values by the names of inputs. The
//! nesting of an array is its shape.

use std::borrow::Cow;

use backend::{DataType, NamedTensor, Shape};

use crate::{
    elements::TensorBuilder,
    inputs::{is_column, names_of, only_input},
    json::{BytesForm, JsonReader, Mark, Token},
    number::Excerpt,
    records::Records,
    shapes,
};
use inference::{
    error::Error,
    grant::Grant,
    signature::{Port, Signature, nearest},
};

/// What a list of values may stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Its elements are rows.
    Rows,
    /// Its elements are rows, unless it has the shape of one row itself.
    RowsOrOne,
}

/// Reads a list of rows: objects keyed by the names of inputs or of columns, or the values of the only input.
///
/// # Errors
/// When there is none; when rows differ in their keys or in the shape of one input; when an element is not
/// of its input's type. Each names the place.
pub fn read_list(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
    list: List,
) -> Result<Vec<NamedTensor>, Error> {
    let start = reader.mark();
    let first = first_item(reader, &start)?;
    let values = match (first, only_input(signature)) {
        (Some(first), Some(port)) if !is_named(reader, &first, port)? => port,
        (None, _) => return Err(reader.error("expected at least one row, found none")),
        _ => {
            let mut rows = RowBuilder::new(signature, reader.grant());
            reader.array(|reader, _| rows.push(reader))?;
            return rows.finish();
        }
    };
    // In one go: a call per row would cost more than the elements, where these are scalars.
    let mut builder = TensorBuilder::of(values, None, reader.grant());
    let shape = reader.shaped_elements(&mut builder, form_of(signature, values))?;
    let tensor = builder.finish_input(values, shape)?;
    let shaped = match list {
        List::Rows => shapes::as_rows(signature, values, tensor.tensor),
        List::RowsOrOne => shapes::as_rows_or_one(signature, values, tensor.tensor),
    };
    Ok(vec![NamedTensor { tensor: shaped, ..tensor }])
}

/// Reads whole inputs: an object keyed by their names, or the value of the only one.
///
/// # Errors
/// When an element is not of its input's type, or a key is not an input.
pub fn read_columns(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
) -> Result<Vec<NamedTensor>, Error> {
    let start = reader.mark();
    let named = match only_input(signature) {
        Some(port) => is_named(reader, &start, port)?,
        None => true,
    };
    let mut columns = match (named, only_input(signature)) {
        (false, Some(port)) => vec![(port, read_value(signature, port, reader)?)],
        _ => read_named(signature, reader)?,
    };
    for (port, column) in &mut columns {
        column.tensor = shapes::as_rows(signature, port, column.tensor.clone());
    }
    Ok(columns.into_iter().map(|(_, column)| column).collect())
}

/// Reads an object keyed by the names of inputs that is one row, unless only a batch of rows fits; or one keyed by the
/// names of columns, which is one row.
///
/// # Errors
/// Those of [`read_columns`].
pub fn read_row_or_columns(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
) -> Result<Vec<NamedTensor>, Error> {
    if names_columns(signature, reader)? {
        let mut rows = RowBuilder::new(signature, reader.grant());
        rows.push(reader)?;
        return rows.finish();
    }
    let columns = read_named(signature, reader)?;
    let one_row = |(port, column): &(&Port, NamedTensor)| {
        let tensor = shapes::as_one_row(signature, port, &column.tensor)?;
        Some(NamedTensor { name: column.name.clone(), tensor })
    };
    let as_rows = |(port, column): &(&Port, NamedTensor)| {
        let tensor = shapes::as_rows(signature, port, column.tensor.clone());
        NamedTensor { name: column.name.clone(), tensor }
    };
    let row: Option<Vec<NamedTensor>> = columns.iter().map(one_row).collect();
    Ok(row.unwrap_or_else(|| columns.iter().map(as_rows).collect()))
}

/// Gathers rows one after another.
pub struct RowBuilder<'s> {
    signature: &'s Signature,
    grant: &'s Grant,
    /// Another name of the only input, where no input has it.
    name: Option<&'static str>,
    /// The inputs of the first row, in its order.
    columns: Vec<Column<'s>>,
    /// The rows, where the keys of the first one are names of columns.
    records: Option<Records<'s>>,
    rows: usize,
}

struct Column<'s> {
    port: &'s Port,
    builder: TensorBuilder<'s>,
    /// Of one row.
    shape: Shape,
    /// Rows that have it.
    rows: usize,
}

impl<'s> RowBuilder<'s> {
    /// No row yet.
    pub fn new(signature: &'s Signature, grant: &'s Grant) -> RowBuilder<'s> {
        RowBuilder { signature, grant, name: None, columns: Vec::new(), records: None, rows: 0 }
    }

    /// One for rows in which the only input may have another name.
    pub fn named(signature: &'s Signature, name: &'static str, grant: &'s Grant) -> RowBuilder<'s> {
        RowBuilder { name: Some(name), ..RowBuilder::new(signature, grant) }
    }

    /// Reads one more row.
    ///
    /// # Errors
    /// When it is unlike the first row, or an element is not of its input's type.
    pub fn push(&mut self, reader: &mut JsonReader<'_>) -> Result<(), Error> {
        if self.rows == 0 && names_columns(self.signature, reader)? {
            self.records = Some(Records::whole(self.signature, self.grant));
        }
        if let Some(records) = &mut self.records {
            self.rows += 1;
            return records.push(reader);
        }
        let start = reader.mark();
        match only_input(self.signature) {
            Some(port) if !is_named(reader, &start, port)? => self.push_value(port, reader)?,
            _ if reader.peek()? == Token::Object => {
                reader.object(|reader, key| {
                    let other = only_input(self.signature).filter(|_| {
                        self.name == Some(&*key) && self.signature.input(&key).is_none()
                    });
                    let port = other.map_or_else(|| input(self.signature, reader, &key), Ok)?;
                    self.push_value(port, reader)
                })?;
            }
            _ => return Err(reader.error(needs_names(self.signature))),
        }
        self.rows += 1;
        // Keys that the first row lacks were refused in `push_value`.
        match self.columns.iter().find(|it| it.rows < self.rows) {
            Some(column) => {
                let name = &column.port.name;
                let problem = format!("expected the keys of the first row, '{name}' is missing");
                Err(reader.error_about(&start, problem))
            }
            None => Ok(()),
        }
    }

    fn push_value(&mut self, port: &'s Port, reader: &mut JsonReader<'_>) -> Result<(), Error> {
        let start = reader.mark();
        let form = form_of(self.signature, port);
        if let Some(column) = self.columns.iter_mut().find(|it| it.port.name == port.name) {
            let shape = reader.shaped_elements(&mut column.builder, form)?;
            column.rows += 1;
            if shape != column.shape {
                let expected = &column.shape;
                let problem =
                    format!("expected shape {expected} as in the first row, found {shape}");
                return Err(reader.error_about(&start, problem));
            }
            return Ok(());
        }
        if self.rows > 0 {
            let problem = format!("the first row does not have the input '{}'", port.name);
            return Err(reader.error_about(&start, problem));
        }
        let mut builder = TensorBuilder::of(port, None, self.grant);
        let shape = reader.shaped_elements(&mut builder, form)?;
        self.columns.push(Column { port, builder, shape, rows: 1 });
        Ok(())
    }

    /// The inputs.
    ///
    /// # Errors
    /// Only when sizes overflow, or columns are not those of the input.
    pub fn finish(self) -> Result<Vec<NamedTensor>, Error> {
        let RowBuilder { signature, columns, records, rows, .. } = self;
        if let Some(records) = records {
            return records.finish();
        }
        let finished = columns.into_iter().map(|Column { port, builder, shape, .. }| {
            let shape = std::iter::once(rows).chain(shape.dims().iter().copied()).collect();
            let NamedTensor { name, tensor } = builder.finish_input(port, shape)?;
            Ok(NamedTensor { name, tensor: shapes::as_rows(signature, port, tensor) })
        });
        finished.collect()
    }
}

/// The same error with the record's number: a line is easier to find than a byte.
pub fn in_record(record: usize, error: Error) -> Error {
    match error {
        Error::InvalidRequest(problem) => {
            Error::InvalidRequest(format!("record {record}: {problem}"))
        }
        other => other,
    }
}

/// Reads an object keyed by the names of inputs.
fn read_named<'s>(
    signature: &'s Signature,
    reader: &mut JsonReader<'_>,
) -> Result<Vec<(&'s Port, NamedTensor)>, Error> {
    if reader.peek()? != Token::Object {
        return Err(reader.error(needs_names(signature)));
    }
    let mut columns = Vec::new();
    reader.object(|reader, key| {
        let port = input(signature, reader, &key)?;
        columns.push((port, read_value(signature, port, reader)?));
        Ok(())
    })?;
    Ok(columns)
}

fn read_value(
    signature: &Signature,
    port: &Port,
    reader: &mut JsonReader<'_>,
) -> Result<NamedTensor, Error> {
    let mut builder = TensorBuilder::of(port, None, reader.grant());
    let shape = reader.shaped_elements(&mut builder, form_of(signature, port))?;
    builder.finish_input(port, shape)
}

/// How the elements of an input of bytes stand in JSON.
pub fn form_of(signature: &Signature, port: &Port) -> BytesForm {
    match signature.takes_files(&port.name) {
        true => BytesForm::File,
        false => BytesForm::TextOrBase64,
    }
}

/// Is the value at `mark` an object keyed by names? It is not where it is `{"b64": ..}` for `port`.
fn is_named<'a>(reader: &mut JsonReader<'a>, mark: &Mark<'a>, port: &Port) -> Result<bool, Error> {
    reader.revisit(mark.clone(), |reader| {
        if reader.peek()? != Token::Object {
            return Ok(false);
        }
        if port.dtype != DataType::Bytes || &*port.name == "b64" {
            return Ok(true);
        }
        Ok(first_key(reader).is_none_or(|it| it != "b64"))
    })
}

/// Is the value at the reader an object whose first key is the name of a column?
fn names_columns(signature: &Signature, reader: &mut JsonReader<'_>) -> Result<bool, Error> {
    if only_input(signature).is_none_or(|it| it.labels.is_empty()) {
        return Ok(false);
    }
    let start = reader.mark();
    reader.revisit(start, |reader| {
        let is_object = reader.peek()? == Token::Object;
        Ok(is_object && first_key(reader).is_some_and(|it| is_column(signature, &it)))
    })
}

/// The first key of the object that stands at the reader, which is of no use afterwards.
fn first_key<'a>(reader: &mut JsonReader<'a>) -> Option<Cow<'a, str>> {
    let mut first = None;
    let _ = reader.object(|_, key| {
        first = Some(key);
        Err(enough())
    });
    first
}

/// Where the first element of the array at `mark` is; `None` where the array is empty.
pub fn first_item<'a>(
    reader: &mut JsonReader<'a>,
    mark: &Mark<'a>,
) -> Result<Option<Mark<'a>>, Error> {
    reader.revisit(mark.clone(), |reader| {
        let mut first = None;
        let result = reader.array(|reader, _| {
            first = Some(reader.mark());
            Err(enough())
        });
        match first {
            Some(first) => Ok(Some(first)),
            None => result.map(|()| None),
        }
    })
}

/// Ends the reading of an object or array early. Never seen by anyone.
pub fn enough() -> Error {
    Error::InvalidRequest(String::new())
}

fn input<'s>(
    signature: &'s Signature,
    reader: &JsonReader<'_>,
    key: &str,
) -> Result<&'s Port, Error> {
    signature.input(key).ok_or_else(|| {
        let names = signature.inputs.iter().map(|it| &*it.name);
        let hint = nearest(key, names).map(|it| format!(", did you mean '{it}'?"));
        reader.error(format_args!(
            "'{}' is not an input; the model's inputs are {}{}",
            Excerpt(key),
            names_of(signature),
            hint.unwrap_or_default()
        ))
    })
}

fn needs_names(signature: &Signature) -> String {
    format!("expected an object with the keys {}, for each input its value", names_of(signature))
}
