//! The encodings of bodies and replies, and the compression of a reply. Pure.

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950: deflate in the frame of zlib, as the name means in HTTP and in gRPC.
    Deflate,
}

impl Encoding {
    /// Its name in headers.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip",
            Encoding::Deflate => "deflate",
        }
    }
}

/// All segments in one compressed piece; `None` where that is not smaller than the segments. Takes some milliseconds
/// for each MiB.
pub fn deflated(segments: &[Bytes], encoding: Encoding, level: Compression) -> Option<Bytes> {
    let mut deflate = match encoding {
        Encoding::Gzip => Compress::new_gzip(level, 15),
        Encoding::Deflate => Compress::new(level, true),
    };
    let length: usize = segments.iter().map(Bytes::len).sum();
    // The buffer never grows: output that does not fit is not smaller than the input.
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
