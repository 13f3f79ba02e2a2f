//! The query and the documents of a body, as the inputs of a ranking.

use backend::{DataType, NamedTensor, Shape, Tensor};

use crate::{
    elements::TensorBuilder,
    json::{Reader, Token},
};
use inference::error::Error;

/// Texts in the making: all of a list, or one.
pub(super) struct TextList {
    builder: TensorBuilder,
    /// Characters of all texts.
    pub(super) characters: usize,
}

impl TextList {
    fn new() -> TextList {
        TextList { builder: TensorBuilder::new(DataType::Bytes, None), characters: 0 }
    }

    /// How many texts.
    pub(super) fn count(&self) -> usize {
        self.builder.count()
    }

    /// A text, or an object with one.
    ///
    /// # Errors
    /// When the value at the reader is neither.
    fn push(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        match reader.peek()? {
            Token::Object => {
                let mut is_given = false;
                reader.object(|reader, key| match &*key {
                    "text" if !is_given => {
                        is_given = true;
                        self.push_text(reader)
                    }
                    _ => reader.skip_value(),
                })?;
                match is_given {
                    true => Ok(()),
                    false => Err(reader.error("expected a text, or an object with the key 'text'")),
                }
            }
            _ => self.push_text(reader),
        }
    }

    fn push_text(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        let text = reader.string()?;
        self.characters += text.chars().count();
        self.builder.push_bytes(text.as_bytes()).map_err(|problem| reader.error(problem))
    }

    /// The texts as the input of that name, in that many rows.
    ///
    /// # Errors
    /// Only when sizes overflow, or they are no such rows.
    pub(super) fn input(self, name: &str, rows: usize) -> Result<NamedTensor, Error> {
        let shape = Shape::new(&[rows, self.count().checked_div(rows).unwrap_or(0)]);
        let tensor = self.builder.finish(shape);
        let tensor = tensor.map_err(|it| Error::Internal(it.to_string()))?;
        Ok(NamedTensor { name: name.into(), tensor })
    }
}

/// One text.
///
/// # Errors
/// [`Error::Empty`] where it is empty.
pub(super) fn read_one(reader: &mut Reader<'_>) -> Result<TextList, Error> {
    let mut text = TextList::new();
    text.push(reader)?;
    match text.characters {
        0 => Err(Error::Empty(reader.error("expected a text, found an empty one").to_string())),
        _ => Ok(text),
    }
}

/// A list of at most so many texts.
///
/// # Errors
/// [`Error::Empty`] where there is none, [`Error::TooManyInputs`] where there are more.
pub(super) fn read_list(reader: &mut Reader<'_>, most: usize) -> Result<TextList, Error> {
    let (mut texts, mut given) = (TextList::new(), 0);
    reader.array(|reader, at| {
        given = at + 1;
        // The rest is only counted.
        if given <= most { texts.push(reader) } else { reader.skip_value() }
    })?;
    match given {
        0 => Err(Error::Empty(reader.error("expected at least one text, found none").to_string())),
        given if given <= most => Ok(texts),
        given => Err(Error::TooManyInputs { given, most }),
    }
}

/// The texts of an input that has been read from a body.
pub(super) fn texts(input: Option<&Tensor>) -> Vec<&str> {
    let texts = input.into_iter().flat_map(Tensor::strings);
    texts.map(|it| std::str::from_utf8(it).unwrap_or_default()).collect()
}
