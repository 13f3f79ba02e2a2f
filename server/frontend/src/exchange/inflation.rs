//! Inflation of a compressed body under three limits: the size of a body, a ratio above which it counts as an attack,
//! and the budget of bytes in memory.

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

use super::{
    compression::Encoding,
    intake::{Limits, Received},
    offload::{LARGE_COMPRESSED, offload},
};
use formats::expansion::COMPRESSED;
use inference::{
    aligned::AlignedBuffer,
    error::Error,
    limits::{Permit, out_of_bytes},
};

/// Bytes of the largest first buffer: a longer body grows into larger ones.
const FIRST: usize = 1 << 20;

/// Bytes that are inflated at a time.
const STEP: usize = 32 << 10;

/// A body that takes no more than this part of all bytes in memory, as a divisor, may be compressed however well: its
/// bytes are taken from the budget before they are made, and others still have theirs. A larger one counts as an attack
/// above the ratio.
const LARGEST_PART: usize = 4;

/// The frame of deflated data. The first bytes tell the two frames from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    Gzip,
    Zlib,
}

impl Frame {
    /// The frame that the first bytes show, whatever the header says: some clients mix up the names.
    fn of(body: &[u8]) -> Option<Frame> {
        match body {
            [0x1f, 0x8b, ..] => Some(Frame::Gzip),
            // The compression method, and a checksum over both bytes.
            [first, second, ..]
                if first & 0x0f == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0 =>
            {
                Some(Frame::Zlib)
            }
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Frame::Gzip => "gzip",
            Frame::Zlib => "zlib",
        }
    }
}

/// A body that has been received.
pub enum Arrived {
    /// All of it.
    Whole(Received),
    /// A long body that is compressed. Only its start is plain: the rest is inflated on the pool.
    Start(Box<Inflation>),
}

impl From<Received> for Arrived {
    fn from(received: Received) -> Arrived {
        Arrived::Whole(received)
    }
}

impl Arrived {
    /// Inflates the start of a body, which is all of a short one.
    ///
    /// # Errors
    /// Those of [`Inflation::new`] and [`Inflation::run`].
    pub fn inflate(
        encoding: Encoding,
        header: &str,
        body: Received,
        limits: &Limits,
    ) -> Result<Arrived, Error> {
        let mut inflation = Inflation::new(encoding, header, body, 0, limits)?;
        Ok(match inflation.run(LARGE_COMPRESSED)? {
            true => Arrived::Whole(inflation.finish()),
            false => Arrived::Start(Box::new(inflation)),
        })
    }

    /// The whole body. The rest of a long one is inflated on the pool.
    ///
    /// # Errors
    /// Those of [`Inflation::run`].
    pub async fn whole(self) -> Result<Received, Error> {
        match self {
            Arrived::Whole(received) => Ok(received),
            Arrived::Start(inflation) => offload(move || inflation.rest()).await?,
        }
    }
}

/// A body that is being inflated.
pub struct Inflation {
    compressed: Bytes,
    /// Bytes of the compressed body that have been read.
    read: usize,
    frame: Frame,
    inflate: Decompress,
    plain: AlignedBuffer,
    /// What `plain` can hold where it is, which the permit covers.
    room: usize,
    /// The offset in the plain body that lies at an aligned address.
    aligned_at: usize,
    limits: Limits,
    /// Covers the compressed body until the end.
    _held: Permit,
    /// Covers the plain body.
    permit: Permit,
}

impl Inflation {
    /// Begins with a body that has this encoding, as `header` says. `aligned_at` is as in [`super::intake::read`], in
    /// bytes of the plain body.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] where the first bytes are of no known frame.
    pub fn new(
        encoding: Encoding,
        header: &str,
        body: Received,
        aligned_at: usize,
        limits: &Limits,
    ) -> Result<Inflation, Error> {
        let Received { bytes: compressed, permit: held } = body;
        let frame = Frame::of(&compressed).ok_or_else(|| {
            Error::InvalidRequest(format!(
                "body: expected data in {}, as the header {header} says, given something else",
                encoding.name()
            ))
        })?;
        let inflate = match frame {
            Frame::Gzip => Decompress::new_gzip(15),
            Frame::Zlib => Decompress::new(true),
        };
        let room = first_room(frame, &compressed, limits)?;
        let permit = limits.budget.take(room).ok_or_else(|| out_of_bytes(&limits.budget))?;
        let plain = AlignedBuffer::new(room, aligned_at);
        let limits = limits.clone();
        Ok(Inflation {
            compressed,
            read: 0,
            frame,
            inflate,
            plain,
            room,
            aligned_at,
            limits,
            _held: held,
            permit,
        })
    }

