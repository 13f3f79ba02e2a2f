//! Compression of a reply, for a client that asks for it.

use bytes::Bytes;
use flate2::Compression;

use crate::exchange::{
    Reply,
    compression::{Encoding, deflated},
};
use formats::EncodedReply;

/// Headers name the encoding of a compressed body.
impl Reply for EncodedReply {
    fn byte_len(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }

    fn compress(mut self, encoding: Encoding, level: Compression) -> EncodedReply {
        if let Some(smaller) = deflated(&self.body, encoding, level) {
            self.body = vec![smaller];
            self.headers.push(("content-encoding", encoding.name().to_owned()));
            self.headers.push(("vary", "accept-encoding".to_owned()));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::{GzDecoder, ZlibDecoder};

    use super::*;

    fn reply(segments: &[&[u8]]) -> EncodedReply {
        let mut reply = EncodedReply::json(Vec::new());
        reply.body = segments.iter().map(|it| Bytes::copy_from_slice(it)).collect();
        reply
    }

    fn header<'a>(reply: &'a EncodedReply, name: &str) -> Option<&'a str> {
        reply.headers.iter().find(|it| it.0 == name).map(|it| &*it.1)
    }

    #[test]
    fn segments_become_one_smaller_piece_that_reads_back_the_same() {
        let (first, second) = (vec![b'a'; 3000], b"0.125,".repeat(20_000));
        let plain = [&first[..], &second[..]].concat();
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let smaller = reply(&[&first, b"", &second]).compress(encoding, Compression::fast());
            assert_eq!(smaller.body.len(), 1);
            let body = &smaller.body[0];
            assert!(body.len() < plain.len() / 10, "{}", body.len());
            let mut back = Vec::new();
            match encoding {
                Encoding::Gzip => GzDecoder::new(&body[..]).read_to_end(&mut back).unwrap(),
                Encoding::Deflate => ZlibDecoder::new(&body[..]).read_to_end(&mut back).unwrap(),
            };
            assert!(back == plain);
            assert_eq!(header(&smaller, "content-encoding"), Some(encoding.name()));
            assert_eq!(header(&smaller, "vary"), Some("accept-encoding"));
        }
    }

    #[test]
    fn what_does_not_become_smaller_stays_as_it_is() {
        let noise: Vec<u8> = (0..40_000u32)
            .map(|it| (it.wrapping_mul(2_654_435_761).rotate_left(it % 31) >> 13) as u8)
            .collect();
        let mut plain = reply(&[&noise]);
        // Compressed noise does not become smaller a second time.
        if let Some(once) = deflated(&plain.body, Encoding::Deflate, Compression::fast()) {
            plain.body = vec![once];
        }
        let before = plain.body.clone();
        let after = plain.compress(Encoding::Gzip, Compression::fast());
        assert_eq!(after.body, before);
        assert_eq!(header(&after, "content-encoding"), None);
    }
}
