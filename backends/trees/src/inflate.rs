//! Files that joblib has compressed. Pure.

use std::io::Read;

use flate2::read::{GzDecoder, ZlibDecoder};

use crate::{error::FormatError, limits};

/// A file may become so many times larger.
const RATIO: u64 = 100;
/// One that becomes larger than [`SMALL`] may only become so many times larger: forests do not shrink as texts do.
const RATIO_OF_LARGE: u64 = 16;
const SMALL: u64 = 256 << 20;

/// What a file of zlib, or of gzip, holds.
///
/// # Errors
/// It is damaged, or becomes too large.
pub(crate) fn inflate(bytes: &[u8], is_gzip: bool) -> Result<Vec<u8>, FormatError> {
    let limit = limit(bytes.len() as u64);
    let mut inflated = Vec::new();
    let result = match is_gzip {
        true => GzDecoder::new(bytes).take(limit + 1).read_to_end(&mut inflated),
        false => ZlibDecoder::new(bytes).take(limit + 1).read_to_end(&mut inflated),
    };
    match result {
        Ok(length) if length as u64 <= limit => Ok(inflated),
        Ok(_) => Err(FormatError::new(format!(
            "it would become larger than {limit} bytes, which is more than a model of {} bytes should",
            bytes.len()
        ))),
        Err(error) => Err(FormatError::new(format!("it cannot be inflated: {error}"))),
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
        assert_eq!(inflate(&packed(b"some bytes"), false), Ok(b"some bytes".to_vec()));
        let error = inflate(&packed(&vec![0; 10_000_000]), false).expect_err("a bomb").to_string();
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
            assert!(inflate(&packed[..end], false).is_err(), "{end}");
        }
        assert!(inflate(&packed, true).is_err());
    }
}
