//! The files in a zip archive: their names, from the list at its end, and the contents of one.

use std::io::{self, Read, Seek, SeekFrom};

use flate2::read::DeflateDecoder;

/// The record at the end: its length without the comment that may follow, and the longest such comment.
const END: usize = 22;
const LONGEST_COMMENT: u64 = 0xFFFF;

/// Where a list of ZIP64 is said to be, just before the record at the end.
const LOCATOR: usize = 20;

/// A longer list is none: a million files.
const LONGEST_LIST: u64 = 64 << 20;

/// A file in the archive.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    is_packed: bool,
    /// Bytes in the archive.
    length: u64,
    /// Where its header is.
    offset: u64,
}

/// The length of a file's header without its name and what stands behind it.
const HEADER: usize = 30;

/// The number in the place of one that needs 64 bits, which is among those further ones.
const IN_64_BITS: u64 = 0xFFFF_FFFF;

/// The contents of a file.
///
/// # Errors
/// `InvalidData` where there are more bytes than `most`, or the archive is damaged.
pub(crate) fn contents(
    mut file: impl Read + Seek,
    entry: &Entry,
    most: u64,
) -> io::Result<Vec<u8>> {
    let header = read(&mut file, entry.offset, HEADER as u64)?;
    if !header.starts_with(b"PK\x03\x04") {
        return Err(malformed());
    }
    let begin = HEADER as u64 + number::<2>(&header, 26)? + number::<2>(&header, 28)?;
    file.seek(SeekFrom::Start(entry.offset.checked_add(begin).ok_or_else(malformed)?))?;
    let packed = file.take(entry.length);
    let mut bytes = Vec::new();
    let limit = most.saturating_add(1);
    match entry.is_packed {
        true => DeflateDecoder::new(packed).take(limit).read_to_end(&mut bytes)?,
        false => packed.take(limit).read_to_end(&mut bytes)?,
    };
    match bytes.len() as u64 <= most {
        true => Ok(bytes),
        false => Err(malformed()),
    }
}

/// All names, in the order of the list.
///
/// # Errors
/// As of [`entries`].
pub(crate) fn names(file: impl Read + Seek) -> io::Result<Vec<String>> {
    Ok(entries(file)?.into_iter().map(|it| it.name).collect())
}

/// All files, in the order of the list.
///
/// # Errors
/// `InvalidData` where the file does not end as an archive does.
pub(crate) fn entries(mut file: impl Read + Seek) -> io::Result<Vec<Entry>> {
    let length = file.seek(SeekFrom::End(0))?;
    let begin = length.saturating_sub(LONGEST_COMMENT + (END + LOCATOR) as u64);
    let tail = read(&mut file, begin, length - begin)?;
    let end = tail.windows(4).rposition(|it| it == b"PK\x05\x06").ok_or_else(malformed)?;
    let record = tail.get(end..).unwrap_or_default();
    let (mut size, mut offset) = (number::<4>(record, 12)?, number::<4>(record, 16)?);
    let locator = end.checked_sub(LOCATOR).and_then(|it| tail.get(it..end));
    if let Some(locator) = locator.filter(|it| it.starts_with(b"PK\x06\x07")) {
        let record = read(&mut file, number::<8>(locator, 8)?, 56)?;
        (size, offset) = (number::<8>(&record, 40)?, number::<8>(&record, 48)?);
    }
    if size > LONGEST_LIST || offset.checked_add(size).is_none_or(|it| it > length) {
        return Err(malformed());
    }
    let list = read(&mut file, offset, size)?;
    let mut entries = Vec::new();
    let mut rest = list.as_slice();
    while rest.starts_with(b"PK\x01\x02") {
        let part = |at| number::<2>(rest, at).map(|it| it as usize);
        let (name, extra, comment) = (part(28)?, part(30)?, part(32)?);
        let text = rest.get(46..46 + name).ok_or_else(malformed)?;
        let further = rest.get(46 + name..46 + name + extra).ok_or_else(malformed)?;
        let mut further = Further::of(further);
        // In this order where they are among the further ones, and the plain length is first.
        further.or(number::<4>(rest, 24)?);
        let length = further.or(number::<4>(rest, 20)?);
        let offset = further.or(number::<4>(rest, 42)?);
        let shown = String::from_utf8_lossy(text).into_owned();
        let is_packed = number::<2>(rest, 10)? == 8;
        rest = rest.get(46 + name + extra + comment..).ok_or_else(malformed)?;
        entries.push(Entry { name: shown, is_packed, length, offset });
    }
    Ok(entries)
}

