//! Event streams and WebSockets.

use std::time::Duration;

use bytes::Bytes;
use formats::expansion::Limit;
use frontend::{
    exchange::intake::Limits,
    http::websocket::reader::{Event, MessageReader},
    settings::limits::BodyPace,
};
use inference::limits::Budget;
use sagemaker::codec::eventstream::{self, Broken};

use super::Target;
use crate::{oracle, seen::Seen};

/// Limits of bodies under which streams are read.
pub(super) fn limits(limit: usize, budget: usize) -> Limits {
    let pace = BodyPace { grace: Duration::from_secs(1), bytes_per_second: 0 };
    let setting = "--http-max-input-size";
    Limits { limit: limit as u64, whole: limit as u64, setting, pace, budget: Budget::new(budget) }
}

/// The payload of a frame and the length of the frame; its checksums are checked.
fn frame(bytes: &[u8]) -> (&[u8], usize) {
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (total, headers) = (number(0) as usize, number(4) as usize);
    assert_eq!(number(8), crc32fast::hash(&bytes[..8]), "the checksum of the lengths");
    assert_eq!(number(total - 4), crc32fast::hash(&bytes[..total - 4]), "the checksum of a frame");
    (&bytes[12 + headers..total - 4], total)
}

/// Event streams, which are only written: what is written must read back. The first byte is the length of a chunk.
pub(super) const EVENTS: Target = Target {
    name: "event-stream",
    decode: |data| {
        let mut seen = Seen::default();
        let Some((length, body)) = data.split_first() else { return seen };
        let length = 1 + usize::from(*length) * 64;
        let mut written = Vec::<Bytes>::new();
        for chunk in body.chunks(length) {
            let mut chunk = Bytes::copy_from_slice(chunk);
            while eventstream::part(&mut chunk, &mut written) {}
        }
        let message = String::from_utf8_lossy(body);
        eventstream::exception(Broken::Off, &message, &mut written);
        let written = written.concat();
        let (mut rest, mut payloads) = (&written[..], Vec::new());
        while !rest.is_empty() {
            let (payload, total) = frame(rest);
            payloads.push(payload);
            rest = &rest[total..];
        }
        let exception = payloads.pop().expect("the exception");
        assert_eq!(payloads.concat(), body, "what was sent in parts");
        assert!(
            std::str::from_utf8(exception).is_ok_and(|it| it.ends_with("\"}")),
            "the exception"
        );
        seen.fact((payloads.len().min(4), exception.len() == message.len()));
        seen
    },
    examples: || {
        vec![b"\x00abc".to_vec(), [&[80][..], &[b'x'; 6000]].concat(), b"\x01\"\\\x00\xff".to_vec()]
    },
    words: &["\"", "\\", "\u{0}", "\u{7f}", "\u{2028}"],
};

/// Largest message.
const LARGEST: usize = 64 << 10;

/// Messages of a WebSocket. The first byte is the length of a chunk as it arrives.
pub(super) const WEBSOCKET: Target = Target {
    name: "websocket",
    decode: |data| {
        let mut seen = Seen::default();
        let Some((length, mut rest)) = data.split_first() else { return seen };
        let limits = limits(LARGEST, 2 * LARGEST);
        let budget = limits.budget.clone();
        // A buffer is made as long as announced, which is at most the limit.
        let bound = Limit { free: 3 * LARGEST + (64 << 10), ratio: 4, most: usize::MAX };
        oracle::within(bound, data.len(), || {
            let mut reader = MessageReader::new(limits);
            while !rest.is_empty() {
                let room = reader.room();
                let count = room.len().min(rest.len()).min(1 + usize::from(*length) * 16);
                assert!(0 < count, "there is room after each look");
                room[..count].copy_from_slice(&rest[..count]);
                reader.filled(count);
                rest = &rest[count..];
                loop {
                    match reader.next_event() {
                        Ok(None) => break,
                        Ok(Some(event)) => {
                            if let Event::Message(_, received) = &event {
                                assert!(received.bytes.len() <= LARGEST, "within the limit");
                            }
                            seen.fact(std::mem::discriminant(&event));
                        }
                        Err(close) => {
                            seen.fact(format!("{close:?}"));
                            return;
                        }
                    }
                }
                seen.fact(reader.unfinished().is_some());
            }
        });
        assert_eq!(budget.used(), 0, "the budget is given back");
        seen
    },
    examples: || {
        let frame = |first: u8, payload: &[u8]| {
            let mask = [1, 2, 3, 4];
            let mut out = vec![first];
            match payload.len() {
                short @ 0..126 => out.push(0x80 | short as u8),
                long => {
                    out.push(0x80 | 126);
                    out.extend((long as u16).to_be_bytes());
                }
            }
            out.extend(mask);
            out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
            out
        };
        let sessions = [
            frame(0x81, "héllo".as_bytes()),
            frame(0x82, &[7; 300]),
            [frame(0x01, b"a"), frame(0x89, b"ping"), frame(0x80, "\u{e9}".as_bytes())].concat(),
            [frame(0x02, &[1; 200]), frame(0x00, &[2; 200]), frame(0x80, &[])].concat(),
            [frame(0x8a, b""), frame(0x88, &[3, 232, b'b', b'y', b'e'])].concat(),
            vec![0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 5],
        ];
        [0, 1, 255]
            .iter()
            .flat_map(|it| sessions.iter().map(|body| [&[*it], &body[..]].concat()))
            .collect()
    },
    words: &["\u{1}\u{2}\u{3}\u{4}", "\u{0}", "~", "\u{7f}"],
};
