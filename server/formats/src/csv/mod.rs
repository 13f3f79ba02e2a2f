//! CSV as a model's rows: one record is one row, its fields are the elements of the inputs one after
//! another, without nesting.

mod header;
mod reader;

use std::borrow::Cow;

use backend::{DataType, NamedTensor};
pub use header::{begins_with_words, is_headed, names_columns};
use reader::{CsvReader, text};

use crate::{
    elements::{ElementError, TensorBuilder},
    expansion,
    number::Excerpt,
    shapes,
    table::Table,
};
use inference::{
    error::Error,
    grant::Grant,
    granted::Granted,
    signature::{Port, Signature},
};

/// The inputs in a CSV text.
///
/// Columns belong to the inputs in the order of the signature; at most one input may have one dimension of
/// any size, which is deduced. When the columns suffice for the required inputs only, the optional ones
/// are left out. A first record of exactly the columns' names (`x`, or `x_0,x_1`) is skipped. A model
/// that does not batch takes one record, or as its only input all records as a matrix.
///
/// Numbers are as in JSON, or with a plus sign, leading zeros, a bare point, `nan` and `inf`; an empty
/// field is NaN for float types. Fields of BYTES inputs are taken as they are.
///
/// # Errors
/// When a record has another number of columns, or a field is not of its input's type: both name the
/// record, counted from 1.
pub fn decode(
    signature: &Signature,
    body: &[u8],
    grant: &Grant,
) -> Result<Vec<NamedTensor>, Error> {
    expansion::hold_ports(signature, grant)?;
    let text = text(body)?;
    let columns = count_columns(CsvReader::preview(text, 0))?;
    if columns == 0 {
        return Err(no_records());
    }
    let mut groups = groups(signature, columns, grant)?;
    let mut reader = CsvReader::new(text, grant);
    let names = groups.iter().flat_map(|it| (0..it.columns).map(|at| it.column_name(at)));
    if header::is(text, names, grant) {
        while reader.next()?.is_some_and(|it| !it.last) {}
    }
    let rows = read_rows(&mut groups, columns, &mut reader)?;
    if rows == 0 {
        return Err(no_records());
    }
    groups.into_iter().map(|it| it.finish(signature, rows)).collect()
}

/// The inputs in a CSV text whose first record names its columns: as inputs, in any order, or as whatever the
/// columns of the only input are called.
///
/// # Errors
/// Those of [`decode`], and when the columns are neither.
pub fn decode_table(
    signature: &Signature,
    body: &[u8],
    grant: &Grant,
) -> Result<Vec<NamedTensor>, Error> {
    expansion::hold_ports(signature, grant)?;
    let mut reader = CsvReader::new(text(body)?, grant);
    let mut names = Granted::new(grant);
    while let Some(field) = reader.next()? {
        let name = field.text.trim_ascii();
        grant.hold(name.len())?;
        names.push(name.to_owned())?;
        if field.last {
            break;
        }
    }
    if names.is_empty() {
        return Err(no_records());
    }
    let mut table = Table::new(signature, names.into_vec(), grant)?;
    let mut at = 0;
    while let Some(field) = reader.next()? {
        let (record, last) = (field.record, field.last);
        let pushed = table.push_cell(at, |builder| push_number(builder, field.text));
        at += 1;
        pushed.map_err(|problem| {
            Error::InvalidRequest(format!("CSV record {record}, column {at}: {problem}"))
        })?;
        if last != (at == table.width()) {
            let more = if last { 0 } else { count_columns_of_rest(&mut reader) };
            return Err(Error::InvalidRequest(format!(
                "CSV record {record} has {} columns, expected {} as in the first",
                at + more,
                table.width()
            )));
        }
        if last {
            table.end_row()?;
            at = 0;
        }
    }
    table.finish()
}

fn no_records() -> Error {
    Error::InvalidRequest("the CSV text has no records".to_owned())
}

/// An input, and the columns that are its elements.
struct Group<'a> {
    port: &'a Port,
    columns: usize,
    builder: TensorBuilder<'a>,
}

