//! Files of records: each has its length, a checksum of that, its bytes, and a checksum of those. Pure.

use super::error::Defect;

/// Bytes before and behind a record's own.
const HEADER: usize = 12;
const FOOTER: usize = 4;

/// The records, up to the first that is damaged: then half a sentence that says how.
pub(super) fn records(file: &[u8]) -> impl Iterator<Item = Result<&[u8], Defect>> {
    let mut rest = Some(file);
    std::iter::from_fn(move || {
        let file = rest.take().filter(|it| !it.is_empty())?;
        match first(file) {
            Ok((record, others)) => {
                rest = Some(others);
                Some(Ok(record))
            }
            Err(problem) => Some(Err(Defect::new(problem))),
        }
    })
}

/// The first record, and what follows it.
fn first(file: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    const CUT: &str = "is cut off";
    let (header, rest) = file.split_at_checked(HEADER).ok_or(CUT)?;
    let (length, checksum) = header.split_at_checked(8).ok_or(CUT)?;
    if Some(masked(length)) != number(checksum) {
        return Err("has a length with a wrong checksum");
    }
    let length = length.try_into().ok().map(u64::from_le_bytes);
    let length = length.and_then(|it| usize::try_from(it).ok()).ok_or(CUT)?;
    let (record, rest) = rest.split_at_checked(length).ok_or(CUT)?;
    let (checksum, rest) = rest.split_at_checked(FOOTER).ok_or(CUT)?;
    match Some(masked(record)) == number(checksum) {
        true => Ok((record, rest)),
        false => Err("has a wrong checksum"),
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}

/// The checksum as such files have it: one of a checksum would be weak.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), a byte at a time: the files are small.
fn crc32c(bytes: &[u8]) -> u32 {
    let next = |sum: u32, byte: &u8| {
        let index = (sum ^ u32::from(*byte)) & 0xff;
        TABLE[index as usize] ^ (sum >> 8)
    };
    !bytes.iter().fold(!0, next)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut sum = index as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn written(records: &[&[u8]]) -> Vec<u8> {
        let one = |record: &&[u8]| {
            let length = (record.len() as u64).to_le_bytes();
            let (of_length, of_record) = (masked(&length), masked(record));
            [&length[..], &of_length.to_le_bytes(), record, &of_record.to_le_bytes()].concat()
        };
        records.iter().flat_map(one).collect()
    }

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn records_are_read_in_their_order_and_an_empty_file_has_none() {
        let file = written(&[b"one", b"", b"three"]);
        let found: Vec<&[u8]> = records(&file).map(Result::unwrap).collect();
        assert_eq!(found, [&b"one"[..], b"", b"three"]);
        assert_eq!(records(&[]).count(), 0);
    }

    #[test]
    fn whatever_is_damaged_ends_the_file_with_the_reason() {
        let file = written(&[b"one", b"two"]);
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 4;
            let found: Vec<_> = records(&damaged).collect();
            assert!(found.last().unwrap().is_err(), "{at}");
            let problems = found.iter().filter(|it| it.is_err()).count();
            assert_eq!(problems, 1, "{at}");
        }
        for length in 1..file.len() {
            let found = records(&file[..length]).last().unwrap();
            let is_whole = length == file.len() / 2;
            assert_eq!(found.is_ok(), is_whole, "{length}");
        }
    }
}
