//! The texts of a request, as clients of other servers of texts send them: one text, a list of texts, the token ids of
//! one text, or a list of those.

use backend::{DataType, NamedTensor, Shape};

use crate::{
    elements::TensorBuilder,
    json::{Reader, Token},
    rows,
};
use inference::{
    error::Error,
    task::{TEXT, TOKEN_IDS},
};

/// The texts or token ids of a request, one for each row.
#[derive(Debug)]
pub(crate) struct Texts {
    /// The input that they are.
    pub(crate) input: NamedTensor,
    /// Characters of all texts. Token ids have none.
    pub(crate) characters: usize,
}

/// Reads texts or token ids.
///
/// # Errors
/// [`Error::Empty`] for an empty text or list, [`Error::TooManyInputs`] for more than `most` of them,
/// [`Error::InvalidRequest`] for anything else.
pub(crate) fn read(reader: &mut Reader<'_>, most: usize) -> Result<Texts, Error> {
    let start = reader.mark();
    match reader.peek()? {
        Token::Array => match rows::first_item(reader, &start)? {
            None => Err(Error::Empty(
                reader.error("expected at least one text, found none").to_string(),
            )),
            Some(first) => match reader.revisit(first, Reader::peek)? {
                Token::Number => single(reader, ids),
                Token::Array => list(reader, most, ids),
                _ => list(reader, most, text),
            },
        },
        _ => single(reader, text),
    }
}

/// Rows in the making.
struct Rows {
    name: &'static str,
    builder: TensorBuilder,
    characters: usize,
}

impl Rows {
    fn push(&mut self, reader: &Reader<'_>, name: &'static str, text: &str) -> Result<(), Error> {
        self.name = name;
        self.builder.push_bytes(text.as_bytes()).map_err(|problem| reader.error(problem))
    }
}

type ReadRow = fn(&mut Reader<'_>, &mut Rows) -> Result<(), Error>;

fn single(reader: &mut Reader<'_>, read: ReadRow) -> Result<Texts, Error> {
    let mut rows = none();
    read(reader, &mut rows)?;
    finish(rows)
}

fn list(reader: &mut Reader<'_>, most: usize, read: ReadRow) -> Result<Texts, Error> {
    let (mut rows, mut given) = (none(), 0);
    reader.array(|reader, at| {
        given = at + 1;
        // The rest is only counted.
        if given <= most { read(reader, &mut rows) } else { reader.skip_value() }
    })?;
    match given <= most {
        true => finish(rows),
        false => Err(Error::TooManyInputs { given, most }),
    }
}

fn none() -> Rows {
    Rows { name: TEXT, builder: TensorBuilder::new(DataType::Bytes, None), characters: 0 }
}

fn finish(rows: Rows) -> Result<Texts, Error> {
    let Rows { name, builder, characters } = rows;
    let shape = Shape::new(&[builder.count(), 1]);
    let tensor = builder.finish(shape).map_err(|it| Error::Internal(it.to_string()))?;
    Ok(Texts { input: NamedTensor { name: name.into(), tensor }, characters })
}

fn text(reader: &mut Reader<'_>, rows: &mut Rows) -> Result<(), Error> {
    let text = reader.string()?;
    if text.is_empty() {
        return Err(empty(reader));
    }
    rows.characters += text.chars().count();
    rows.push(reader, TEXT, &text)
}

/// A list of token ids, which the model reads.
fn ids(reader: &mut Reader<'_>, rows: &mut Rows) -> Result<(), Error> {
    if reader.peek()? != Token::Array {
        return Err(reader.error("expected a list of token ids, as the first one is"));
    }
    let ids = reader.raw_value()?;
    if ids.bytes().all(|it| it.is_ascii_whitespace() || matches!(it, b'[' | b']')) {
        return Err(empty(reader));
    }
    rows.push(reader, TOKEN_IDS, ids)
}

fn empty(reader: &Reader<'_>) -> Error {
    Error::Empty(reader.error("expected a text, found an empty one").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::show_inputs;

    fn read_text(json: &str) -> Result<Texts, Error> {
        Reader::document(json.as_bytes(), |reader| read(reader, 3))
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
        check("[1, 2]", r#"token_ids BYTES [1,1] ["[1, 2]"]"#, 0);
        check("[[1],[2,3]]", r#"token_ids BYTES [2,1] ["[1]","[2,3]"]"#, 0);
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
