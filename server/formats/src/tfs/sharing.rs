//! How much of a context is read again for the examples of a request, and the most that is.

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
    /// As a sentence, when they are more than [`Sharing::most`].
    pub fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.read = self.read.saturating_add(bytes);
        let most = self.most;
        match self.read <= most {
            true => Ok(()),
            false => Err(format!(
                "the context is repeated for more than {most} bytes; send fewer examples at once"
            )),
        }
    }
}
