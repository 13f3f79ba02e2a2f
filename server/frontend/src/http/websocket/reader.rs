//! Reads messages from a WebSocket: bytes → frames → messages, under the limits of bodies. Room is taken as
//! the bytes of a message arrive, before any memory for them.

use bytes::Bytes;

use crate::exchange::{
    body_buffer::{BodyBuffer, first_piece},
    intake::{Limits, Received},
};
use crate::http::websocket::{
    Close,
    frame::{self, Header, Opcode},
};
use inference::error::Error;

/// Bytes that are read at a time.
const BUFFER: usize = 16 << 10;

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Bytes.
    Binary,
}

/// Something that the peer sent.
#[derive(Debug)]
pub enum Event {
    /// A message.
    Message(Kind, Received),
    /// A message for which the budget had no room: its bytes were dropped.
    Refused(Error),
    /// The peer asks whether the server is there, and expects these bytes in the answer.
    Ping(Bytes),
    /// The peer is there.
    Pong,
    /// The peer closes the session. Holds the frame to answer with.
    Closed(Close),
}

/// A frame whose header is known.
struct Frame {
    header: Header,
    /// Bytes of its payload that have arrived.
    received: u64,
}

/// A message without its last frame.
struct Partial {
    kind: Kind,
    /// Bytes announced so far.
    length: u64,
    content: Result<BodyBuffer, Error>,
    /// Bytes of a text that are known to be UTF-8.
    checked: usize,
}

impl Partial {
    /// Adds a part. A text is checked part by part: checking all of a large one at once would delay other
    /// connections.
    fn extend(&mut self, chunk: &[u8]) -> Result<(), Close> {
        // A message that was refused: its bytes are dropped.
        let Ok(buffer) = &mut self.content else { return Ok(()) };
        if let Err(error) = buffer.extend(chunk) {
            self.content = Err(error);
            return Ok(());
        }
        if self.kind == Kind::Text {
            let unchecked = buffer.bytes().get(self.checked..).unwrap_or_default();
            match std::str::from_utf8(unchecked) {
                Ok(text) => self.checked += text.len(),
                // The part ends within a letter: the next one may complete it.
                Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
                Err(_) => return Err(Close::not_text()),
            }
        }
        Ok(())
    }
}

/// Puts frames together into messages.
pub struct MessageReader {
    limits: Limits,
    /// The buffer for reading. The bytes from `start` to `end` are read and not parsed yet.
    raw: Box<[u8]>,
    start: usize,
    end: usize,
    frame: Option<Frame>,
    /// The payload of an unfinished control frame.
    control: Vec<u8>,
    message: Option<Partial>,
}

impl MessageReader {
    /// An empty reader for messages under these limits.
    pub fn new(limits: Limits) -> MessageReader {
        let raw = vec![0; BUFFER].into_boxed_slice();
        MessageReader {
            limits,
            raw,
            start: 0,
            end: 0,
            frame: None,
            control: Vec::new(),
            message: None,
        }
    }

    /// The free part of the buffer; never empty after [`MessageReader::next_event`] has returned `None`.
    pub fn room(&mut self) -> &mut [u8] {
        self.raw.get_mut(self.end..).unwrap_or_default()
    }

    /// Adds that many bytes, which were read into [`MessageReader::room`].
    pub fn filled(&mut self, bytes: usize) {
        self.end = self.raw.len().min(self.end + bytes);
    }

