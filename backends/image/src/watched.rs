//! Bytes of an image that end where nobody waits for it any more, so that its decoder ends, too.

use std::io::{BufRead, Error, Read, Result, Seek, SeekFrom};

/// Is the image still wanted? Asked again and again while it is decoded.
pub type StillWanted<'a> = &'a dyn Fn() -> bool;

/// Most bytes that are given at once: of the best compressed ones a megabyte becomes.
const PIECE: usize = 1024;

/// The bytes, and who is asked.
pub(crate) struct WatchedImage<'a> {
    bytes: &'a [u8],
    at: usize,
    wanted: StillWanted<'a>,
}

impl<'a> WatchedImage<'a> {
    pub(crate) fn new(bytes: &'a [u8], wanted: StillWanted<'a>) -> WatchedImage<'a> {
        WatchedImage { bytes, at: 0, wanted }
    }
}

impl Read for WatchedImage<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let given = self.fill_buf()?;
        let length = given.len().min(out.len());
        out[..length].copy_from_slice(&given[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for WatchedImage<'_> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if !(self.wanted)() {
            return Err(Error::other("it is not wanted any more"));
        }
        let left = self.bytes.get(self.at..).unwrap_or_default();
        Ok(&left[..left.len().min(PIECE)])
    }

    fn consume(&mut self, length: usize) {
        self.at += length;
    }
}

impl Seek for WatchedImage<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let from = |base: usize, by: i64| (base as u64).checked_add_signed(by);
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => from(self.bytes.len(), by),
            SeekFrom::Current(by) => from(self.at, by),
        };
        let at = at.ok_or_else(|| Error::other("a place in front of the file"))?;
        self.at = usize::try_from(at).unwrap_or(usize::MAX);
        Ok(at)
    }
}
