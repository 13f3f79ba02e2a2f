//! How much of a context is read again for the examples of a request, and the most that is.

use super::example_error::ExampleError;
use crate::expansion::REPEATED;

/// How much of a context has been read again.
#[derive(Debug)]
pub struct Sharing {
    read: usize,
    most: usize,
}

impl Sharing {
    /// Nothing yet, of a body of so many bytes.
    pub fn of(sent: usize) -> Sharing {
        Sharing { read: 0, most: Sharing::most(sent) }
    }

    /// Most bytes that are read again of the context in a body of `sent` bytes.
    pub fn most(sent: usize) -> usize {
        REPEATED.bytes(sent)
    }

    /// Counts so many bytes more.
    ///
    /// # Errors
    /// When they are more than [`Sharing::most`].
    pub fn take(&mut self, bytes: usize) -> Result<(), ExampleError> {
        self.read = self.read.saturating_add(bytes);
        match self.read <= self.most {
            true => Ok(()),
            false => Err(ExampleError::Repeated(self.most)),
        }
    }
}