    /// Goes on until at least `until` bytes are plain, or all are. True when all are.
    ///
    /// # Errors
    /// [`Error::BodyTooLarge`], [`Error::BodyExpands`]; [`Error::OutOfBudget`]; [`Error::InvalidRequest`] for data
    /// that are damaged, end too early, or are followed by more data.
    pub fn run(&mut self, until: usize) -> Result<bool, Error> {
        let mut step = vec![0; STEP];
        while self.plain.len() < until {
            let (before, made) = (self.inflate.total_in(), self.inflate.total_out());
            let rest = self.compressed.get(self.read..).unwrap_or_default();
            let status = self.inflate.decompress(rest, &mut step, FlushDecompress::None);
            let status = status.map_err(|error| self.damaged(&error.to_string()))?;
            let taken = (self.inflate.total_in() - before) as usize;
            let made = (self.inflate.total_out() - made) as usize;
            self.read += taken;
            self.keep(step.get(..made).unwrap_or_default())?;
            if status == Status::StreamEnd {
                return match self.compressed.len() - self.read {
                    0 => Ok(true),
                    more => Err(self.damaged(&format!("{more} bytes follow behind its end"))),
                };
            }
            if taken == 0 && made == 0 {
                return Err(self.damaged("it ends too early"));
            }
        }
        Ok(false)
    }

    /// Goes on to the end, which gives the plain body.
    ///
    /// # Errors
    /// Those of [`Inflation::run`].
    pub fn rest(mut self) -> Result<Received, Error> {
        self.run(usize::MAX)?;
        Ok(self.finish())
    }

    /// What is plain so far.
    pub fn plain(&self) -> &[u8] {
        self.plain.bytes()
    }

    /// The plain body, once all of it is there.
    pub fn finish(self) -> Received {
        Received { bytes: self.plain.finish(), permit: self.permit }
    }

    fn keep(&mut self, made: &[u8]) -> Result<(), Error> {
        let length = self.plain.len() + made.len();
        let limit = self.limits.limit;
        if limit < length as u64 {
            return Err(self.limits.too_large(length, limit));
        }
        if self.limits.budget.limit() / LARGEST_PART < length {
            COMPRESSED.check(self.compressed.len(), length)?;
        }
        if self.room < length {
            let room = length.max(self.room.saturating_mul(2));
            // Both are there while the bytes are copied.
            if !self.permit.grow_by(room) {
                return Err(out_of_bytes(&self.limits.budget));
            }
            let larger = AlignedBuffer::new(room, self.aligned_at);
            let smaller = std::mem::replace(&mut self.plain, larger);
            self.plain.extend(&smaller.finish());
            self.room = room;
            self.permit.resize(room);
        }
        self.plain.extend(made);
        Ok(())
    }

    fn damaged(&self, problem: &str) -> Error {
        let (at, frame) = (self.read, self.frame.name());
        Error::InvalidRequest(format!(
            "body: its {frame} data cannot be read at byte {at}: {problem}"
        ))
    }
}

