//! The container of `.xz` files around LZMA2: one stream of blocks, each with its checksum. Pure.
//!
//! Source of the rules: the description of the format by the XZ project.

use std::io::{self, Read};

use flate2::Crc;
use lzma_rust2::Lzma2Reader;

/// The first bytes.
pub(crate) const MAGIC: &[u8] = b"\xfd7zXZ\0";

/// Memory of the largest dictionary: of `xz -9`, and what the decoder takes beside it.
pub(crate) const MOST_KIB: u32 = (64 << 10) + (2 << 10);

/// Appends what the blocks of the first stream hold, but no more than `limit` bytes and one.
pub(crate) fn unpack(file: &[u8], limit: u64, out: &mut Vec<u8>) -> io::Result<()> {
    let flags = file.get(MAGIC.len()..MAGIC.len() + 2).ok_or_else(truncated)?;
    let check = Check::of(flags[1] & 0xf)?;
    let mut at = MAGIC.len() + 2 + 4;
    loop {
        let rest = file.get(at..).unwrap_or_default();
        let words = usize::from(*rest.first().ok_or_else(truncated)?);
        if words == 0 {
            // The index, which repeats how long the blocks were.
            return Ok(());
        }
        let header_bytes = (words + 1) * 4;
        let dictionary = dictionary(rest.get(..header_bytes).ok_or_else(truncated)?)?;
        let mut packed = rest.get(header_bytes..).unwrap_or_default();
        let before = (packed.len(), out.len());
        let left = (limit + 1).saturating_sub(out.len() as u64);
        let reader = Lzma2Reader::new_mem_limit(&mut packed, dictionary, MOST_KIB, None)?;
        let read = reader.take(left).read_to_end(out)?;
        if read as u64 == left {
            return Ok(());
        }
        let taken = before.0 - packed.len();
        at += header_bytes + taken.next_multiple_of(4);
        let found = out.get(before.1..).unwrap_or_default();
        let said = file.get(at..at + check.bytes()).ok_or_else(truncated)?;
        if !check.holds(found, said) {
            return Err(invalid("a checksum of the xz file is wrong"));
        }
        at += check.bytes();
    }
}

/// Bytes of the dictionary that the header of a block asks for.
fn dictionary(header: &[u8]) -> io::Result<u32> {
    const LZMA2: u8 = 0x21;
    let flags = *header.get(1).ok_or_else(truncated)?;
    let mut at = 2;
    // How long the block is, packed and unpacked, where that is said: numbers whose last byte is below 128.
    for bit in [0x40, 0x80] {
        if flags & bit != 0 {
            let rest = header.get(at..).unwrap_or_default();
            at += 1 + rest.iter().position(|it| *it < 0x80).ok_or_else(truncated)?;
        }
    }
    match (flags & 0x3f, header.get(at..at + 3)) {
        (0, Some([LZMA2, 1, bits @ 0..40])) => {
            Ok((2 | u32::from(bits & 1)) << (u32::from(bits / 2) + 11))
        }
        _ => Err(invalid("the xz file has other filters than LZMA2")),
    }
}

/// How blocks are checked.
#[derive(Clone, Copy)]
enum Check {
    None,
    Crc32,
    Crc64,
    /// A digest, which is passed over.
    Sha256,
}

impl Check {
    fn of(kind: u8) -> io::Result<Check> {
        match kind {
            0 => Ok(Check::None),
            1 => Ok(Check::Crc32),
            4 => Ok(Check::Crc64),
            10 => Ok(Check::Sha256),
            _ => Err(invalid("the xz file has checksums of an unknown kind")),
        }
    }

    fn bytes(self) -> usize {
        match self {
            Check::None => 0,
            Check::Crc32 => 4,
            Check::Crc64 => 8,
            Check::Sha256 => 32,
        }
    }

    fn holds(self, data: &[u8], said: &[u8]) -> bool {
        match self {
            Check::None | Check::Sha256 => true,
            Check::Crc32 => {
                let mut crc = Crc::new();
                crc.update(data);
                crc.sum().to_le_bytes() == said
            }
            Check::Crc64 => crc64(data).to_le_bytes() == said,
        }
    }
}

/// The checksum of ECMA-182, bits reversed.
fn crc64(data: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;
    let table: [u64; 256] = std::array::from_fn(|byte| {
        (0..8).fold(byte as u64, |it, _| (it >> 1) ^ (POLYNOMIAL & (it & 1).wrapping_neg()))
    });
    !data.iter().fold(!0, |it, byte| (it >> 8) ^ table[(it as u8 ^ byte) as usize])
}

fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the xz file ends too early")
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_catalogue() {
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
        assert_eq!(crc64(b""), 0);
    }

    #[test]
    fn a_dictionary_is_as_large_as_its_byte_says() {
        let header = |bits: u8| dictionary(&[2, 0, 0x21, 1, bits, 0, 0, 0]).ok();
        assert_eq!(header(0), Some(4096));
        assert_eq!(header(1), Some(6144));
        assert_eq!(header(28), Some(64 << 20));
        assert_eq!(header(41), None);
        assert_eq!(dictionary(&[3, 0xc0, 0x80, 1, 5, 0x21, 1, 0, 0, 0, 0, 0]).ok(), Some(4096));
        assert!(dictionary(&[3, 1, 0x21, 1, 0]).is_err());
        assert!(dictionary(&[3]).is_err());
    }
}
