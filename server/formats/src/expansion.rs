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
//! Within these limits, each decoder asks its [`Grant`](inference::grant::Grant) for the bytes that it takes at most
//! beside the body, before it takes any. Most know only a bound, which holds for any body. It is found by the length
//! alone where that gives at most the bytes that the caller can easily spare, `loose`; else it is a close one, for
//! which separators are counted.

use backend::DataType;
use inference::{error::Error, signature::Signature};

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

/// A list that grows by doubling has room for twice its elements, and while it grows its former memory is there, too.
pub const DOUBLING: usize = 3;

/// Bytes that one key of an object takes while the object is checked for repeated keys: a set of borrowed texts that
/// grows by doubling.
pub const KEY: usize = 88;

/// Bytes that one custom parameter takes beside the text of its name and value: [`KEY`], its place in a list that
/// grows by doubling, and two shared texts.
pub const PARAMETER: usize = KEY + 40 * DOUBLING + 48;

/// Elements for which memory is made before they are read, when a shape calls for them: as many, or one for each eight
/// bytes of text. For more of them, the commas are counted first.
pub const UNCOUNTED: usize = 1 << 10;

/// Least bytes of text that an element has which needs no counting.
pub const SPELLED: usize = 8;

/// What the elements of a model's inputs take.
#[derive(Debug, Clone, Copy)]
pub struct Elements {
    /// Bytes of one element of the widest type; of a string, its length.
    pub size: usize,
    /// Do strings come as they are?
    pub strings: bool,
}

impl Elements {
    /// Those of any input.
    pub fn of(signature: &Signature) -> Elements {
        let sizes = signature.inputs.iter().map(|it| it.dtype.size().unwrap_or(4));
        let strings = signature.inputs.iter().any(|it| it.dtype == DataType::Bytes);
        Elements { size: sizes.max().unwrap_or(0), strings }
    }
}

/// How the elements of a text are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separators {
    /// One JSON document: an element stands behind a comma, a bracket or a colon.
    Document,
    /// Several JSON documents: an element also begins with, or stands behind, a byte that is no part of a positive
    /// number.
    Documents,
    /// Fields of text, which may be empty, with such a byte behind each.
    Fields,
}

impl Separators {
    fn is_separator(self, byte: u8) -> bool {
        match self {
            Separators::Document => matches!(byte, b',' | b'[' | b':'),
            Separators::Documents | Separators::Fields => {
                !matches!(byte, b'0'..=b'9' | b'.' | b'+')
            }
        }
    }

    fn count(self, text: &[u8]) -> usize {
        let all = count(text, |it| self.is_separator(it));
        match self {
            Separators::Document | Separators::Fields => all,
            // Of several blanks, only the last one can be in front of an element.
            Separators::Documents => {
                let blank = |it: u8| matches!(it, b' ' | b'\n' | b'\r' | b'\t');
                let pairs = text.iter().zip(text.iter().skip(1));
                all - pairs.filter(|it| blank(*it.0) && blank(*it.1)).count()
            }
        }
    }

    /// The byte without which each string is borrowed from the text.
    fn escape(self) -> u8 {
        match self {
            Separators::Document | Separators::Documents => b'\\',
            Separators::Fields => b'"',
        }
    }

    /// Most elements of a text of so many bytes.
    fn most(self, length: usize) -> usize {
        match self {
            Separators::Document => length / 2 + 1,
            Separators::Documents | Separators::Fields => length + 1,
        }
    }
}

/// What a text holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    /// Its bytes.
    pub length: usize,
    /// Elements.
    pub values: usize,
    /// Keys of objects.
    pub keys: usize,
    /// Bytes of strings, their quotes included.
    pub strings: usize,
    /// Does it hold strings that cannot be borrowed?
    pub escapes: bool,
}

impl Text {
    /// By its length alone.
    fn of_length(separators: Separators, length: usize) -> Text {
        let keys = if separators == Separators::Fields { 0 } else { length / 5 };
        Text { length, values: separators.most(length), keys, strings: length, escapes: true }
    }

