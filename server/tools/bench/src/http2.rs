//! The client's side of one HTTP/2 connection with one unary gRPC call at a time: what is to be written, and what
//! has come of the call (RFC 9113). Pure: it sees bytes, not sockets.

use crate::hpack;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes in front of each frame: length, type, flags, stream.
const FRAME_HEAD: usize = 9;
/// The longest frame that a peer must take without a setting of its own. No setting may be lower.
const LONGEST_FRAME: usize = 16_384;
/// How much may be sent before the peer makes more room, where it has not said otherwise.
const FIRST_WINDOW: i64 = 65_535;
/// How much the peer may send: the most that there is, made anew when half of it is used.
const OUR_WINDOW: u32 = (1 << 31) - 1;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Of DATA and HEADERS.
const END_STREAM: u8 = 1;
/// Of SETTINGS and PING.
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// The bytes are not HTTP/2, or the peer has closed the stream or the connection on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// `grpc-status`, where it was there.
    pub(crate) code: Option<u32>,
    /// May the connection carry another call?
    pub(crate) keep_alive: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    /// Bytes for the socket, and how many it has taken.
    out: Vec<u8>,
    written: usize,
    /// Bytes from the socket that are no whole frame yet.
    partial: Vec<u8>,
    /// Number of the present or last stream.
    stream: u32,
    /// The part of the message that is not in `out` yet begins here.
    framed: usize,
    /// Is a call on its way?
    busy: bool,
    /// Room for our data: of the connection, of the stream, and of a new stream.
    connection_window: i64,
    stream_window: i64,
    first_window: i64,
    /// Data that has come since the peer was given room.
    received: u32,
    /// The header block that is being read, and whether the stream ends with it.
    block: Vec<u8>,
    block_ends: bool,
    code: Option<u32>,
    goaway: bool,
}

impl Session {
    /// At the beginning of a connection.
    pub(crate) fn new() -> Session {
        let mut out = PREFACE.to_vec();
        let settings =
            [(HEADER_TABLE_SIZE, 0), (ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, OUR_WINDOW)];
        let settings = settings.map(|(name, value): (u16, u32)| {
            let ([a, b], [c, d, e, f]) = (name.to_be_bytes(), value.to_be_bytes());
            [a, b, c, d, e, f]
        });
        frame(&mut out, SETTINGS, 0, 0, settings.as_flattened());
        frame(&mut out, WINDOW_UPDATE, 0, 0, &(OUR_WINDOW - FIRST_WINDOW as u32).to_be_bytes());
        Session {
            out,
            written: 0,
            partial: Vec::new(),
            stream: u32::MAX,
            framed: 0,
            busy: false,
            connection_window: FIRST_WINDOW,
            stream_window: 0,
            first_window: FIRST_WINDOW,
            received: 0,
            block: Vec::new(),
            block_ends: false,
            code: None,
            goaway: false,
        }
    }

    /// Begins a call: `head` is its header block, `message` the whole body.
    pub(crate) fn begin(&mut self, head: &[u8], message: &[u8]) {
        self.stream = self.stream.wrapping_add(2);
        (self.framed, self.code, self.busy) = (0, None, true);
        self.stream_window = self.first_window;
        frame(&mut self.out, HEADERS, END_HEADERS, self.stream, head);
        self.pump(message);
    }

    /// Frames as much of the message as the peer has room for.
    fn pump(&mut self, message: &[u8]) {
        while self.busy && self.framed < message.len() {
            let room = self.connection_window.min(self.stream_window).max(0) as usize;
            let length = (message.len() - self.framed).min(LONGEST_FRAME).min(room);
            if length == 0 {
                return;
            }
            let piece = message.get(self.framed..self.framed + length).unwrap_or_default();
            self.framed += length;
            let last = if self.framed == message.len() { END_STREAM } else { 0 };
            frame(&mut self.out, DATA, last, self.stream, piece);
            self.connection_window -= length as i64;
            self.stream_window -= length as i64;
        }
    }

