//! A message as pieces: small fields are written one after the other, and a large tensor is passed on as it is, neither
//! copied nor joined. Pure.

use std::collections::VecDeque;

use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

/// Segments up to that size are copied, because that costs less than to write them one by one.
pub const SMALL: usize = 1 << 10;

/// Most bytes of one message.
pub const MOST: usize = i32::MAX as usize;

/// The finished pieces, and the bytes of the piece that is being written.
pub struct Pieces {
    open: Vec<u8>,
    done: VecDeque<Bytes>,
}

impl Pieces {
    /// An empty buffer, with room for `room` bytes outside of segments.
    pub fn with_capacity(bytes: usize) -> Pieces {
        Pieces { open: Vec::with_capacity(bytes), done: VecDeque::new() }
    }

    /// What is written so far is the start.
    pub fn starting_with(start: Vec<u8>) -> Pieces {
        Pieces { open: start, done: VecDeque::new() }
    }

    /// The piece that is being written.
    pub fn open(&mut self) -> &mut Vec<u8> {
        &mut self.open
    }

    /// Appends a segment; a large one is not copied.
    pub fn push(&mut self, segment: Bytes) {
        if segment.len() <= SMALL {
            self.open.extend_from_slice(&segment);
            return;
        }
        self.close();
        self.done.push_back(segment);
    }

    /// The same of a segment that stays where it is.
    pub fn push_copy(&mut self, segment: &Bytes) {
        match segment.len() <= SMALL {
            true => self.open.extend_from_slice(segment),
            false => self.push(segment.clone()),
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done.push_back(std::mem::take(&mut self.open).into());
        }
    }

    /// All pieces.
    pub fn finish(mut self) -> VecDeque<Bytes> {
        self.close();
        self.done
    }
}

/// Bytes of a field of that length, with its key and its length. Keys of fields up to 15 are one byte.
pub fn field(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

/// Appends a text with its key and length.
pub fn text(out: &mut Vec<u8>, number: u32, value: &str) {
    bytes(out, number, value.as_bytes());
}

/// Appends bytes with their key and length.
pub fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}
