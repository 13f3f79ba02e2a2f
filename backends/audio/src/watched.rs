//! Bytes of a sound that end where nobody waits for it any more, so that its decoder ends, too.

use std::io::{Cursor, Error, Read, Result, Seek, SeekFrom};

/// Is the sound still wanted? Asked again and again while it is decoded.
pub type StillWanted<'a> = &'a (dyn Fn() -> bool + Sync);

/// Most bytes that are given at once.
const PIECE: usize = 64 << 10;

/// The bytes, and who is asked.
pub(crate) struct WatchedSound<'a> {
    bytes: Cursor<&'a [u8]>,
    wanted: StillWanted<'a>,
}

impl<'a> WatchedSound<'a> {
    pub(crate) fn new(bytes: &'a [u8], wanted: StillWanted<'a>) -> WatchedSound<'a> {
        WatchedSound { bytes: Cursor::new(bytes), wanted }
    }

    /// How many bytes there are.
    pub(crate) fn length(&self) -> u64 {
        self.bytes.get_ref().len() as u64
    }
}

impl Read for WatchedSound<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if !(self.wanted)() {
            return Err(Error::other("it is not wanted any more"));
        }
        let length = out.len().min(PIECE);
        self.bytes.read(&mut out[..length])
    }
}

impl Seek for WatchedSound<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.bytes.seek(to)
    }
}