impl<'a> Group<'a> {
    fn new(port: &'a Port, columns: usize, grant: &'a Grant) -> Group<'a> {
        Group { port, columns, builder: TensorBuilder::of(port, None, grant) }
    }

    #[inline]
    fn push(&mut self, field: &str) -> Result<(), ElementError> {
        push_number(&mut self.builder, field)
    }

    fn finish(self, signature: &Signature, rows: usize) -> Result<NamedTensor, Error> {
        let Group { port, columns, builder } = self;
        let shape = shapes::of_rows(signature, port, rows, columns).ok_or_else(|| {
            let expected = signature.shape_text(port);
            let problem = format!("expected shape {expected}, the CSV text has [{rows},{columns}]");
            Error::input(&*port.name, problem)
        })?;
        builder.finish_input(port, shape)
    }

    /// The name of one of its columns.
    fn column_name(&self, at: usize) -> Cow<'_, str> {
        match self.columns {
            1 => Cow::Borrowed(&self.port.name),
            _ => Cow::Owned(format!("{}_{at}", self.port.name)),
        }
    }
}

/// Adds the element that a field spells, as [`decode`] says of numbers; for BYTES the field itself. Where the element
/// may be given as a text, one of its texts is that before it is a number: no quotes tell them apart, as in JSON.
///
/// # Errors
/// What was expected and what was found.
#[inline]
pub fn push_number(builder: &mut TensorBuilder<'_>, field: &str) -> Result<(), ElementError> {
    let dtype = builder.dtype();
    if dtype == DataType::Bytes {
        return builder.push_text(field);
    }
    let (field_as_sent, field) = (field, field.trim_ascii());
    if field.is_empty() && is_float(dtype) {
        return builder.push_text("NaN");
    }
    // A category may be called as a number is spelled, and have blanks around it.
    if builder.push_known(field_as_sent) || builder.push_known(field) {
        return Ok(());
    }
    // Where `1` is a category, `0` is no code of one.
    if builder.takes_numbers_as_texts() {
        return builder.push_other(field, ElementError::NoCategory(field.to_owned()));
    }
    builder.push_text(field).or_else(|problem| {
        let spelled = respelled(dtype, field);
        if spelled.is_some_and(|it| builder.push_text(&it).is_ok()) {
            return Ok(());
        }
        builder.push_other(field, problem)
    })
}

/// Reads records to the end. Returns their number.
fn read_rows(
    groups: &mut [Group<'_>],
    columns: usize,
    reader: &mut CsvReader<'_>,
) -> Result<usize, Error> {
    for rows in 0.. {
        let mut column = 0;
        for group in &mut *groups {
            for _ in 0..group.columns {
                let Some(field) = reader.next()? else {
                    return Ok(rows);
                };
                column += 1;
                let (record, last) = (field.record, field.last);
                group.push(field.text).map_err(|problem| {
                    let place = format!("CSV record {record}, column {column}");
                    Error::input(&*group.port.name, format!("{place}: {problem}"))
                })?;
                if last != (column == columns) {
                    let more = if last { 0 } else { count_columns_of_rest(reader) };
                    return Err(Error::InvalidRequest(format!(
                        "CSV record {record} has {} columns, expected {columns}: {}",
                        column + more,
                        list(groups)
                    )));
                }
            }
        }
    }
    Ok(0)
}

/// The inputs that get columns, where a record has `given` of them.
fn groups<'a>(
    signature: &'a Signature,
    given: usize,
    grant: &'a Grant,
) -> Result<Vec<Group<'a>>, Error> {
    // The only input of a model that does not batch may be a matrix of any width: checked at the end.
    if let ([port], false) = (signature.inputs.as_slice(), signature.batches()) {
        return Ok(vec![Group::new(port, given, grant)]);
    }
    let all: Vec<&Port> = signature.inputs.iter().collect();
    let required: Vec<&Port> = signature.inputs.iter().filter(|it| !it.optional).collect();
    let groups = assign(&all, given, grant).or_else(|| assign(&required, given, grant));
    groups.ok_or_else(|| {
        let expected = all.iter().map(|port| match port.elements() {
            Some(columns) => format!("{} ({columns})", port.name),
            None => format!("{} of shape {}", port.name, signature.shape_text(port)),
        });
        let expected: Vec<String> = expected.collect();
        let sum = all.iter().try_fold(0usize, |sum, port| sum.checked_add(port.elements()?));
        Error::InvalidRequest(format!(
            "CSV record 1 has {given} columns, expected {}{}",
            sum.map_or(String::new(), |it| format!("{it}: ")),
            expected.join(", ")
        ))
    })
}

