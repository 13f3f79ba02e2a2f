//! A part of a region, and the copies into it and out of it.

use std::{os::unix::fs::FileExt, sync::Arc};

use bytes::{Bytes, BytesMut};

use super::region::{Registered, refused};
use inference::{error::Error, messages};

/// The alignment at which engines read memory without another copy.
const ALIGNMENT: usize = 64;

/// A part of a region. It stays usable until it is dropped, even if the region is unregistered.
#[derive(Debug, Clone)]
pub struct Window {
    registered: Arc<Registered>,
    /// Where it begins in the object, in bytes.
    start: u64,
    length: usize,
}

impl Window {
    /// The window of `byte_size` bytes from byte `offset` of the region.
    pub(super) fn of(
        registered: Arc<Registered>,
        offset: u64,
        byte_size: u64,
    ) -> Result<Window, Error> {
        let region = &registered.region;
        let inside = offset.checked_add(byte_size).is_some_and(|end| end <= region.byte_size);
        let wrong = match offset < region.byte_size {
            true => messages::region_end,
            false => messages::region_offset,
        };
        if offset < region.byte_size && offset.checked_add(byte_size).is_none() {
            let opening = messages::region_overflow(byte_size, offset);
            return Err(Error::InvalidRequest(format!(
                "{opening} exceeds the largest number, {}, for region '{}'",
                u64::MAX,
                region.name
            )));
        }
        // The region fitted into the object when it was registered, so the sum does not overflow.
        let place = region.offset.checked_add(offset).zip(usize::try_from(byte_size).ok());
        match place.filter(|_| inside) {
            Some((start, length)) => Ok(Window { registered, start, length }),
            None => Err(Error::InvalidRequest(format!(
                "{}: {byte_size} bytes from offset {offset} on are not inside the region, which has {} bytes",
                wrong(&region.name),
                region.byte_size
            ))),
        }
    }

    /// How many bytes it has.
    pub fn byte_size(&self) -> usize {
        self.length
    }

    /// Copies its bytes to an address at which engines can read. Blocks for as long as the copy takes, and allocates
    /// as many bytes: for a window that a client chose, take a permit for the bytes and decide on the thread first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the client has made the object smaller.
    pub fn read(&self) -> Result<Bytes, Error> {
        let mut buffer = BytesMut::zeroed(self.length.saturating_add(ALIGNMENT));
        let padding = (buffer.as_ptr() as usize).wrapping_neg() % ALIGNMENT;
        drop(buffer.split_to(padding));
        buffer.truncate(self.length);
        let read = self.registered.object.read_exact_at(&mut buffer, self.start);
        read.map_err(|error| self.problem(format!("cannot be read: {error}")))?;
        Ok(buffer.freeze())
    }

    /// Writes these pieces one after another, from its start. Blocks for as long as the copy takes.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the pieces do not fit; then nothing is written.
    pub fn write(&self, pieces: &[Bytes]) -> Result<(), Error> {
        let needed = pieces.iter().map(Bytes::len).sum::<usize>();
        if needed > self.length {
            let given = self.length;
            return Err(self.problem(format!("has {given} bytes, and {needed} are needed")));
        }
        let failed = |error: std::io::Error| self.problem(format!("cannot be written: {error}"));
        // A write behind the end would enlarge an object that its client has made smaller.
        let length = self.registered.object.metadata().map_err(failed)?.len();
        if length < self.start.saturating_add(needed as u64) {
            return Err(self.problem(format!("is gone: its object now has {length} bytes")));
        }
        let mut at = self.start;
        for piece in pieces {
            self.registered.object.write_all_at(piece, at).map_err(failed)?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(())
    }

    fn problem(&self, problem: String) -> Error {
        let region = &self.registered.region;
        let offset = self.start.saturating_sub(region.offset);
        refused(&region.name, format!("the part from offset {offset} on {problem}"))
    }
}
