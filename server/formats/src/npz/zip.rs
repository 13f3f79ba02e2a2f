//! The files of a ZIP archive, as far as NumPy writes them: stored or deflated, without encryption, below 4 GiB.
//! Source: PKWARE's APPNOTE.TXT.

use std::ops::Range;

use bytes::Bytes;
use flate2::{Crc, Decompress, FlushDecompress, Status};

use crate::expansion::COMPRESSED;
use inference::{
    error::{Error, HTTP_BODY_LIMIT},
    grant::Grant,
};

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// Its name.
    pub(super) name: String,
    /// What is in it.
    pub(super) data: Bytes,
}

/// Most files of an archive.
const MOST_FILES: usize = 1024;

/// Length of the record at the end, without its comment.
const END: usize = 22;

/// All files, in the order of the archive's directory. Stored ones are slices of it.
///
/// # Errors
/// [`Error::InvalidRequest`] where the archive is damaged, of a kind that NumPy does not write, or has
/// files that share bytes; [`Error::BodyExpands`] and [`Error::BodyTooLarge`] where its files become too large.
pub(super) fn files(
    archive: &Bytes,
    limit: Option<u64>,
    grant: &Grant,
) -> Result<Vec<File>, Error> {
    /// Bytes of a file's place in the list, and of the owner of its bytes.
    const FILE: usize = 256;
    /// Bytes of the state of inflation.
    const INFLATION: usize = 64 << 10;
    let sent = archive.len();
    let (count, start) = directory(archive)?;
    if count > MOST_FILES {
        return Err(invalid(format!("it has {count} files, expected {MOST_FILES} at most")));
    }
    grant.take(|_| count * FILE)?;
    let mut rest = archive.get(start..).unwrap_or_default();
    let (mut files, mut total, mut packed) = (Vec::with_capacity(count), 0usize, 0usize);
    // One file after the other is inflated.
    let mut inflation = INFLATION;
    for _ in 0..count {
        // A byte of a name that is no UTF-8 becomes three.
        grant.take(|_| 3 * ZipEntry::name_length(rest))?;
        let (entry, tail) = ZipEntry::read(rest)?;
        rest = tail;
        total = total.saturating_add(entry.plain);
        if let Some(limit) = limit.filter(|&it| it < total as u64) {
            return Err(Error::BodyTooLarge {
                given: total as u64,
                limit,
                setting: HTTP_BODY_LIMIT,
            });
        }
        COMPRESSED.check(sent, total)?;
        packed = packed.saturating_add(entry.packed);
        if sent < packed {
            return Err(invalid(
                "its files are longer together than the archive: some share their bytes",
            ));
        }
        if entry.method != 0 {
            let plain = entry.plain.saturating_add(std::mem::take(&mut inflation));
            grant.take(|_| plain)?;
        }
        let data = entry.data(archive)?;
        files.push(File { name: entry.name, data });
    }
    Ok(files)
}

fn invalid(problem: impl std::fmt::Display) -> Error {
    Error::InvalidRequest(format!("npz: {problem}"))
}

/// How many files there are, and where their directory begins.
fn directory(archive: &[u8]) -> Result<(usize, usize), Error> {
    const TOO_LARGE: &str = "archives of 4 GiB or more, or of 65535 files, are not read";
    // A comment of at most 64 KiB may follow.
    let earliest = archive.len().saturating_sub(END + usize::from(u16::MAX));
    let tail = archive.get(earliest..).unwrap_or_default();
    let mut ends = tail.windows(END).enumerate().rev().filter(|(at, it)| {
        it.starts_with(b"PK\x05\x06") && usize::from(short(it, 20)) == tail.len() - at - END
    });
    let no_end = || invalid("the archive has no end: it is cut off, or no ZIP archive");
    let (_, end) = ends.next().ok_or_else(no_end)?;
    let (count, start) = (short(end, 10), long(end, 16));
    if count == u16::MAX || start == u32::MAX {
        return Err(invalid(TOO_LARGE));
    }
    if short(end, 4) != 0 || short(end, 8) != count {
        return Err(invalid("archives in several parts are not read"));
    }
    Ok((count.into(), usize::try_from(start).map_err(|_| invalid(TOO_LARGE))?))
}

/// One entry of the directory.
struct ZipEntry {
    name: String,
    method: u16,
    checksum: u32,
    /// Bytes in the archive.
    packed: usize,
    /// Bytes of the file.
    plain: usize,
    /// Where its own head is.
    offset: usize,
}

