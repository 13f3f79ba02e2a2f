//! What the worker is to be told and has no room for yet.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, Write},
    os::unix::net::UnixStream,
};

use backend::NamedTensor;
use bytes::{Buf, Bytes};

use super::message::{ToWorker, encode};
use crate::channel::ChannelError;

/// While so many bytes wait to be written, nothing is done that makes more of them.
const MOST: usize = 64 << 10;

/// Segments that are written at once.
const SEGMENTS: usize = 16;

#[derive(Default)]
pub(super) struct Outbox {
    segments: VecDeque<Bytes>,
    bytes: usize,
}

impl Outbox {
    pub(super) fn has_room(&self) -> bool {
        self.bytes < MOST
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// One more message, with these tensors behind it.
    ///
    /// # Errors
    /// Where it is longer than a frame can be.
    pub(super) fn push(
        &mut self,
        said: &ToWorker<'_>,
        tensors: &[NamedTensor],
    ) -> Result<(), ChannelError> {
        let segments = encode(said, tensors).map_err(ChannelError::Io)?;
        self.bytes += segments.iter().map(Bytes::len).sum::<usize>();
        self.segments.extend(segments.into_iter().filter(|it| !it.is_empty()));
        Ok(())
    }

    /// Writes what there is room for to a stream that does not block.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) fn write(&mut self, mut stream: &UnixStream) -> Result<(), ChannelError> {
        while !self.segments.is_empty() {
            let those = self.segments.iter().take(SEGMENTS);
            let slices: Vec<IoSlice<'_>> = those.map(|it| IoSlice::new(it)).collect();
            let mut count = match stream.write_vectored(&slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                written => written?,
            };
            self.bytes -= count;
            while let Some(first) = self.segments.front_mut() {
                let len = first.len().min(count);
                first.advance(len);
                count -= len;
                if !first.is_empty() {
                    break;
                }
                self.segments.pop_front();
            }
        }
        Ok(())
    }
}