    /// What is to be written next.
    pub(crate) fn unwritten(&self) -> &[u8] {
        self.out.get(self.written..).unwrap_or_default()
    }

    /// The socket has taken so many bytes of it.
    pub(crate) fn wrote(&mut self, count: usize) {
        self.written += count;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Takes a piece of the stream and hands the messages in it to `body`. Some of the answer to it may have to be
    /// written afterwards, and more of the `message` that is on its way.
    pub(crate) fn feed(
        &mut self,
        input: &[u8],
        message: &[u8],
        body: &mut impl FnMut(&[u8]),
    ) -> Result<Option<Ended>, Broken> {
        let mut pieces = std::mem::take(&mut self.partial);
        let mut rest = match pieces.is_empty() {
            true => input,
            false => {
                pieces.extend_from_slice(input);
                &pieces
            }
        };
        let mut ended = None;
        while let Some((head, behind)) = rest.split_first_chunk::<FRAME_HEAD>() {
            let [a, b, c, kind, flags, stream @ ..] = *head;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let Some((payload, behind)) = behind.split_at_checked(length) else { break };
            rest = behind;
            let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
            ended = ended.or(self.take(kind, flags, stream, payload, body)?);
        }
        self.partial = rest.to_vec();
        self.pump(message);
        Ok(ended)
    }

    fn take(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
        body: &mut impl FnMut(&[u8]),
    ) -> Result<Option<Ended>, Broken> {
        let ours = self.busy && stream == self.stream;
        match kind {
            DATA => {
                self.make_room(payload.len() as u32);
                if ours {
                    body(unpadded(payload, flags, 0).ok_or(Broken)?);
                    if flags & END_STREAM != 0 {
                        return Ok(Some(self.end()));
                    }
                }
            }
            HEADERS => {
                let priority = if flags & PRIORITY != 0 { 5 } else { 0 };
                self.block = unpadded(payload, flags, priority).ok_or(Broken)?.to_vec();
                self.block_ends = flags & END_STREAM != 0;
                return Ok(self.end_of_block(flags, ours));
            }
            CONTINUATION => {
                self.block.extend_from_slice(payload);
                return Ok(self.end_of_block(flags, ours));
            }
            RST_STREAM if ours => return Err(Broken),
            SETTINGS if flags & ACK == 0 => {
                self.settings(payload);
                frame(&mut self.out, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(&mut self.out, PING, ACK, 0, payload),
            GOAWAY => {
                self.goaway = true;
                let last = payload.first_chunk().map(|it| u32::from_be_bytes(*it));
                if self.busy && last.is_some_and(|it| it & (u32::MAX >> 1) < self.stream) {
                    return Err(Broken);
                }
            }
            WINDOW_UPDATE => {
                let more = payload.first_chunk().map(|it| u32::from_be_bytes(*it)).ok_or(Broken)?;
                let window = match stream {
                    0 => &mut self.connection_window,
                    _ if ours => &mut self.stream_window,
                    _ => return Ok(None),
                };
                *window += i64::from(more);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Gives the peer room again for what it has sent. (A stream is over long before its own is used up.)
    fn make_room(&mut self, received: u32) {
        self.received += received;
        if self.received > OUR_WINDOW / 2 {
            frame(&mut self.out, WINDOW_UPDATE, 0, 0, &self.received.to_be_bytes());
            self.received = 0;
        }
    }

    fn end_of_block(&mut self, flags: u8, ours: bool) -> Option<Ended> {
        if flags & END_HEADERS == 0 || !ours {
            return None;
        }
        self.code = hpack::grpc_status(&self.block).or(self.code);
        self.block_ends.then(|| self.end())
    }

    fn end(&mut self) -> Ended {
        self.busy = false;
        Ended { code: self.code, keep_alive: !self.goaway }
    }

    fn settings(&mut self, payload: &[u8]) {
        for &[a, b, c, d, e, f] in payload.as_chunks().0 {
            if u16::from_be_bytes([a, b]) == INITIAL_WINDOW_SIZE {
                let window = i64::from(u32::from_be_bytes([c, d, e, f]));
                self.stream_window += window - self.first_window;
                self.first_window = window;
            }
        }
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A frame's content without its padding and the `skipped` bytes in front; `None` where there are not so many.
fn unpadded(payload: &[u8], flags: u8, skipped: usize) -> Option<&[u8]> {
    let (padding, payload) = match flags & PADDED {
        0 => (0, payload),
        _ => payload.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
    };
    payload.get(skipped..payload.len().checked_sub(padding)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: u32 = 0;

    fn framed(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        frame(&mut out, kind, flags, stream, payload);
        out
    }

    /// A session whose greeting has been written and answered with these settings.
    fn greeted(settings: &[u8]) -> Session {
        let mut session = Session::new();
        let length = session.unwritten().len();
        assert!(session.unwritten().starts_with(PREFACE));
        session.wrote(length);
        session.feed(&framed(SETTINGS, 0, SERVER, settings), &[], &mut |_| ()).unwrap();
        assert_eq!(session.unwritten(), framed(SETTINGS, ACK, 0, &[]));
        session.wrote(FRAME_HEAD);
        session
    }

    /// `grpc-status: 0` as servers write it, its name in Huffman's code.
    const STATUS_0: &[u8] = b"\x40\x88\x9a\xca\xc8\xb2\x12\x34\xda\x8f\x01\x30";

    #[test]
    fn a_call_is_a_head_and_a_message_and_ends_with_its_status() {
        let mut session = greeted(&[]);
        session.begin(b"\x83", b"hello");
        let sent =
            [framed(HEADERS, END_HEADERS, 1, b"\x83"), framed(DATA, END_STREAM, 1, b"hello")];
        assert_eq!(session.unwritten(), sent.concat());
        let reply = [
            framed(HEADERS, END_HEADERS, 1, b"\x88"),
            framed(DATA, PADDED, 1, b"\x02world\0\0"),
            framed(HEADERS, END_HEADERS | END_STREAM, 1, STATUS_0),
        ];
        // However it is cut.
        let mut body = Vec::new();
        let mut ended = None;
        for byte in reply.concat() {
            assert_eq!(ended, None);
            ended = session.feed(&[byte], b"hello", &mut |it| body.extend_from_slice(it)).unwrap();
        }
        assert_eq!(ended, Some(Ended { code: Some(0), keep_alive: true }));
        assert_eq!(body, b"world");
        session.wrote(sent.concat().len());
        session.begin(b"\x83", b"x");
        assert!(session.unwritten().starts_with(&framed(HEADERS, END_HEADERS, 3, b"\x83")));
    }

    #[test]
    fn no_more_is_sent_than_the_peer_has_room_for() {
        let mut session = greeted(&[0, 4, 0, 0, 0, 4]);
        session.begin(b"", b"hello");
        session.wrote(FRAME_HEAD);
        assert_eq!(session.unwritten(), framed(DATA, 0, 1, b"hell"));
        session.wrote(FRAME_HEAD + 4);
        let more = framed(WINDOW_UPDATE, 0, 1, &9u32.to_be_bytes());
        session.feed(&more, b"hello", &mut |_| ()).unwrap();
        assert_eq!(session.unwritten(), framed(DATA, END_STREAM, 1, b"o"));
    }

    #[test]
    fn pings_are_answered_and_what_is_no_answer_breaks_the_call() {
        let mut session = greeted(&[]);
        session.feed(&framed(PING, 0, 0, b"12345678"), &[], &mut |_| ()).unwrap();
        assert_eq!(session.unwritten(), framed(PING, ACK, 0, b"12345678"));
        session.begin(b"", b"");
        let mut other = |kind, payload: &[u8]| {
            session.feed(&framed(kind, 0, u32::from(kind == RST_STREAM), payload), b"", &mut |_| ())
        };
        assert_eq!(other(GOAWAY, &[0, 0, 0, 1, 0, 0, 0, 0]), Ok(None));
        assert_eq!(other(GOAWAY, &[0; 8]), Err(Broken));
        assert_eq!(other(RST_STREAM, &[0; 4]), Err(Broken));
    }
}
