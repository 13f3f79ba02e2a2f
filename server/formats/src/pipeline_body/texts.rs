//! `inputs` of a body: a text, an object of texts by the names of inputs, or a list of one of these.

use backend::{DataType, NamedTensor};

use crate::{
    inputs,
    json::{JsonReader, Token},
    rows::{self, List, RowBuilder},
    shapes,
};
use inference::{
    error::Error,
    signature::{Port, Signature},
};

/// The name under which a model with one input takes a text, where that is not the input's own.
pub const TEXT: &str = "text";

/// Is it an input of one text for each row?
pub fn takes_text(port: &Port) -> bool {
    port.dtype == DataType::Bytes && shapes::scalar(port)
}

/// Reads them, one row for each text or object.
///
/// # Errors
/// When there is none, or a value is not of its input's type.
pub fn read_inputs(
    signature: &Signature,
    reader: &mut JsonReader<'_>,
) -> Result<Vec<NamedTensor>, Error> {
    let start = reader.mark();
    let first = match reader.peek()? {
        Token::Array => {
            let first = rows::first_item(reader, &start)?;
            let first = first.ok_or_else(|| reader.error("expected at least one, found none"))?;
            reader.revisit(first, JsonReader::peek)?
        }
        other => other,
    };
    let list = reader.peek()? == Token::Array;
    match (first, list, inputs::only_input(signature)) {
        (Token::Object, true, _) => {
            let mut rows = RowBuilder::named(signature, TEXT, reader.grant());
            reader.array(|reader, at| {
                rows.push(reader).map_err(|error| rows::in_record(at + 1, error))
            })?;
            rows.finish()
        }
        // A text, or the names of several inputs.
        (_, false, _) => {
            let mut rows = RowBuilder::named(signature, TEXT, reader.grant());
            rows.push(reader)?;
            rows.finish()
        }
        (_, true, Some(port)) if takes_text(port) => rows::read_list(signature, reader, List::Rows),
        (_, true, _) => rows::read_list(signature, reader, List::RowsOrOne),
    }
}
