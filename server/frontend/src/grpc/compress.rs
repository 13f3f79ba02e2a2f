//! Compressed messages: unpacked under a limit, packed as hard as the operator wants. Pure.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::{
    read::{GzDecoder, ZlibDecoder},
    write::{GzEncoder, ZlibEncoder},
};

use configuration::Compression;
use inference::error::Error;

/// More than this is unpacked only from a message that is at least a hundredth of it.
const HARMLESS: u64 = 1 << 20;

/// A few bytes must not become a load of work: honest tensors are not packed tighter than this.
const MOST_RATIO: u64 = 100;

/// How messages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, as gRPC has it.
    Deflate,
}

impl Encoding {
    /// The name in metadata.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip",
            Encoding::Deflate => "deflate",
        }
    }
}

/// The message, of at most `limit` bytes.
///
/// # Errors
/// [`Error::BodyTooLarge`] beyond the limit; [`Error::InvalidRequest`] for what cannot be unpacked, or is packed
/// more than a hundred times tighter than it is.
pub fn unpack(encoding: Encoding, packed: &[u8], limit: u64) -> Result<Bytes, Error> {
    let by_ratio = (packed.len() as u64).saturating_mul(MOST_RATIO).max(HARMLESS);
    let most = limit.min(by_ratio);
    let mut message = Vec::new();
    // One byte more tells what is too large from what just fits.
    let read = match encoding {
        Encoding::Gzip => GzDecoder::new(packed).take(most + 1).read_to_end(&mut message),
        Encoding::Deflate => ZlibDecoder::new(packed).take(most + 1).read_to_end(&mut message),
    };
    let name = encoding.name();
    read.map_err(|error| Error::InvalidRequest(format!("the message is no {name}: {error}")))?;
    let given = message.len() as u64;
    if limit < given {
        return Err(Error::BodyTooLarge { given, limit });
    }
    if most < given {
        return Err(Error::InvalidRequest(format!(
            "the {name} message of {} bytes holds more than {most} bytes; expected at most {MOST_RATIO} times \
             its size, or {HARMLESS} bytes: send it without compression",
            packed.len()
        )));
    }
    Ok(message.into())
}

/// The message, packed.
pub fn pack(encoding: Encoding, level: Compression, pieces: &[Bytes]) -> std::io::Result<Vec<u8>> {
    let level = match level {
        Compression::None => flate2::Compression::none(),
        Compression::Low => flate2::Compression::new(1),
        Compression::Medium => flate2::Compression::new(6),
        Compression::High => flate2::Compression::new(9),
    };
    match encoding {
        Encoding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            pieces.iter().try_for_each(|it| encoder.write_all(it))?;
            encoder.finish()
        }
        Encoding::Deflate => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            pieces.iter().try_for_each(|it| encoder.write_all(it))?;
            encoder.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_out_again() {
        let pieces = [Bytes::from_static(b"abc"), Bytes::from(vec![7; 1000])];
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let packed = pack(encoding, Compression::High, &pieces).unwrap();
            assert!(packed.len() < 100);
            assert_eq!(unpack(encoding, &packed, 1003).unwrap(), pieces.concat());
            let too_large = unpack(encoding, &packed, 1002).unwrap_err();
            assert_eq!(too_large, Error::BodyTooLarge { given: 1003, limit: 1002 });
            let cut = unpack(encoding, &packed[..packed.len() / 2], 1003).unwrap_err();
            assert!(cut.to_string().starts_with("the message is no "), "{cut}");
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_goes_off() {
        let bomb = pack(Encoding::Gzip, Compression::High, &[vec![0; 8 << 20].into()]).unwrap();
        let error = unpack(Encoding::Gzip, &bomb, 1 << 30).unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error}");
    }
}
