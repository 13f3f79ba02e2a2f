//! Compression of reply messages, at the level that the operator chose.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, Bytes};

use crate::{
    exchange::{
        Reply,
        compression::{Encoding, deflated},
    },
    grpc::PREFIX,
    settings::grpc::Compression,
};

/// The level at which replies are compressed; `None` for no compression.
pub fn level(compression: Compression) -> Option<flate2::Compression> {
    match compression {
        Compression::None => None,
        Compression::Low => Some(flate2::Compression::new(1)),
        Compression::Medium => Some(flate2::Compression::new(6)),
        Compression::High => Some(flate2::Compression::new(9)),
    }
}

/// The pieces of a message, with its prefix. The prefix says whether the message is compressed.
impl Reply for VecDeque<Bytes> {
    fn byte_len(&self) -> usize {
        self.iter().map(Bytes::len).sum()
    }

    fn compress(mut self, encoding: Encoding, level: flate2::Compression) -> VecDeque<Bytes> {
        let pieces = self.make_contiguous();
        if let Some(first) = pieces.first_mut() {
            first.advance(PREFIX);
        }
        let (flag, mut message) = match deflated(pieces, encoding, level) {
            Some(smaller) => (1, [smaller].into()),
            None => (0, self),
        };
        let mut prefix = Vec::with_capacity(PREFIX);
        prefix.put_u8(flag);
        // The plain message fits into the limit of the prefix, so the smaller one does.
        prefix.put_u32(u32::try_from(message.byte_len()).unwrap_or(u32::MAX));
        message.push_front(Bytes::from(prefix));
        message
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::{GzDecoder, ZlibDecoder};

    use super::*;

    /// A message of this content, in two pieces.
    fn message(content: &[u8]) -> VecDeque<Bytes> {
        let mut head = vec![0];
        head.put_u32(u32::try_from(content.len()).unwrap());
        [Bytes::from(head), Bytes::copy_from_slice(content)].into()
    }

    fn joined(message: VecDeque<Bytes>) -> Vec<u8> {
        Vec::from(message).concat()
    }

    #[test]
    fn what_was_compressed_comes_out_again() {
        let content = [b"abc".as_slice(), &[7; 1000]].concat();
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let smaller = message(&content).compress(encoding, flate2::Compression::new(9));
            let smaller = joined(smaller);
            assert!(smaller.len() < 100);
            assert_eq!((smaller[0], usize::from(smaller[4])), (1, smaller.len() - PREFIX));
            let mut back = Vec::new();
            match encoding {
                Encoding::Gzip => {
                    GzDecoder::new(&smaller[PREFIX..]).read_to_end(&mut back).unwrap()
                }
                Encoding::Deflate => {
                    ZlibDecoder::new(&smaller[PREFIX..]).read_to_end(&mut back).unwrap()
                }
            };
            assert_eq!(back, content);
        }
    }

    #[test]
    fn what_does_not_become_smaller_is_sent_as_it_is() {
        let message = message(b"\x01\x02");
        let sent = message.clone().compress(Encoding::Gzip, flate2::Compression::new(9));
        assert_eq!(joined(sent), joined(message));
    }
}