/// Numbers of 64 bits that have no place in an entry itself.
struct Further<'a>(&'a [u8]);

impl Further<'_> {
    /// Those of the field for them, among the fields behind a name.
    fn of(mut fields: &[u8]) -> Further<'_> {
        while let (Ok(kind), Ok(length)) = (number::<2>(fields, 0), number::<2>(fields, 2)) {
            let end = 4 + length as usize;
            if kind == 1 {
                return Further(fields.get(4..end).unwrap_or_default());
            }
            fields = fields.get(end..).unwrap_or_default();
        }
        Further(&[])
    }

    /// That number, or the next one where it has no place itself.
    fn or(&mut self, given: u64) -> u64 {
        if given != IN_64_BITS {
            return given;
        }
        let next = number::<8>(self.0, 0);
        self.0 = self.0.get(8..).unwrap_or_default();
        next.unwrap_or(given)
    }
}

fn read(file: &mut (impl Read + Seek), offset: u64, length: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| malformed())?];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The little-endian number of `N` bytes that stands there.
fn number<const N: usize>(bytes: &[u8], at: usize) -> io::Result<u64> {
    let bytes = bytes.get(at..at + N).ok_or_else(malformed)?;
    Ok(bytes.iter().rev().fold(0, |number, &it| number << 8 | u64::from(it)))
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the archive has no list of its files at its end")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// An archive of empty files of those names; only the list.
    fn archive(list: &[&str], zip64: bool) -> Vec<u8> {
        let mut bytes = b"PK\x03\x04".to_vec();
        let offset = bytes.len() as u64;
        for name in list {
            let mut entry = [&b"PK\x01\x02"[..], &[0; 42]].concat();
            entry[28] = name.len() as u8;
            entry[30] = 3;
            bytes.extend([&entry[..], name.as_bytes(), b"xxx"].concat());
        }
        let size = bytes.len() as u64 - offset;
        let mut end = [&b"PK\x05\x06"[..], &[0xFF; 16], &[2, 0], b"no"].concat();
        if zip64 {
            let at = bytes.len() as u64;
            bytes.extend([&b"PK\x06\x06"[..], &[0; 36]].concat());
            bytes.extend([size, offset].map(u64::to_le_bytes).concat());
            bytes.extend([&b"PK\x06\x07\0\0\0\0"[..], &at.to_le_bytes(), &[0; 4]].concat());
        } else {
            end[12..16].copy_from_slice(&(size as u32).to_le_bytes());
            end[16..20].copy_from_slice(&(offset as u32).to_le_bytes());
        }
        [bytes, end].concat()
    }

    #[test]
    fn names_are_listed_in_both_formats() {
        for zip64 in [false, true] {
            let archive = archive(&["m/data.pkl", "m/version"], zip64);
            assert_eq!(names(Cursor::new(archive)).unwrap(), ["m/data.pkl", "m/version"]);
        }
    }

    #[test]
    fn an_archive_that_is_cut_anywhere_is_an_error_or_has_its_list() {
        let whole = archive(&["m/data.pkl"], true);
        // The comment at the end is not needed.
        for end in 0..whole.len() - 4 {
            names(Cursor::new(&whole[..end])).unwrap_err();
        }
    }
}