    /// By its separators.
    fn counted(separators: Separators, text: &[u8]) -> Text {
        let rough = Text::of_length(separators, text.len());
        let escapes = text.contains(&separators.escape());
        let strings =
            if escapes || separators == Separators::Fields { text.len() } else { quoted(text) };
        Text {
            values: rough.values.min(1 + separators.count(text)),
            keys: rough.keys.min(count(text, |it| it == b':')),
            strings,
            escapes,
            ..rough
        }
    }

    /// The bound that `bytes` gives for this text: one by its length where that is at most `loose`, else the closer one
    /// by its separators, which takes a pass over the text.
    pub fn bound(
        separators: Separators,
        text: &[u8],
        loose: usize,
        bytes: impl Fn(Text) -> usize,
    ) -> usize {
        let rough = bytes(Text::of_length(separators, text.len()));
        match rough <= loose {
            true => rough,
            false => bytes(Text::counted(separators, text)),
        }
    }

    /// Bytes of all elements, in lists that grow by doubling.
    pub fn grown(self, elements: Elements) -> usize {
        let strings = if elements.strings { self.strings } else { 0 };
        self.values.saturating_mul(elements.size).saturating_add(strings).saturating_mul(DOUBLING)
    }

    /// Bytes of numbers, in lists that are made as long as a shape says.
    pub fn promised(self, elements: Elements) -> usize {
        let uncounted = (self.length / SPELLED).max(UNCOUNTED);
        self.values.max(uncounted).min(self.length / 2 + 1).saturating_mul(elements.size)
    }

    /// Bytes of what is read beside elements, of which a key takes so many: sets of keys, and strings with escapes, of
    /// which paths have copies.
    pub fn read(self, key: usize) -> usize {
        let copies = if self.escapes { 4 * self.strings } else { 0 };
        self.keys.saturating_mul(key).saturating_add(copies)
    }
}

/// Bytes between quotes, in a text without escapes.
fn quoted(text: &[u8]) -> usize {
    let (mut inside, mut bytes) = (false, 0);
    for chunk in text.chunks(64) {
        // Most chunks of a text of numbers have none.
        if !chunk.iter().fold(false, |any, &it| any | (it == b'"')) {
            bytes += if inside { chunk.len() } else { 0 };
            continue;
        }
        for &byte in chunk {
            inside ^= byte == b'"';
            bytes += usize::from(inside || byte == b'"');
        }
    }
    bytes
}

/// How many bytes are of that kind. Counted in bytes, so that a register holds many counters.
pub fn count(text: &[u8], is: impl Fn(u8) -> bool) -> usize {
    let some = |chunk: &[u8]| chunk.iter().fold(0u8, |sum, &it| sum.wrapping_add(u8::from(is(it))));
    text.chunks(usize::from(u8::MAX)).map(|it| usize::from(some(it))).sum()
}

/// Bytes that stand for each input and output, however small it is: its place in lists, its shape, its owner.
pub fn of_ports(signature: &Signature) -> usize {
    const PORT: usize = 1 << 10;
    (1 + signature.inputs.len() + signature.outputs.len()).saturating_mul(PORT)
}

/// The bound for a text whose elements go straight into lists that grow, one for each input.
pub fn of_rows(signature: &Signature, separators: Separators, text: &[u8], loose: usize) -> usize {
    if signature.inputs.iter().any(|it| signature.takes_files(&it.name)) {
        return of_files(text).saturating_add(of_ports(signature));
    }
    let elements = Elements::of(signature);
    let bytes =
        Text::bound(separators, text, loose, |it| it.grown(elements).saturating_add(it.read(KEY)));
    bytes.saturating_add(of_ports(signature))
}

/// The same for a text whose elements are files in base64, whose letters separate nothing.
fn of_files(text: &[u8]) -> usize {
    /// The length in front of an element.
    const LENGTH: usize = 4;
    let elements = count(text, |it| it == b'"') / 2;
    let keys = count(text, |it| it == b':');
    let strings = text.len().saturating_add(elements.saturating_mul(LENGTH));
    // Of a string with escapes there is a copy, and one without the line breaks in it.
    let copies = if text.contains(&b'\\') { 4 * text.len() } else { text.len() };
    strings.saturating_mul(DOUBLING).saturating_add(copies).saturating_add(keys * KEY)
}
