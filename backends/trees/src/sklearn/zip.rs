//! Archives with stored and deflated entries, read from memory. Each entry is inflated when it is asked for. Pure.

use std::{cell::Cell, collections::BTreeMap, io::Read};

use flate2::{Crc, read::DeflateDecoder};

use crate::error::FormatError;

const ENTRIES: usize = 100_000;
/// An entry may become so many times larger.
const RATIO: usize = 100;
/// All entries that are read may be so many times larger than the file, and [`ALLOWANCE`].
const FACTOR: usize = 4;
const ALLOWANCE: usize = 16 << 20;

const END: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const CENTRAL: &[u8] = b"PK\x01\x02";
const CENTRAL_BYTES: usize = 46;
const LOCAL: &[u8] = b"PK\x03\x04";
const LOCAL_BYTES: usize = 30;
const STORED: usize = 0;
const DEFLATED: usize = 8;

/// An archive.
pub(super) struct Zip<'a> {
    bytes: &'a [u8],
    entries: BTreeMap<&'a [u8], ZipEntry>,
    /// Bytes that may still be read.
    left: Cell<usize>,
}

#[derive(Clone, Copy)]
struct ZipEntry {
    method: usize,
    crc: u32,
    packed: usize,
    bytes: usize,
    offset: usize,
}

impl<'a> Zip<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Zip<'a>, FormatError> {
        let mut zip = Zip { bytes, entries: BTreeMap::new(), left: Cell::new(0) };
        zip.left.set(zip.limit());
        // A comment of up to 64 KiB may follow the end.
        let from = bytes.len().saturating_sub(END_BYTES + 0xffff);
        let at = bytes[from..].windows(END.len()).rposition(|it| it == END);
        let Some(end) = at.and_then(|it| bytes.get(from + it..from + it + END_BYTES)) else {
            return Err(FormatError::new("the archive has no end: a part of it is missing"));
        };
        let (count, mut at) = (number(end, 10, 2), number(end, 16, 4));
        if ENTRIES < count {
            return Err(FormatError::new(format!("{count} entries, at most {ENTRIES} are read")));
        }
        for _ in 0..count {
            let past = || FormatError::past_the_end("the list of the archive's entries", at);
            let head = bytes.get(at..at.saturating_add(CENTRAL_BYTES)).ok_or_else(past)?;
            if !head.starts_with(CENTRAL) {
                return Err(FormatError::new(format!("no entry of the archive at offset {at}")));
            }
            let name = number(head, 28, 2);
            let start = at + CENTRAL_BYTES;
            let entry = ZipEntry {
                method: number(head, 10, 2),
                crc: number(head, 16, 4) as u32,
                packed: number(head, 20, 4),
                bytes: number(head, 24, 4),
                offset: number(head, 42, 4),
            };
            zip.entries.insert(bytes.get(start..start + name).ok_or_else(past)?, entry);
            at = start + name + number(head, 30, 2) + number(head, 32, 2);
        }
        Ok(zip)
    }

    /// Bytes that all entries may have together as often as they are read.
    pub(super) fn limit(&self) -> usize {
        FACTOR * self.bytes.len() + ALLOWANCE
    }

    /// An entry.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, FormatError> {
        let refuse =
            |problem: String| FormatError::new(format!("'{name}' of the archive {problem}"));
        let Some(entry) = self.entries.get(name.as_bytes()).copied() else {
            return Err(refuse("is missing".to_owned()));
        };
        let Some(left) = self.left.get().checked_sub(entry.bytes) else {
            return Err(refuse(format!("and others have more than {} bytes", self.limit())));
        };
        self.left.set(left);
        let local = self.bytes.get(entry.offset..entry.offset.saturating_add(LOCAL_BYTES));
        let Some(local) = local.filter(|it| it.starts_with(LOCAL)) else {
            return Err(refuse("does not lie where it should".to_owned()));
        };
        let start = entry.offset + LOCAL_BYTES + number(local, 26, 2) + number(local, 28, 2);
        let Some(packed) = self.bytes.get(start..start.saturating_add(entry.packed)) else {
            return Err(FormatError::past_the_end(format!("'{name}' of the archive"), start));
        };
        let content = match entry.method {
            STORED => packed.to_vec(),
            DEFLATED if packed.len().saturating_mul(RATIO) < entry.bytes => {
                return Err(refuse(format!("would become more than {RATIO} times larger")));
            }
            DEFLATED => {
                let mut content = Vec::with_capacity(entry.bytes);
                let limit = entry.bytes as u64 + 1;
                match DeflateDecoder::new(packed).take(limit).read_to_end(&mut content) {
                    Ok(_) => content,
                    Err(error) => return Err(refuse(format!("cannot be inflated: {error}"))),
                }
            }
            method => {
                return Err(refuse(format!("is packed by method {method}; 0 and 8 are read")));
            }
        };
        let mut crc = Crc::new();
        crc.update(&content);
        match content.len() == entry.bytes && crc.sum() == entry.crc {
            true => Ok(content),
            false => Err(refuse("is damaged".to_owned())),
        }
    }
}

/// A little-endian number of so many bytes. They are there.
fn number(bytes: &[u8], at: usize, width: usize) -> usize {
    bytes[at..at + width].iter().rev().fold(0, |sum, it| sum << 8 | usize::from(*it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> Vec<u8> {
        let path = "../../tests/fixtures/forests/sklearn-1.9.1/random_forest.skops";
        std::fs::read(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect("a fixture")
    }

    #[test]
    fn entries_are_read_by_name() {
        let file = fixture();
        let zip = Zip::open(&file).expect("an archive");
        let schema = zip.read("schema.json").expect("an entry");
        assert!(schema.starts_with(b"{") && schema.ends_with(b"}"));
        let error = zip.read("other").expect_err("it is there").to_string();
        assert_eq!(error, "'other' of the archive is missing");
    }

    #[test]
    fn an_entry_is_not_larger_than_it_says_nor_than_it_may_be() {
        let file = fixture();
        let at =
            file.windows(11).rposition(|it| it == b"schema.json").expect("a name") - CENTRAL_BYTES;
        let with = |bytes: u32| {
            let mut file = file.clone();
            file[at + 24..at + 28].copy_from_slice(&bytes.to_le_bytes());
            Zip::open(&file)
                .and_then(|it| it.read("schema.json"))
                .expect_err("it is read")
                .to_string()
        };
        assert!(with(100).contains("is damaged"));
        assert!(with(u32::MAX).contains("and others have more than"));
        assert!(with(16_000_000).contains("would become more than 100 times larger"));
    }

    #[test]
    fn what_is_read_again_and_again_is_counted() {
        let file = fixture();
        let zip = Zip::open(&file).expect("an archive");
        let error = (0..1_000_000).find_map(|_| zip.read("schema.json").err()).expect("a bound");
        assert!(error.to_string().contains("and others have more than"));
    }

    #[test]
    fn a_cut_archive_is_refused() {
        let file = fixture();
        for end in (0..file.len()).step_by(7) {
            assert!(Zip::open(&file[..end]).is_err(), "{end}");
        }
    }
}
