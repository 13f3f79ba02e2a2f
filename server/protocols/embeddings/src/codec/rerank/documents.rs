//! The query and the documents of a body, as the inputs of a ranking.

use backend::Tensor;

use crate::codec::texts::{self, Column};
use formats::json::{JsonReader, Token};
use inference::error::Error;

/// One text.
///
/// # Errors
/// [`Error::Empty`] where it is empty.
pub(super) fn read_one<'g>(reader: &mut JsonReader<'g>) -> Result<Column<'g>, Error> {
    let mut text = Column::new(reader.grant());
    push(reader, &mut text)?;
    match text.characters {
        0 => Err(texts::empty(reader)),
        _ => Ok(text),
    }
}

/// A list of at most so many texts, of which some may be empty.
///
/// # Errors
/// [`Error::Empty`] where there is none, [`Error::TooManyInputs`] where there are more.
pub(super) fn read_list<'g>(reader: &mut JsonReader<'g>, most: usize) -> Result<Column<'g>, Error> {
    let mut column = Column::new(reader.grant());
    texts::list(reader, most, |reader| push(reader, &mut column))?;
    Ok(column)
}

/// A text, or an object with one.
///
/// # Errors
/// When the value at the reader is neither.
fn push(reader: &mut JsonReader<'_>, column: &mut Column<'_>) -> Result<(), Error> {
    match reader.peek()? {
        Token::Object => {
            let mut is_given = false;
            reader.object(|reader, key| match &*key {
                "text" if !is_given => {
                    is_given = true;
                    push_text(reader, column)
                }
                _ => reader.skip_value(),
            })?;
            match is_given {
                true => Ok(()),
                false => Err(reader.error("expected a text, or an object with the key 'text'")),
            }
        }
        _ => push_text(reader, column),
    }
}

fn push_text(reader: &mut JsonReader<'_>, column: &mut Column<'_>) -> Result<(), Error> {
    let text = reader.string()?;
    column.push(reader, &text)
}

/// The texts of an input that has been read from a body.
pub(super) fn texts_of(input: Option<&Tensor>) -> Vec<&str> {
    let texts = input.into_iter().flat_map(Tensor::strings);
    texts.map(|it| std::str::from_utf8(it).unwrap_or_default()).collect()
}
