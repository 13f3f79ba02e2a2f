//! The texts of a request, as clients of other servers of texts send them: one text, a list of texts, the token ids of
//! one text, or a list of those.

use std::{borrow::Cow, sync::Arc};

use backend::{DataType, NamedTensor, Shape};

use formats::{
    elements::TensorBuilder,
    json::{JsonReader, Mark, Token},
    rows::first_item,
};
use inference::{
    error::Error,
    grant::Grant,
    request::{InferenceRequest, Parameter},
    task::{TEXT, TOKEN_IDS, TOKENS, Task},
};

/// The texts or token ids of a request, one for each row.
#[derive(Debug)]
pub(crate) struct Texts {
    /// The input that they are.
    pub(crate) input: NamedTensor,
    /// Characters of all texts. Each token id counts as one, as there.
    pub(crate) characters: usize,
}

/// Reads texts or token ids.
///
/// # Errors
/// [`Error::Empty`] for an empty text or list, [`Error::TooManyInputs`] for more than `most` of them,
/// [`Error::InvalidRequest`] for anything else.
pub(crate) fn read(reader: &mut JsonReader<'_>, most: usize) -> Result<Texts, Error> {
    let start = reader.mark();
    match reader.peek()? {
        Token::Array => match first_item(reader, &start)? {
            None => Err(empty_list(reader, &start)),
            Some(first) => match reader.revisit(first, JsonReader::peek)? {
                Token::Number => single(reader, TOKEN_IDS, ids),
                Token::Array => rows(reader, most, TOKEN_IDS, ids),
                _ => rows(reader, most, TEXT, push_text),
            },
        },
        _ => single(reader, TEXT, push_text),
    }
}

/// A request of that task with these inputs, for these outputs and the number of tokens.
pub(crate) fn request(
    task: Task,
    inputs: Vec<NamedTensor>,
    outputs: &[&str],
    parameters: Vec<(Arc<str>, Parameter)>,
) -> InferenceRequest {
    let outputs = outputs.iter().chain(&[TOKENS]).map(|it| Arc::from(*it)).collect();
    InferenceRequest {
        inputs,
        outputs,
        task: Some(task),
        parameters,
        ..InferenceRequest::default()
    }
}

/// Texts in the making.
#[derive(Debug)]
pub(crate) struct Column<'g> {
    builder: TensorBuilder<'g>,
    /// Characters of all of them, or how many token ids.
    pub(crate) characters: usize,
}

impl<'g> Column<'g> {
    /// No text yet.
    pub(crate) fn new(grant: &'g Grant) -> Column<'g> {
        Column { builder: TensorBuilder::new(DataType::Bytes, None, grant), characters: 0 }
    }

    /// How many texts.
    pub(crate) fn count(&self) -> usize {
        self.builder.count()
    }

    /// Adds a text.
    ///
    /// # Errors
    /// When it is too long.
    pub(crate) fn push(&mut self, reader: &JsonReader<'_>, text: &str) -> Result<(), Error> {
        self.push_counted(reader, text, text.chars().count())
    }

    /// Adds a text, or the JSON of token ids, that counts as so many characters.
    fn push_counted(
        &mut self,
        reader: &JsonReader<'_>,
        text: &str,
        characters: usize,
    ) -> Result<(), Error> {
        self.characters += characters;
        self.builder.push_bytes(text.as_bytes()).map_err(|problem| reader.error(problem))
    }

    /// The input of that name, of which each text is a row.
    ///
    /// # Errors
    /// Only when sizes overflow.
    pub(crate) fn finish(self, name: &str) -> Result<NamedTensor, Error> {
        let rows = self.count();
        self.finish_in(name, rows)
    }

    /// The input of that name, of which the texts are so many rows.
    ///
    /// # Errors
    /// Only when sizes overflow, or they are no such rows.
    pub(crate) fn finish_in(self, name: &str, rows: usize) -> Result<NamedTensor, Error> {
        let shape = Shape::new(&[rows, self.count().checked_div(rows).unwrap_or(0)]);
        let tensor = self.builder.finish(shape).map_err(|it| Error::Internal(it.to_string()))?;
        Ok(NamedTensor { name: name.into(), tensor })
    }
}

type ReadRow = fn(&mut JsonReader<'_>, &mut Column<'_>) -> Result<(), Error>;

fn single(reader: &mut JsonReader<'_>, name: &str, read: ReadRow) -> Result<Texts, Error> {
    let mut column = Column::new(reader.grant());
    read(reader, &mut column)?;
    finish(column, name)
}

fn finish(column: Column<'_>, name: &str) -> Result<Texts, Error> {
    let characters = column.characters;
    Ok(Texts { input: column.finish(name)?, characters })
}

/// The rows of a list, at least one.
///
/// # Errors
/// [`Error::Empty`], [`Error::TooManyInputs`], and those of `read`.
pub(crate) fn list(
    reader: &mut JsonReader<'_>,
    most: usize,
    mut read: impl FnMut(&mut JsonReader<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut given = 0;
    let start = reader.mark();
    reader.array(|reader, at| {
        given = at + 1;
        // The rest is only counted.
        if given <= most { read(reader) } else { reader.skip_value() }
    })?;
    match given {
        0 => Err(empty_list(reader, &start)),
        _ if most < given => Err(Error::TooManyInputs { given, most }),
        _ => Ok(()),
    }
}

fn rows(
    reader: &mut JsonReader<'_>,
    most: usize,
    name: &str,
    read: ReadRow,
) -> Result<Texts, Error> {
    let mut column = Column::new(reader.grant());
    list(reader, most, |reader| read(reader, &mut column))?;
    finish(column, name)
}

/// A list of texts.
///
/// # Errors
/// Those of [`list`] and of [`text`].
pub(crate) fn column<'g>(reader: &mut JsonReader<'g>, most: usize) -> Result<Column<'g>, Error> {
    let mut column = Column::new(reader.grant());
    list(reader, most, |reader| push_text(reader, &mut column))?;
    Ok(column)
}

