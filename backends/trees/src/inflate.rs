//! Files that joblib has compressed. Pure.

use std::io::{self, Read};

use bzip2::read::BzDecoder;
use flate2::read::{GzDecoder, ZlibDecoder};
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::LzmaReader;

use crate::{error::FormatError, limits, xz};

/// How joblib compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// `zlib`, the usual one.
    Zlib,
    /// `gzip`
    Gzip,
    /// `bz2`
    Bzip2,
    /// `lzma`
    Lzma,
    /// `xz`
    Xz,
    /// `lz4`
    Lz4,
}

/// A file may become so many times larger.
const RATIO: u64 = 100;
/// One that becomes larger than [`SMALL`] may only become so many times larger: forests do not shrink as texts do.
const RATIO_OF_LARGE: u64 = 16;
const SMALL: u64 = 256 << 20;

/// What a file holds that was compressed so.
///
/// # Errors
/// It is damaged, or becomes too large.
pub(crate) fn inflate(bytes: &[u8], packing: Packing) -> Result<Vec<u8>, FormatError> {
    let limit = limit(bytes.len() as u64);
    let mut inflated = Vec::new();
    match read(bytes, packing, limit, &mut inflated) {
        Ok(()) if inflated.is_empty() => {
            Err(FormatError::new("it cannot be inflated: there is nothing in it"))
        }
        Ok(()) if inflated.len() as u64 <= limit => Ok(inflated),
        Ok(()) => Err(FormatError::new(format!(
            "it would become larger than {limit} bytes, which is more than a model of {} bytes should",
            bytes.len()
        ))),
        Err(error) => Err(FormatError::new(format!("it cannot be inflated: {error}"))),
    }
}

/// Appends what is in there, but no more than `limit` bytes and one.
fn read(bytes: &[u8], packing: Packing, limit: u64, out: &mut Vec<u8>) -> io::Result<()> {
    let all = |reader: &mut dyn Read, out: &mut Vec<u8>| {
        reader.take(limit + 1).read_to_end(out).map(|_| ())
    };
    match packing {
        Packing::Zlib => all(&mut ZlibDecoder::new(bytes), out),
        Packing::Gzip => all(&mut GzDecoder::new(bytes), out),
        Packing::Bzip2 => all(&mut BzDecoder::new(bytes), out),
        Packing::Lzma => all(&mut LzmaReader::new_mem_limit(bytes, xz::MOST_KIB, None)?, out),
        Packing::Xz => xz::unpack(bytes, limit, out),
        Packing::Lz4 => all(&mut FrameDecoder::new(bytes), out),
    }
}

/// Bytes that a file of so many may become.
fn limit(bytes: u64) -> u64 {
    let of_large = bytes.saturating_mul(RATIO_OF_LARGE).max(SMALL);
    bytes.saturating_mul(RATIO).min(of_large).min(limits::FILE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::ZlibEncoder};

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn a_bomb_is_not_inflated() {
        assert_eq!(inflate(&packed(b"some bytes"), Packing::Zlib), Ok(b"some bytes".to_vec()));
        let error =
            inflate(&packed(&vec![0; 10_000_000]), Packing::Zlib).expect_err("a bomb").to_string();
        assert!(error.contains("more than a model of"), "{error}");
    }

    #[test]
    fn what_becomes_large_may_not_become_many_times_larger() {
        assert_eq!(limit(1000), 100_000);
        assert_eq!(limit(4 << 20), 256 << 20);
        assert_eq!(limit(32 << 20), 512 << 20);
        assert_eq!(limit(1 << 30), limits::FILE_BYTES);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let packed = packed(&[7; 1000]);
        for end in 0..packed.len() {
            assert!(inflate(&packed[..end], Packing::Zlib).is_err(), "{end}");
        }
        assert!(inflate(&packed, Packing::Gzip).is_err());
    }

    /// A tree of scikit-learn that joblib has compressed by that method.
    fn fixture(method: &str) -> Vec<u8> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/sklearn/1.9.1");
        std::fs::read(format!("{folder}/tree.{method}.joblib")).expect("a fixture")
    }

    const METHODS: [(&str, Packing); 6] = [
        ("zlib", Packing::Zlib),
        ("gzip", Packing::Gzip),
        ("bz2", Packing::Bzip2),
        ("lzma", Packing::Lzma),
        ("xz", Packing::Xz),
        ("lz4", Packing::Lz4),
    ];

    #[test]
    fn each_method_holds_the_same_pickle() {
        let plain = inflate(&fixture("zlib"), Packing::Zlib).expect("sound");
        for (method, packing) in METHODS {
            assert_eq!(inflate(&fixture(method), packing).as_ref(), Ok(&plain), "{method}");
        }
    }

    #[test]
    fn what_any_method_has_packed_is_refused_when_it_is_damaged() {
        for (method, packing) in METHODS {
            let packed = fixture(method);
            // The end of some is an index or a checksum of all, which is not looked at.
            for end in (0..packed.len() * 9 / 10).step_by(13) {
                let part = inflate(&packed[..end], packing);
                assert!(part.is_err(), "{method}: {end} of {}", packed.len());
            }
        }
    }

    #[test]
    fn a_dictionary_beyond_the_largest_of_xz_takes_no_memory() {
        let mut packed = fixture("lzma");
        packed[1..5].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(inflate(&packed, Packing::Lzma).is_err());
    }
}
