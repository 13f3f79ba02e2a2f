//! Why an example is refused. Where it stands is said by who reads it: JSON has other places than messages.

use backend::Shape;

use crate::number::Excerpt;
use inference::error::Error;

/// What is wrong with it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ExampleError {
    /// `wrong`: a feature that is no input.
    #[error(
        "expected the feature '{name}', found none{}",
        .wrong.as_deref().map(|it| format!("; '{}' is no input", Excerpt(it))).unwrap_or_default()
    )]
    Lacks { name: String, wrong: Option<String> },
    #[error("expected shape {first} as in the first example, found {shape}")]
    OtherShape { first: Shape, shape: Shape },
    #[error("the first example does not have the feature '{0}'")]
    NotInFirst(String),
    #[error("the context is repeated for more than {0} bytes; send fewer examples at once")]
    Repeated(usize),
    #[error("an example has {0} bytes")]
    TooLong(usize),
    /// The memory for it is not granted.
    #[error(transparent)]
    NoRoom(#[from] Error),
}
