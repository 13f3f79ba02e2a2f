//! How large the tensors may become of a body that need not spell out their elements: sparse rows, and arrays of a
//! narrower type in an archive.

use inference::error::Error;

/// Bytes that they may always have: a few sparse rows of a wide model are honest.
const FREE: usize = 16 << 20;

/// How many times the length of what was sent they may have besides: rows of ten thousand columns that give twenty of
/// them become two hundred times as long.
const LARGEST_RATIO: usize = 256;

/// Most bytes of the tensors in a body of `sent` bytes.
pub(super) fn most(sent: usize) -> usize {
    FREE.saturating_add(sent.saturating_mul(LARGEST_RATIO))
}

/// What of that is left.
pub(super) struct Room {
    sent: usize,
    left: usize,
}

impl Room {
    /// All of it, for a body of `sent` bytes.
    pub(super) fn of(sent: usize) -> Room {
        Room { sent, left: most(sent) }
    }

    /// Takes so many bytes for a tensor.
    ///
    /// # Errors
    /// [`Error::BodyExpands`] where so many are not left.
    pub(super) fn take(&mut self, length: usize) -> Result<(), Error> {
        let left = self.left.checked_sub(length);
        self.left = left.ok_or(Error::BodyExpands { sent: self.sent, ratio: LARGEST_RATIO })?;
        Ok(())
    }
}
