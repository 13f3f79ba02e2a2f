//! How much larger a body may become than what was sent: the limits, and the memory that decoding takes.
//!
//! A limit is `free + ratio × sent` bytes. What goes beyond it is refused, however much memory there is:
//!
//! | What grows | free | ratio | at most | Used by |
//! |---|---|---|---|---|
//! | [`COMPRESSED`]: deflated data | 64 MiB | 100 | | `Content-Encoding`, `grpc-encoding`, files of an npz |
//! | [`OMITTED`]: elements that the body leaves out, or spells in a narrower type | 4 MiB | 256 | [`MOST_ELEMENTS`] in sparse rows | libsvm, RecordIO, JSON of AWS's algorithms, npz |
//! | [`OPEN`]: the same where the model leaves the length of a row open, so that the body chooses it | 256 KiB | 8 | [`MOST_ELEMENTS`] | libsvm, RecordIO, JSON of AWS's algorithms, sparse npz |
//! | [`REPEATED`]: text that is read again for each row | 1 MiB | 100 | 64 MiB | `context` of examples |
//! | [`MOST_CELLS`]: cells that records of a table leave out | | | 4 Mi cells | `dataframe_records` |
//!
//! Within these limits, each decoder asks its [`Grant`] for what it makes of the body, before it is made: lists of
//! [`Granted`](inference::granted::Granted) whenever they grow, and what is made at once by its size.

use inference::{error::Error, grant::Grant, signature::Signature};

/// The most bytes that something may become, by the bytes that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Bytes that are always allowed: a few bytes that become many are honest.
    pub free: usize,
    /// How many times the length of what was sent is allowed besides.
    pub ratio: usize,
    /// Bytes that are never exceeded.
    pub most: usize,
}

/// Deflated data. Deflate's best is a thousand to one, which an honest tensor of zeros reaches: so much is free. A
/// whole body may be more than this by what memory allows.
pub const COMPRESSED: Limit = Limit { free: 64 << 20, ratio: 100, most: usize::MAX };

/// Elements that need not be spelled out. Rows of ten thousand columns that give twenty of them become two hundred
/// times as long.
pub const OMITTED: Limit = Limit { free: 4 << 20, ratio: 256, most: usize::MAX };

/// Elements that need not be spelled out, in rows whose length the body chooses: one index of a few digits can make a
/// row as long as memory.
pub const OPEN: Limit = Limit { free: 256 << 10, ratio: 8, most: usize::MAX };

/// Text that is read again for each row that shares it.
pub const REPEATED: Limit = Limit { free: 1 << 20, ratio: 100, most: 64 << 20 };

/// Most elements that sparse rows may become.
pub const MOST_ELEMENTS: usize = 1 << 24;

/// Most cells that the records of a table may leave out altogether. Each becomes a missing value.
pub const MOST_CELLS: usize = 1 << 22;

impl Limit {
    /// The most bytes for a body of `sent` bytes.
    pub const fn bytes(self, sent: usize) -> usize {
        let bytes = self.free.saturating_add(sent.saturating_mul(self.ratio));
        if bytes < self.most { bytes } else { self.most }
    }

    /// That `length` bytes are within the limit.
    ///
    /// # Errors
    /// [`Error::BodyExpands`] where they are not.
    pub const fn check(self, sent: usize, length: usize) -> Result<(), Error> {
        match length <= self.bytes(sent) {
            true => Ok(()),
            false => Err(Error::BodyExpands { sent, ratio: self.ratio }),
        }
    }
}

/// What is left of a limit that several tensors share.
pub struct Allowance {
    limit: Limit,
    sent: usize,
    taken: usize,
}

impl Allowance {
    /// All of it, for a body of `sent` bytes.
    pub fn of(limit: Limit, sent: usize) -> Allowance {
        Allowance { limit, sent, taken: 0 }
    }

    /// Takes `length` bytes for a tensor.
    ///
    /// # Errors
    /// [`Error::BodyExpands`] where so many are not left.
    pub fn take(&mut self, length: usize) -> Result<(), Error> {
        self.taken = self.taken.saturating_add(length);
        self.limit.check(self.sent, self.taken)
    }
}

/// Elements for which memory is made before they are read, when a shape calls for them: as many, or one for each eight
/// bytes of text. For more of them, the commas are counted first.
pub const UNCOUNTED: usize = 1 << 10;

/// Least bytes of text that an element has which needs no counting.
pub const SPELLED: usize = 8;

/// How many bytes are of that kind. Counted in bytes, so that a register holds many counters.
pub fn count(text: &[u8], is: impl Fn(u8) -> bool) -> usize {
    let some = |chunk: &[u8]| chunk.iter().fold(0u8, |sum, &it| sum.wrapping_add(u8::from(is(it))));
    text.chunks(usize::from(u8::MAX)).map(|it| usize::from(some(it))).sum()
}

/// Asks for what stands for each input and output, however small it is: its place in lists, its shape, its owner.
///
/// # Errors
/// It is not granted.
pub fn hold_ports(signature: &Signature, grant: &Grant) -> Result<(), Error> {
    const PORT: usize = 1 << 10;
    let ports = 1 + signature.inputs.len() + signature.outputs.len();
    grant.hold(ports.saturating_mul(PORT))
}
