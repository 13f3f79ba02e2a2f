//! Files that joblib has compressed. Pure.

use std::io::Read;

use flate2::read::{GzDecoder, ZlibDecoder};

use crate::{error::FormatError, limits};

/// A file may become so many times larger.
const RATIO: u64 = 100;

/// What a file of zlib, or of gzip, holds.
///
/// # Errors
/// It is damaged, or becomes too large.
pub(crate) fn inflate(bytes: &[u8], is_gzip: bool) -> Result<Vec<u8>, FormatError> {
    let limit = (bytes.len() as u64).saturating_mul(RATIO).min(limits::FILE_BYTES);
    let mut inflated = Vec::new();
    let result = match is_gzip {
        true => GzDecoder::new(bytes).take(limit + 1).read_to_end(&mut inflated),
        false => ZlibDecoder::new(bytes).take(limit + 1).read_to_end(&mut inflated),
    };
    match result {
        Ok(length) if length as u64 <= limit => Ok(inflated),
        Ok(_) => Err(FormatError::new(format!(
            "it would become more than {RATIO} times larger, or more than {} bytes",
            limits::FILE_BYTES
        ))),
        Err(error) => Err(FormatError::new(format!("it cannot be inflated: {error}"))),
    }
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
        assert!(error.contains("more than 100 times larger"), "{error}");
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
