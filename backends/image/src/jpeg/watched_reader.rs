//! Bytes of a JPEG for zune-jpeg that end where nobody waits for the image any more, so that decoding ends, too.

use zune_core::bytestream::{ZByteIoError, ZByteReaderTrait, ZCursor, ZSeekFrom};

use crate::watched::StillWanted;

/// Reads between two questions: the decoder reads four bytes at a time, or one.
const READS: u32 = 256;

/// The bytes, and who is asked.
pub(super) struct WatchedReader<'a> {
    bytes: ZCursor<&'a [u8]>,
    wanted: StillWanted<'a>,
    /// Reads until the next question.
    left: u32,
    is_stopped: bool,
}

impl<'a> WatchedReader<'a> {
    pub(super) fn new(bytes: &'a [u8], wanted: StillWanted<'a>) -> WatchedReader<'a> {
        WatchedReader { bytes: ZCursor::new(bytes), wanted, left: READS, is_stopped: false }
    }

    /// Counts a read.
    ///
    /// # Errors
    /// From the moment on at which the image is not wanted any more.
    #[inline(always)]
    fn check(&mut self) -> Result<(), ZByteIoError> {
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            self.ask();
        }
        match self.is_stopped {
            true => Err(ZByteIoError::Generic("it is not wanted any more")),
            false => Ok(()),
        }
    }

    #[cold]
    fn ask(&mut self) {
        self.left = READS;
        self.is_stopped |= !(self.wanted)();
    }
}

impl ZByteReaderTrait for WatchedReader<'_> {
    #[inline(always)]
    fn read_byte_no_error(&mut self) -> u8 {
        self.bytes.read_byte_no_error()
    }

    #[inline(always)]
    fn read_exact_bytes(&mut self, buf: &mut [u8]) -> Result<(), ZByteIoError> {
        self.check()?;
        self.bytes.read_exact_bytes(buf)
    }

    fn read_bytes(&mut self, buf: &mut [u8]) -> Result<usize, ZByteIoError> {
        self.check()?;
        self.bytes.read_bytes(buf)
    }

    fn peek_bytes(&mut self, buf: &mut [u8]) -> Result<usize, ZByteIoError> {
        self.bytes.peek_bytes(buf)
    }

    fn peek_exact_bytes(&mut self, buf: &mut [u8]) -> Result<(), ZByteIoError> {
        self.bytes.peek_exact_bytes(buf)
    }

    fn z_seek(&mut self, from: ZSeekFrom) -> Result<u64, ZByteIoError> {
        self.bytes.z_seek(from)
    }

    /// Asked after each byte that is read by itself.
    #[inline(always)]
    fn is_eof(&mut self) -> Result<bool, ZByteIoError> {
        self.check()?;
        self.bytes.is_eof()
    }

    fn z_position(&mut self) -> Result<u64, ZByteIoError> {
        self.bytes.z_position()
    }

    fn read_remaining(&mut self, sink: &mut Vec<u8>) -> Result<usize, ZByteIoError> {
        self.check()?;
        self.bytes.read_remaining(sink)
    }
}