    /// Drops the bytes that were read and not parsed.
    pub fn discard(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Bytes of the unfinished message that have arrived; `None` where no message has begun.
    pub fn unfinished(&self) -> Option<u64> {
        let of_message = self.message.as_ref().map(|it| match &it.content {
            Ok(buffer) => buffer.received() as u64,
            Err(_) => it.length,
        });
        let begun = self.frame.is_some() || self.start < self.end;
        of_message.or(begun.then_some(0))
    }

    /// The next event in the bytes that were read; `None` where more bytes are needed.
    ///
    /// # Errors
    /// The frame to close the session with, where the peer violates the protocol or a limit.
    pub fn next_event(&mut self) -> Result<Option<Event>, Close> {
        loop {
            let Some(frame) = &mut self.frame else {
                let unread = self.raw.get(self.start..self.end).unwrap_or_default();
                match frame::read_header(unread)? {
                    Some((header, length)) => {
                        self.start += length;
                        self.begin(header)?;
                    }
                    None => {
                        // A part of a header, or nothing: the rest needs room in the buffer.
                        self.raw.copy_within(self.start..self.end, 0);
                        (self.start, self.end) = (0, self.end - self.start);
                        return Ok(None);
                    }
                }
                continue;
            };
            let left = frame.header.length - frame.received;
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.end - self.start);
            let chunk = self.raw.get_mut(self.start..self.start + here).unwrap_or_default();
            frame::unmask(chunk, frame.header.mask, frame.received);
            match (frame.header.opcode.is_control(), &mut self.message) {
                (true, _) => self.control.extend_from_slice(chunk),
                (false, Some(message)) => message.extend(chunk)?,
                (false, None) => {}
            }
            frame.received += here as u64;
            self.start += here;
            if frame.received < frame.header.length {
                self.discard();
                return Ok(None);
            }
            let header = frame.header;
            self.frame = None;
            if let Some(event) = self.complete(header)? {
                return Ok(Some(event));
            }
        }
    }

    /// Begins a frame.
    fn begin(&mut self, header: Header) -> Result<(), Close> {
        self.frame = Some(Frame { header, received: 0 });
        let kind = match (header.opcode, &self.message) {
            (Opcode::Close | Opcode::Ping | Opcode::Pong, _) => return Ok(()),
            (Opcode::Continuation, Some(message)) => message.kind,
            (Opcode::Text, None) => Kind::Text,
            (Opcode::Binary, None) => Kind::Binary,
            (Opcode::Continuation, None) => {
                return Err(Close::violation("a continuation of nothing"));
            }
            (Opcode::Text | Opcode::Binary, Some(_)) => {
                return Err(Close::violation("a message within another one"));
            }
        };
        let Limits { limit, budget, .. } = &self.limits;
        let before = self.message.as_ref().map_or(0, |it| it.length);
        let length = before.saturating_add(header.length);
        if *limit < length {
            return Err(Close::too_large(*limit));
        }
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        let checked = self.message.as_ref().map_or(0, |it| it.checked);
        let content = match self.message.take().map(|it| it.content) {
            None => first_piece(budget, size).map(|permit| BodyBuffer::new(size, 0, permit)),
            Some(Ok(mut buffer)) => {
                buffer.announce(size);
                Ok(buffer)
            }
            Some(Err(error)) => Err(error),
        };
        self.message = Some(Partial { kind, length, content, checked });
        Ok(())
    }

    /// Ends a frame.
    fn complete(&mut self, header: Header) -> Result<Option<Event>, Close> {
        let control = |control: &mut Vec<u8>| Bytes::from(std::mem::take(control));
        match header.opcode {
            Opcode::Ping => return Ok(Some(Event::Ping(control(&mut self.control)))),
            Opcode::Pong => {
                self.control.clear();
                return Ok(Some(Event::Pong));
            }
            Opcode::Close => {
                let close = Close::read(&control(&mut self.control))?;
                return Ok(Some(Event::Closed(close)));
            }
            Opcode::Continuation | Opcode::Text | Opcode::Binary => {}
        }
        let Some(Partial { kind, content, checked, .. }) = self.message.take_if(|_| header.is_last)
        else {
            return Ok(None);
        };
        let buffer = match content {
            Ok(buffer) => buffer,
            Err(error) => return Ok(Some(Event::Refused(error))),
        };
        let received = buffer.finish();
        if kind == Kind::Text && checked < received.bytes.len() {
            return Err(Close::not_text());
        }
        Ok(Some(Event::Message(kind, received)))
    }
}

#[cfg(test)]
mod tests;