/// A text.
///
/// # Errors
/// [`Error::Empty`] where it is empty.
pub(crate) fn text<'a>(reader: &mut JsonReader<'a>) -> Result<Cow<'a, str>, Error> {
    let text = reader.string()?;
    if text.is_empty() { Err(empty(reader)) } else { Ok(text) }
}

fn push_text(reader: &mut JsonReader<'_>, column: &mut Column<'_>) -> Result<(), Error> {
    let text = text(reader)?;
    column.push(reader, &text)
}

/// A list of token ids, which the model reads.
fn ids(reader: &mut JsonReader<'_>, column: &mut Column<'_>) -> Result<(), Error> {
    if reader.peek()? != Token::Array {
        return Err(reader.error("expected a list of token ids, as the first one is"));
    }
    let ids = reader.raw_value()?;
    if ids.bytes().all(|it| it.is_ascii_whitespace() || matches!(it, b'[' | b']')) {
        return Err(empty(reader));
    }
    let count = 1 + ids.bytes().filter(|it| *it == b',').count();
    column.push_counted(reader, ids, count)
}

/// The error of a list at that place without any text.
pub(crate) fn empty_list<'a>(reader: &JsonReader<'a>, start: &Mark<'a>) -> Error {
    Error::Empty(reader.error_about(start, "expected at least one text, found none").to_string())
}

/// The error of an empty text.
pub(crate) fn empty(reader: &JsonReader<'_>) -> Error {
    Error::Empty(reader.error("expected a text, found an empty one").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use formats::samples::show_inputs;

    fn read_text(json: &str) -> Result<Texts, Error> {
        JsonReader::document(json.as_bytes(), formats::samples::grant(), |reader| read(reader, 3))
    }

    #[track_caller]
    fn check(json: &str, expected: &str, characters: usize) {
        let texts = read_text(json).unwrap();
        assert_eq!(show_inputs(&[texts.input]), format!("{expected}\n"));
        assert_eq!(texts.characters, characters);
    }

    #[test]
    fn one_text_a_list_of_texts_and_token_ids_are_rows() {
        check(r#""aé""#, r#"text BYTES [1,1] ["aé"]"#, 2);
        check(r#"["a","bc"]"#, r#"text BYTES [2,1] ["a","bc"]"#, 3);
        check("[1, 2]", r#"token_ids BYTES [1,1] ["[1, 2]"]"#, 2);
        check("[[1],[2,3]]", r#"token_ids BYTES [2,1] ["[1]","[2,3]"]"#, 3);
    }

    #[test]
    fn empty_texts_and_too_many_are_errors_of_their_own() {
        for empty in ["\"\"", "[]", "[\"a\",\"\"]", "[[1],[ ]]"] {
            assert!(matches!(read_text(empty), Err(Error::Empty(_))), "{empty}");
        }
        let many = read_text(r#"["a","b","c","d"]"#).unwrap_err();
        assert_eq!(many, Error::TooManyInputs { given: 4, most: 3 });
        for wrong in ["7", "null", "{}", "[\"a\",1]", "[[1],2]", "[null]"] {
            assert!(matches!(read_text(wrong), Err(Error::InvalidRequest(_))), "{wrong}");
        }
    }
}
