//! A reply made smaller, for a client that asks for it.

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};
use hyper::HeaderMap;

use super::encoding::{self, Encoding};
use protocol::EncodedReply;

/// Smaller replies, in bytes, are sent as they are: a packet has to be sent in any case.
const SMALLEST: usize = 1 << 10;

/// The encoding that a client wants for this reply, and that is worth it.
pub fn wanted(headers: &HeaderMap, reply: &EncodedReply) -> Option<Encoding> {
    match length(reply) < SMALLEST {
        true => None,
        false => encoding::wanted(headers),
    }
}

/// Bytes of a reply's body.
pub fn length(reply: &EncodedReply) -> usize {
    reply.body.iter().map(Bytes::len).sum()
}

/// The reply in that encoding, with the headers that say so; as it is where it does not become smaller. Takes
/// some milliseconds for each MiB.
pub fn compress(mut reply: EncodedReply, encoding: Encoding) -> EncodedReply {
    if let Some(smaller) = deflated(&reply.body, encoding) {
        reply.body = vec![smaller];
        reply.headers.push(("content-encoding", encoding.name().to_owned()));
        reply.headers.push(("vary", "accept-encoding".to_owned()));
    }
    reply
}

/// All segments in one piece; `None` where that is no smaller than they are.
fn deflated(segments: &[Bytes], encoding: Encoding) -> Option<Bytes> {
    // Clients wait for it: the fastest level, which finds most of what repeats.
    let level = Compression::fast();
    let mut deflate = match encoding {
        Encoding::Gzip => Compress::new_gzip(level, 15),
        Encoding::Deflate => Compress::new(level, true),
    };
    let length: usize = segments.iter().map(Bytes::len).sum();
    // Never grows: what does not fit is not smaller.
    let mut smaller = Vec::with_capacity(length);
    for segment in segments {
        let mut rest: &[u8] = segment;
        while !rest.is_empty() {
            let before = deflate.total_in();
            deflate.compress_vec(rest, &mut smaller, FlushCompress::None).ok()?;
            let taken = usize::try_from(deflate.total_in() - before).ok()?;
            if taken == 0 {
                return None;
            }
            rest = rest.get(taken..)?;
        }
    }
    let status = deflate.compress_vec(&[], &mut smaller, FlushCompress::Finish).ok()?;
    (status == Status::StreamEnd && smaller.len() < length).then(|| smaller.into())
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
            let smaller = compress(reply(&[&first, b"", &second]), encoding);
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
        // Noise that has been compressed once is noise indeed.
        if let Some(once) = deflated(&plain.body, Encoding::Deflate) {
            plain.body = vec![once];
        }
        let before = plain.body.clone();
        let after = compress(plain, Encoding::Gzip);
        assert_eq!(after.body, before);
        assert_eq!(header(&after, "content-encoding"), None);
    }

    #[test]
    fn small_replies_are_not_worth_it() {
        let mut headers = HeaderMap::new();
        headers.insert("accept-encoding", "gzip".parse().unwrap());
        assert_eq!(wanted(&headers, &reply(&[&[0; SMALLEST - 1]])), None);
        assert_eq!(wanted(&headers, &reply(&[&[0; SMALLEST]])), Some(Encoding::Gzip));
        assert_eq!(wanted(&HeaderMap::new(), &reply(&[&[0; SMALLEST]])), None);
    }
}