impl ZipEntry {
    /// Bytes of the name of the entry that a directory begins with.
    fn name_length(directory: &[u8]) -> usize {
        short(directory, 28).into()
    }

    fn read(directory: &[u8]) -> Result<(ZipEntry, &[u8]), Error> {
        const HEAD: usize = 46;
        let damaged = || invalid("the archive's directory is damaged");
        let (head, rest) = directory.split_at_checked(HEAD).ok_or_else(damaged)?;
        if !head.starts_with(b"PK\x01\x02") {
            return Err(damaged());
        }
        let lengths = [28, 30, 32].map(|at| usize::from(short(head, at)));
        let (name, rest) = rest.split_at_checked(lengths[0]).ok_or_else(damaged)?;
        let (_, rest) = rest.split_at_checked(lengths[1] + lengths[2]).ok_or_else(damaged)?;
        let name = String::from_utf8_lossy(name).into_owned();
        if short(head, 8) & 1 != 0 {
            return Err(invalid(format_args!("file '{name}' is encrypted")));
        }
        let [packed, plain, offset] = [20, 24, 42].map(|at| long(head, at));
        if [packed, plain, offset].contains(&u32::MAX) {
            let problem = format_args!("file '{name}' has 4 GiB or more, which is not read");
            return Err(invalid(problem));
        }
        let entry = ZipEntry {
            name,
            method: short(head, 10),
            checksum: long(head, 16),
            packed: packed as usize,
            plain: plain as usize,
            offset: offset as usize,
        };
        Ok((entry, rest))
    }

    fn damaged(&self, problem: impl std::fmt::Display) -> Error {
        invalid(format_args!("file '{}': {problem}", self.name))
    }

    /// Where the bytes of the file are in the archive.
    fn place(&self, archive: &[u8]) -> Result<Range<usize>, Error> {
        const HEAD: usize = 30;
        let rest = archive.get(self.offset..).unwrap_or_default();
        let head = rest.get(..HEAD).filter(|it| it.starts_with(b"PK\x03\x04"));
        let elsewhere = || self.damaged("its place in the archive holds something else");
        let head = head.ok_or_else(elsewhere)?;
        let start =
            self.offset + HEAD + usize::from(short(head, 26)) + usize::from(short(head, 28));
        let end = start.checked_add(self.packed).filter(|&it| it <= archive.len());
        Ok(start..end.ok_or_else(|| self.damaged("the archive ends inside of it"))?)
    }

    /// What is in the file.
    fn data(&self, archive: &Bytes) -> Result<Bytes, Error> {
        let packed = archive.slice(self.place(archive)?);
        let data = match self.method {
            0 if self.packed == self.plain => packed,
            0 => return Err(self.damaged("it is stored, and has two lengths")),
            8 => self.inflate(&packed)?.into(),
            other => {
                let problem = format_args!("expected it stored or deflated, given method {other}");
                return Err(self.damaged(problem));
            }
        };
        let mut crc = Crc::new();
        crc.update(&data);
        match crc.sum() == self.checksum {
            true => Ok(data),
            false => Err(self.damaged("its checksum is wrong")),
        }
    }

    /// Its bytes, of deflated data.
    fn inflate(&self, packed: &[u8]) -> Result<Vec<u8>, Error> {
        let plain = self.plain;
        // Deflate's best is a thousand to one: what promises more takes no memory for it.
        let room = plain.min(packed.len().saturating_mul(1032)).saturating_add(1);
        let mut data = Vec::with_capacity(room);
        let inflated =
            Decompress::new(false).decompress_vec(packed, &mut data, FlushDecompress::Finish);
        let status = inflated
            .map_err(|problem| self.damaged(format_args!("it cannot be inflated: {problem}")))?;
        let found = data.len();
        match status == Status::StreamEnd && found == plain {
            true => Ok(data),
            false => Err(self.damaged(format_args!("expected {plain} bytes in it, found {found}"))),
        }
    }
}

/// Two bytes of a record that is known to be long enough.
fn short(record: &[u8], at: usize) -> u16 {
    let bytes = record.get(at..).and_then(|it| it.first_chunk());
    u16::from_le_bytes(bytes.copied().unwrap_or_default())
}

/// Four bytes of a record that is known to be long enough.
fn long(record: &[u8], at: usize) -> u32 {
    let bytes = record.get(at..).and_then(|it| it.first_chunk());
    u32::from_le_bytes(bytes.copied().unwrap_or_default())
}
