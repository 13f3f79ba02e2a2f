//! Facts about reading messages: frames, pieces of frames, and violations of the protocol.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::settings::limits::BodyPace;
use inference::limits::Budget;

const LIMIT: u64 = 1000;

fn reader(budget: &Arc<Budget>) -> MessageReader {
    let pace = BodyPace { grace: std::time::Duration::from_secs(1), bytes_per_second: 1 };
    MessageReader::new(Limits {
        limit: LIMIT,
        whole: LIMIT,
        setting: "--http-max-input-size",
        pace,
        budget: budget.clone(),
    })
}

/// A client's frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [9, 8, 7, 6];
    let mut bytes = vec![first];
    match payload.len() {
        short @ ..126 => bytes.push(0x80 | short as u8),
        medium => {
            bytes.push(0x80 | 126);
            bytes.extend((medium as u16).to_be_bytes());
        }
    }
    bytes.extend(mask);
    let mut payload = payload.to_vec();
    frame::unmask(&mut payload, mask, 0);
    bytes.extend(payload);
    bytes
}

/// A short description of an event.
fn described(event: Event) -> String {
    match event {
        Event::Message(kind, it) => format!("{kind:?} {}", String::from_utf8_lossy(&it.bytes)),
        Event::Refused(error) => format!("Refused {error}"),
        Event::Ping(it) => format!("Ping {}", String::from_utf8_lossy(&it)),
        Event::Pong => "Pong".to_owned(),
        Event::Closed(it) => format!("Closed {:?}", it.payload()),
    }
}

/// All events of these bytes, read in pieces of that size, and the code of the close frame, if there is one.
fn read(reader: &mut MessageReader, bytes: &[u8], piece: usize) -> (Vec<String>, Option<u16>) {
    let mut events = Vec::new();
    for piece in bytes.chunks(piece) {
        reader.room()[..piece.len()].copy_from_slice(piece);
        reader.filled(piece.len());
        loop {
            match reader.next_event() {
                Ok(Some(event)) => events.push(described(event)),
                Ok(None) => break,
                Err(close) => {
                    let payload = close.payload();
                    return (events, Some(u16::from_be_bytes([payload[0], payload[1]])));
                }
            }
        }
    }
    (events, None)
}

#[track_caller]
fn check(bytes: &[u8], expect: &[&str], code: Option<u16>) {
    let budget = Budget::new(2000);
    for piece in [1, 2, 3, 7, bytes.len().max(1)] {
        let mut reader = reader(&budget);
        let (events, ended) = read(&mut reader, bytes, piece);
        assert_eq!(
            (events.as_slice(), ended),
            (&*expect.iter().map(|it| it.to_string()).collect::<Vec<_>>(), code),
            "{piece}"
        );
    }
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_message_is_all_of_its_frames_with_control_frames_between_them() {
    let bytes = [
        frame(0x01, b"he"),
        frame(0x89, b"?"),
        frame(0x00, b"l"),
        frame(0x8a, b""),
        frame(0x80, b"lo"),
        frame(0x82, b"bytes"),
        frame(0x81, b""),
    ];
    let expect = ["Ping ?", "Pong", "Text hello", "Binary bytes", "Text "];
    check(&bytes.concat(), &expect, None);
}

#[test]
fn what_breaks_the_protocol_ends_it_with_the_code_for_that() {
    check(&frame(0x80, b"x"), &[], Some(1002));
    check(&[frame(0x01, b"x"), frame(0x81, b"y")].concat(), &[], Some(1002));
    check(&[frame(0x81, b"ok"), frame(0x91, b"y")].concat(), &["Text ok"], Some(1002));
    check(&[0x81, 0x01, b'x'], &[], Some(1002));
    check(&frame(0x81, &[0xff]), &[], Some(1007));
    check(&frame(0x88, &[0]), &[], Some(1002));
    // A violation is seen before the rest has come, and also where the rest never comes.
    check(&frame(0x01, b"\xff "), &[], Some(1007));
    check(&frame(0x81, &[b'x', 0xc3]), &[], Some(1007));
    // A letter may be split between two frames.
    check(&[frame(0x01, &[0xc3]), frame(0x80, &[0xa4])].concat(), &["Text ä"], None);
}

#[test]
fn a_close_has_the_payload_of_its_answer() {
    check(&frame(0x88, &[3, 0xe8]), &["Closed [3, 232]"], None);
    check(&frame(0x88, &[]), &["Closed []"], None);
}

#[test]
fn what_is_too_large_is_seen_in_the_header_and_in_the_sum() {
    check(&frame(0x82, &[0; 1001])[..8], &[], Some(1009));
    let half = [0; 600];
    check(&[frame(0x02, &half), frame(0x80, &half)].concat(), &[], Some(1009));
}

#[test]
fn a_message_without_room_in_memory_is_skipped_and_the_next_one_is_not() {
    let budget = Budget::new(1000);
    let others = budget.take(900).unwrap();
    let mut reader = reader(&budget);
    let large = [frame(0x02, &[1; 50]), frame(0x80, &[1; 100])].concat();
    let (events, ended) = read(&mut reader, &large, 16);
    assert_eq!((events.len(), ended), (1, None));
    assert!(events[0].contains("--max-inflight-bytes"), "{events:?}");
    assert_eq!(budget.used(), 900);
    drop(others);
    assert_eq!(read(&mut reader, &frame(0x81, b"next"), 99).0, ["Text next"]);
}

#[test]
fn memory_is_asked_for_when_it_is_announced_and_given_back_when_the_peer_is_gone() {
    let budget = Budget::new(1000);
    let mut reader = reader(&budget);
    let bytes = frame(0x82, &[1; 700]);
    read(&mut reader, &bytes[..20], 20);
    assert_eq!(budget.used(), 700);
    assert_eq!(reader.unfinished(), Some(12));
    drop(reader);
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_comes_in_frames_is_counted_with_the_room_that_its_buffer_has() {
    let budget = Budget::new(10_000);
    let mut reader = reader(&budget);
    read(&mut reader, &[frame(0x02, &[1; 600]), frame(0x00, &[1; 100])].concat(), 99);
    let Some(Partial { content: Ok(buffer), .. }) = &reader.message else { panic!("no message") };
    assert!(1000 < buffer.capacity(), "{}", buffer.capacity());
    assert_eq!(budget.used(), buffer.capacity());
}

proptest! {
    /// The same bytes give the same events in all pieces, and the budget gets everything back.
    #[test]
    fn no_bytes_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..64) {
        let budget = Budget::new(2000);
        let whole = read(&mut reader(&budget), &bytes, 400);
        prop_assert_eq!(read(&mut reader(&budget), &bytes, piece), whole);
        prop_assert_eq!(budget.used(), 0);
    }

    /// The same for bytes that look more like frames.
    #[test]
    fn no_frames_harm(
        frames in prop::collection::vec(
            (prop::sample::select(vec![0x00u8, 0x01, 0x02, 0x80, 0x81, 0x82, 0x88, 0x89, 0x8a]),
             prop::collection::vec(any::<u8>(), 0..200)),
            0..8,
        ),
        piece in 1usize..64,
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(first, payload)| frame(*first, payload)).collect();
        let budget = Budget::new(2000);
        let whole = read(&mut reader(&budget), &bytes, 4000);
        prop_assert_eq!(read(&mut reader(&budget), &bytes, piece), whole);
        prop_assert_eq!(budget.used(), 0);
    }
}
