//! The names of the files in a zip archive, from the list at its end. Reads nothing else of it.

use std::io::{self, Read, Seek, SeekFrom};

/// The record at the end: its length without the comment that may follow, and the longest such comment.
const END: usize = 22;
const LONGEST_COMMENT: u64 = 0xFFFF;

/// Where a list of ZIP64 is said to be, just before the record at the end.
const LOCATOR: usize = 20;

/// A longer list is none: a million files.
const LONGEST_LIST: u64 = 64 << 20;

/// All names, in the order of the list.
///
/// # Errors
/// `InvalidData` where the file does not end as an archive does.
pub(crate) fn names(mut file: impl Read + Seek) -> io::Result<Vec<String>> {
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
    let mut names = Vec::new();
    let mut rest = list.as_slice();
    while rest.starts_with(b"PK\x01\x02") {
        let part = |at| number::<2>(rest, at).map(|it| it as usize);
        let (name, extra, comment) = (part(28)?, part(30)?, part(32)?);
        let text = rest.get(46..46 + name).ok_or_else(malformed)?;
        names.push(String::from_utf8_lossy(text).into_owned());
        rest = rest.get(46 + name + extra + comment..).ok_or_else(malformed)?;
    }
    Ok(names)
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
