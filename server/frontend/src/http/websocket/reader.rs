//! What comes over a WebSocket, put together: bytes → frames → messages, under the limits of bodies. Where a message
//! has its length announced, its memory is asked for before any is taken.

use bytes::Bytes;

use crate::exchange::intake::{Limits, Received};
use crate::http::websocket::{
    Close,
    frame::{self, Header, Opcode},
};
use inference::{
    aligned::AlignedBuffer,
    error::Error,
    limits::{Permit, out_of_bytes},
};

/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;

/// What a message is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Bytes.
    Binary,
}

/// Something that came.
#[derive(Debug)]
pub enum Event {
    /// A message.
    Message(Kind, Received),
    /// A message for which there was no memory: it was read to no purpose.
    Refused(Error),
    /// The peer asks whether we are there, and wants these bytes back.
    Ping(Bytes),
    /// The peer is there.
    Pong,
    /// The peer is done; what is to be said in return.
    Closed(Close),
}

/// A frame of which the header is known.
struct Frame {
    header: Header,
    /// Bytes of its payload that have come.
    received: u64,
}

/// A message whose last frame has not come.
struct Partial {
    kind: Kind,
    /// Bytes announced so far.
    length: u64,
    content: Result<(AlignedBuffer, Permit), Error>,
    /// Bytes of a text that have been found to be UTF-8.
    checked: usize,
}

impl Partial {
    /// More has come. Each part of a text is looked at when it comes: all of a large one at once would keep other
    /// connections waiting.
    fn extend(&mut self, chunk: &[u8]) -> Result<(), Close> {
        // Read to no purpose where there is no room.
        let Ok((buffer, permit)) = &mut self.content else { return Ok(()) };
        buffer.extend(chunk);
        // What comes in several frames has a buffer that outgrows what was announced.
        permit.cover(buffer.capacity());
        if self.kind == Kind::Text {
            let unchecked = buffer.bytes().get(self.checked..).unwrap_or_default();
            match std::str::from_utf8(unchecked) {
                Ok(text) => self.checked += text.len(),
                // A part of a letter: the rest may come.
                Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
                Err(_) => return Err(Close::not_text()),
            }
        }
        Ok(())
    }
}

/// Puts messages together.
pub struct Reader {
    limits: Limits,
    /// Bytes that have been read and not been looked at: those from `start` to `end`.
    raw: Box<[u8]>,
    start: usize,
    end: usize,
    frame: Option<Frame>,
    /// The payload of the control frame that comes.
    control: Vec<u8>,
    message: Option<Partial>,
}

impl Reader {
    /// An empty one, for messages under these limits.
    pub fn new(limits: Limits) -> Reader {
        let raw = vec![0; BUFFER].into_boxed_slice();
        Reader { limits, raw, start: 0, end: 0, frame: None, control: Vec::new(), message: None }
    }

    /// Where bytes are to be read to; never empty once [`Reader::next`] has said that there is nothing.
    pub fn room(&mut self) -> &mut [u8] {
        self.raw.get_mut(self.end..).unwrap_or_default()
    }

    /// So many bytes have been read.
    pub fn filled(&mut self, bytes: usize) {
        self.end = self.raw.len().min(self.end + bytes);
    }

    /// Forgets what was read: nothing more is wanted.
    pub fn discard(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Bytes that have come of what is not complete; `None` where nothing has begun.
    pub fn unfinished(&self) -> Option<u64> {
        let of_message = self.message.as_ref().map(|it| match &it.content {
            Ok((buffer, _)) => buffer.len() as u64,
            Err(_) => it.length,
        });
        let begun = self.frame.is_some() || self.start < self.end;
        of_message.or(begun.then_some(0))
    }

    /// The next event in what has been read; `None` until more is read.
    ///
    /// # Errors
    /// How the conversation is to end, where the peer may not do what it did.
    pub fn next(&mut self) -> Result<Option<Event>, Close> {
        loop {
            let Some(frame) = &mut self.frame else {
                let unread = self.raw.get(self.start..self.end).unwrap_or_default();
                match frame::read_header(unread)? {
                    Some((header, length)) => {
                        self.start += length;
                        self.begin(header)?;
                    }
                    None => {
                        // A part of a header, or nothing: the rest needs room.
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

    /// A frame has begun.
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
            None => match budget.take(size) {
                Some(permit) => Ok((AlignedBuffer::new(size, 0), permit)),
                None => Err(out_of_bytes(budget)),
            },
            Some(Ok((buffer, mut permit))) => match permit.grow_to(size) {
                true => Ok((buffer, permit)),
                false => Err(out_of_bytes(budget)),
            },
            Some(Err(error)) => Err(error),
        };
        self.message = Some(Partial { kind, length, content, checked });
        Ok(())
    }

    /// A frame has come whole.
    fn complete(&mut self, header: Header) -> Result<Option<Event>, Close> {
        let control = |control: &mut Vec<u8>| Bytes::from(std::mem::take(control));
        match header.opcode {
            Opcode::Ping => return Ok(Some(Event::Ping(control(&mut self.control)))),
            Opcode::Pong => {
                self.control.clear();
                return Ok(Some(Event::Pong));
            }
            Opcode::Close => {
                let said = Close::read(&control(&mut self.control))?;
                return Ok(Some(Event::Closed(said)));
            }
            Opcode::Continuation | Opcode::Text | Opcode::Binary => {}
        }
        let Some(Partial { kind, content, checked, .. }) = self.message.take_if(|_| header.is_last)
        else {
            return Ok(None);
        };
        let (buffer, permit) = match content {
            Ok(content) => content,
            Err(error) => return Ok(Some(Event::Refused(error))),
        };
        let bytes = buffer.finish();
        if kind == Kind::Text && checked < bytes.len() {
            return Err(Close::not_text());
        }
        Ok(Some(Event::Message(kind, Received { bytes, permit })))
    }
}

#[cfg(test)]
mod tests;
