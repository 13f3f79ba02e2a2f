//! The way from the whole document to a value, as the text of errors.

use std::{borrow::Cow, fmt};

use crate::number::Excerpt;
use inference::error::Error;

/// One step from a value to one inside it.
#[derive(Debug, Clone)]
pub(super) enum Step<'a> {
    Key(Cow<'a, str>),
    Index(usize),
}

/// An error about the value at that place.
#[cold]
pub(super) fn error(path: &[Step<'_>], offset: usize, problem: impl fmt::Display) -> Error {
    let separator = if path.is_empty() { "" } else { ": " };
    Error::InvalidRequest(format!("{}{separator}{problem}, at byte {offset}", Path(path)))
}

/// A path as text: `inputs[0].shape`.
struct Path<'p, 'a>(&'p [Step<'a>]);

impl fmt::Display for Path<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if i == 0 => write!(f, "{}", Excerpt(key))?,
                Step::Key(key) => write!(f, ".{}", Excerpt(key))?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