/// The first size of the buffer: what a gzip frame says of its length, where that may be true, else a few times the
/// length of what was sent.
///
/// # Errors
/// [`Error::BodyTooLarge`] where the frame says so itself.
fn first_room(frame: Frame, compressed: &[u8], limits: &Limits) -> Result<usize, Error> {
    let usual = compressed.len().saturating_mul(4).clamp(STEP, FIRST);
    let (Frame::Gzip, Some(length)) = (frame, compressed.last_chunk()) else { return Ok(usual) };
    let length = u32::from_le_bytes(*length) as usize;
    if limits.limit < length as u64 && length <= COMPRESSED.bytes(compressed.len()) {
        return Err(limits.too_large(length, limits.limit));
    }
    match length <= COMPRESSED.bytes(compressed.len()) {
        true => Ok(length.max(STEP)),
        false => Ok(usual),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, sync::Arc, time::Duration};

    use flate2::{
        Compression,
        write::{GzEncoder, ZlibEncoder},
    };

    use super::*;
    use crate::settings::limits::BodyPace;
    use inference::limits::Budget;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn limits(limit: usize, budget: usize) -> Limits {
        let pace = BodyPace { grace: Duration::from_secs(1), bytes_per_second: 0 };
        Limits {
            limit: limit as u64,
            whole: limit as u64,
            setting: "--http-max-input-size",
            pace,
            budget: Budget::new(budget),
        }
    }

    fn inflate(body: &[u8], limits: &Limits, aligned_at: usize) -> Result<Received, Error> {
        let permit = limits.budget.take(body.len()).unwrap();
        let body = Received { bytes: Bytes::copy_from_slice(body), permit };
        let mut inflation =
            Inflation::new(Encoding::Gzip, "content-encoding", body, aligned_at, limits)?;
        // In two parts, as a large one is.
        if !inflation.run(1000)? {
            assert!(inflation.run(usize::MAX)?);
        }
        Ok(inflation.finish())
    }

    /// Bytes that do not compress well.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn both_frames_are_read_whatever_the_header_says() {
        for length in [0, 1, 1000, STEP, STEP + 1, 300_000] {
            let plain = noise(length);
            for body in [gzip(&plain), zlib(&plain)] {
                let limits = limits(1 << 20, 1 << 21);
                let received = inflate(&body, &limits, 0).unwrap();
                assert_eq!(received.bytes, plain);
                // What was compressed is given back, what is plain is not.
                let used = limits.budget.used();
                assert!(length <= used && used <= 4 * length + 4 * STEP, "{used}");
                drop(received);
                assert_eq!(limits.budget.used(), 0);
            }
        }
    }

    #[test]
    fn tensors_lie_aligned_however_often_the_buffer_has_grown() {
        let plain = vec![7; 5 << 20];
        for aligned_at in [0, 1, 63, 167] {
            let body = gzip(&[noise(100_000), plain.clone()].concat());
            let received = inflate(&body, &limits(1 << 30, 1 << 30), aligned_at).unwrap();
            assert_eq!((received.bytes.as_ptr() as usize + aligned_at) % 64, 0);
            assert_eq!(received.bytes.len(), 100_000 + plain.len());
        }
    }

    #[test]
    fn a_body_is_as_large_as_the_limit_and_no_larger() {
        let plain = noise(100_000);
        assert!(inflate(&gzip(&plain), &limits(100_000, 1 << 20), 0).is_ok());
        let error = inflate(&gzip(&plain), &limits(99_999, 1 << 20), 0).unwrap_err();
        assert!(matches!(error, Error::BodyTooLarge { limit: 99_999, .. }), "{error}");
    }

    #[test]
    fn a_bomb_is_stopped_at_its_ratio_before_the_limit() {
        let limits = limits(1 << 30, 256 << 20);
        let small = inflate(&gzip(&vec![0; COMPRESSED.free]), &limits, 0).unwrap();
        assert_eq!(small.bytes.len(), COMPRESSED.free);
        drop(small);
        let bomb = gzip(&vec![0; 80 << 20]);
        let error = inflate(&bomb, &limits, 0).unwrap_err();
        assert_eq!(error, Error::BodyExpands { sent: bomb.len(), ratio: COMPRESSED.ratio });
        assert_eq!(limits.budget.used(), 0);
        // A bomb inside a bomb is data.
        let nested = gzip(&bomb);
        assert_eq!(inflate(&nested, &limits, 0).unwrap().bytes, bomb);
    }

    #[test]
    fn zeros_may_become_a_quarter_of_the_budget() {
        let plain = vec![0; 80 << 20];
        let limits = limits(1 << 30, 4 * plain.len());
        for body in [gzip(&plain), zlib(&plain)] {
            assert_eq!(inflate(&body, &limits, 0).unwrap().bytes.len(), plain.len());
        }
        let larger = gzip(&vec![0; plain.len() + 1]);
        let error = inflate(&larger, &limits, 0).unwrap_err();
        assert!(matches!(error, Error::BodyExpands { .. }), "{error}");
        assert_eq!(limits.budget.used(), 0);
    }

    #[test]
    fn the_budget_holds_for_what_is_plain() {
        let plain = noise(100_000);
        let limits = limits(1 << 20, 150_000);
        let error = inflate(&gzip(&plain), &limits, 0).unwrap_err();
        assert!(matches!(error, Error::OutOfBudget(_)), "{error}");
        assert_eq!(limits.budget.used(), 0);
    }

    #[test]
    fn whatever_is_damaged_is_refused() {
        let limits = Arc::new(limits(1 << 20, 1 << 30));
        let plain = noise(3000);
        for good in [gzip(&plain), zlib(&plain)] {
            for length in 0..good.len() {
                assert!(inflate(&good[..length], &limits, 0).is_err(), "cut at {length}");
            }
            let longer = [&good[..], b"x"].concat();
            let error = inflate(&longer, &limits, 0).unwrap_err().to_string();
            assert!(error.contains("1 bytes follow"), "{error}");
            let twice = [&good[..], &good[..]].concat();
            assert!(inflate(&twice, &limits, 0).is_err());
            let mut checksum = good.clone();
            let last = checksum.len() - 5;
            checksum[last] ^= 1;
            assert!(inflate(&checksum, &limits, 0).is_err());
        }
        for junk in
            [&b""[..], b"{", b"{}", b"\x1f", b"\x1f\x8b", b"PK\x03\x04", b"\x78", b"\x78\x9d"]
        {
            let error = inflate(junk, &limits, 0).unwrap_err();
            assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
        }
    }
}