/// These inputs with `given` columns among them; `None` where that does not come out even.
fn assign<'a>(ports: &[&'a Port], given: usize, grant: &'a Grant) -> Option<Vec<Group<'a>>> {
    let mut known = ports.iter().filter_map(|it| it.elements());
    let sum = known.try_fold(0usize, |sum, it| sum.checked_add(it))?;
    let rest = given.checked_sub(sum)?;
    match ports.iter().filter(|it| it.elements().is_none()).count() {
        0 if rest > 0 => return None,
        0 | 1 => {}
        _ => return None,
    }
    let group = |port: &&'a Port| {
        let columns = port.elements().unwrap_or(rest);
        shapes::flat(&port.dims, columns).map(|_| Group::new(port, columns, grant))
    };
    ports.iter().map(group).collect()
}

/// Fields of the first record.
fn count_columns(mut reader: CsvReader<'_>) -> Result<usize, Error> {
    let mut columns = 0;
    while let Some(field) = reader.next()? {
        columns += 1;
        if field.last {
            break;
        }
    }
    Ok(columns)
}

/// Fields up to the end of the record.
fn count_columns_of_rest(reader: &mut CsvReader<'_>) -> usize {
    let mut more = 0;
    while let Ok(Some(field)) = reader.next() {
        more += 1;
        if field.last {
            break;
        }
    }
    more
}

fn list(groups: &[Group<'_>]) -> String {
    let columns = groups.iter().map(|it| format!("{} ({})", Excerpt(&it.port.name), it.columns));
    columns.collect::<Vec<_>>().join(", ")
}

/// Can elements of this type be NaN?
pub fn is_float(dtype: DataType) -> bool {
    matches!(dtype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

/// Longest field that is spelled anew. The exact decimal of a double has at most 1,077 characters.
const LONGEST_SPELLING: usize = 1200;

/// The same value as JSON spells it; `None` where no spelling is known.
#[cold]
fn respelled(dtype: DataType, field: &str) -> Option<String> {
    if LONGEST_SPELLING < field.len() {
        return None;
    }
    if dtype == DataType::Bool {
        let word = match field.to_ascii_lowercase().as_str() {
            "1" | "true" => "true",
            "0" | "false" => "false",
            _ => return None,
        };
        return Some(word.to_owned());
    }
    let (sign, magnitude) = match field.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", field.strip_prefix('+').unwrap_or(field)),
    };
    match magnitude.to_ascii_lowercase().as_str() {
        "nan" => return Some("NaN".to_owned()),
        "inf" | "infinity" => return Some(format!("{sign}Infinity")),
        _ => {}
    }
    let end = magnitude.find(|it: char| !it.is_ascii_digit()).unwrap_or(magnitude.len());
    let (whole, rest) = magnitude.split_at_checked(end)?;
    let trimmed = whole.trim_start_matches('0');
    let whole = if trimmed.is_empty() { "0" } else { trimmed };
    let rest = match rest.strip_prefix('.') {
        // `.5` and `5.` have digits on one side of the point; a lone point has none.
        _ if end == 0 && !rest.starts_with(['.']) => return None,
        Some(after) if after.starts_with(|it: char| it.is_ascii_digit()) => rest.to_owned(),
        Some(_) if end == 0 => return None,
        Some(after) => format!(".0{after}"),
        None => rest.to_owned(),
    };
    Some(format!("{sign}{whole}{rest}"))
}

#[cfg(test)]
mod tests;
