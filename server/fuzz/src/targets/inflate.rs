//! Compressed bodies.

use std::io::Write;

use bytes::Bytes;
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use formats::expansion::Limit;
use frontend::exchange::{Inflation, compression::Encoding, intake::Received};

use super::{Target, stream::limits};
use crate::{oracle, seen::Seen};

/// Largest plain body.
const LARGEST: usize = 1 << 20;

/// Bodies in gzip and deflate. The first byte says what the header does, and where the plain body is to be aligned.
pub(super) const INFLATE: Target = Target {
    name: "inflate",
    decode: |data| {
        let mut seen = Seen::default();
        let Some((choice, body)) = data.split_first() else { return seen };
        let limits = limits(LARGEST, 3 * LARGEST);
        let budget = limits.budget.clone();
        let encoding = if choice % 2 == 0 { Encoding::Gzip } else { Encoding::Deflate };
        let permit = budget.take(body.len()).expect("the budget is larger than any input");
        let received = Received { bytes: Bytes::copy_from_slice(body), permit };
        // Two buffers while one grows into the next; the state of the inflation and its step.
        let bound = Limit { free: 3 * LARGEST + (128 << 10), ratio: 0, most: usize::MAX };
        oracle::within(bound, body.len(), || {
            let aligned_at = usize::from(choice / 2);
            let inflation =
                Inflation::new(encoding, "content-encoding", received, aligned_at, &limits);
            let Some(mut inflation) = seen.result(inflation) else { return };
            let first = inflation.run(1000);
            let Some(is_done) = seen.result(first) else { return };
            if !is_done {
                let rest = inflation.run(usize::MAX);
                let Some(is_done) = seen.result(rest) else { return };
                assert!(is_done, "all is plain");
            }
            let plain = inflation.finish();
            assert!(plain.bytes.len() <= LARGEST, "within the limit");
            assert!(plain.bytes.len() <= plain.permit.units(), "the permit covers it");
            seen.fact(plain.bytes.len().checked_ilog2());
        });
        assert_eq!(budget.used(), 0, "the budget is given back");
        seen
    },
    examples: || {
        let noise: Vec<u8> =
            (0..5000u32).map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let plain: [&[u8]; 5] = [b"", b"{\"x\":1}", &noise, &[0; 100_000], &[7; 2 << 20]];
        let mut all = Vec::new();
        for body in plain {
            let mut gzip = GzEncoder::new(vec![0], Compression::default());
            let mut zlib = ZlibEncoder::new(vec![41], Compression::fast());
            gzip.write_all(body).and_then(|()| zlib.write_all(body)).expect("memory does not fail");
            all.extend([gzip.finish(), zlib.finish()].map(|it| it.expect("memory does not fail")));
        }
        all
    },
    words: &["\u{1f}", "\u{8}", "x\u{1}", "\u{0}\u{0}"],
};
