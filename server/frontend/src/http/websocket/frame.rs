//! The frames of WebSocket (RFC 6455) as bytes: headers, and the mask over the payloads of clients. Pure.

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// The continuation of a message.
    Continuation,
    /// The start of a text message, in UTF-8.
    Text,
    /// The start of a binary message.
    Binary,
    /// The end of the connection.
    Close,
    /// A question whether the peer is there.
    Ping,
    /// The answer to a ping.
    Pong,
}

impl Opcode {
    /// Is it a control frame, not a part of a message?
    pub fn is_control(self) -> bool {
        match self {
            Opcode::Continuation | Opcode::Text | Opcode::Binary => false,
            Opcode::Close | Opcode::Ping | Opcode::Pong => true,
        }
    }

    fn of(number: u8) -> Option<Opcode> {
        match number {
            0 => Some(Opcode::Continuation),
            1 => Some(Opcode::Text),
            2 => Some(Opcode::Binary),
            8 => Some(Opcode::Close),
            9 => Some(Opcode::Ping),
            10 => Some(Opcode::Pong),
            _ => None,
        }
    }

    fn number(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Text => 1,
            Opcode::Binary => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }
}

/// The header of a client's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the frame.
    pub opcode: Opcode,
    /// Is it the last frame of its message?
    pub is_last: bool,
    /// Bytes of the payload.
    pub length: u64,
    /// The mask of the payload.
    pub mask: [u8; 4],
}

/// A violation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// Most bytes of a header.
pub const LONGEST_HEADER: usize = 14;

/// Most bytes of a control frame's payload.
pub const LONGEST_CONTROL: usize = 125;

/// The bit of a message's last frame, and the three bits that only extensions use.
const LAST: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
/// The bit of a masked payload. The other bits are its length, or say where the length is.
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;
const IN_TWO_BYTES: u8 = 126;
const IN_EIGHT_BYTES: u8 = 127;

/// The header of a client's frame at the start of `bytes`, and its length; `None` where bytes are missing.
///
/// # Errors
/// A violation of the protocol, as soon as it can be seen.
pub fn read_header(bytes: &[u8]) -> Result<Option<(Header, usize)>, Violation> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & RESERVED != 0 {
        return Err(Violation("reserved bits are set, and no extension was agreed upon"));
    }
    let is_last = first & LAST != 0;
    let opcode = Opcode::of(first & OPCODE).ok_or(Violation("unknown opcode"))?;
    if second & MASKED == 0 {
        return Err(Violation("a frame without a mask"));
    }
    let short = second & LENGTH;
    if opcode.is_control() && (!is_last || LONGEST_CONTROL < usize::from(short)) {
        return Err(Violation("a control frame in parts or of more than 125 bytes"));
    }
    let (length, rest) = match short {
        IN_TWO_BYTES => match rest.split_first_chunk() {
            Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
            None => return Ok(None),
        },
        IN_EIGHT_BYTES => match rest.split_first_chunk() {
            Some((length, rest)) => (u64::from_be_bytes(*length), rest),
            None => return Ok(None),
        },
        short => (u64::from(short), rest),
    };
    if i64::try_from(length).is_err() {
        return Err(Violation("a length of more than 63 bits"));
    }
    let Some((mask, rest)) = rest.split_first_chunk() else { return Ok(None) };
    let header = Header { opcode, is_last, length, mask: *mask };
    Ok(Some((header, bytes.len() - rest.len())))
}

/// The header of a frame from the server, which holds a whole message or is a control frame. It has no mask.
pub fn header(opcode: Opcode, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LONGEST_HEADER);
    bytes.push(LAST | opcode.number());
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < IN_TWO_BYTES => bytes.push(short),
        (_, Ok(medium)) => {
            bytes.push(IN_TWO_BYTES);
            bytes.extend(medium.to_be_bytes());
        }
        _ => {
            bytes.push(IN_EIGHT_BYTES);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes
}

/// Applies or removes the mask on a part of a payload that begins at `offset` in it.
pub fn unmask(bytes: &mut [u8], mask: [u8; 4], offset: u64) {
    let mut turned = mask;
    turned.rotate_left((offset % 4) as usize);
    let [a, b, c, d] = turned;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for it in words {
        *it = (u64::from_ne_bytes(*it) ^ word).to_ne_bytes();
    }
    for (it, mask) in rest.iter_mut().zip(turned.iter().cycle()) {
        *it ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expect: Header) {
        for cut in 0..bytes.len() {
            assert_eq!(read_header(&bytes[..cut]), Ok(None), "{cut} bytes");
        }
        assert_eq!(read_header(bytes), Ok(Some((expect, bytes.len()))));
        let more = [bytes, &[1, 2, 3]].concat();
        assert_eq!(read_header(&more), Ok(Some((expect, bytes.len()))));
    }

    #[test]
    fn headers_are_read_with_each_form_of_length() {
        let mask = [1, 2, 3, 4];
        let text = Header { opcode: Opcode::Text, is_last: true, length: 5, mask };
        check(&[0x81, 0x85, 1, 2, 3, 4], text);
        let binary = Header { opcode: Opcode::Binary, is_last: false, length: 300, mask };
        check(&[0x02, 0xfe, 1, 44, 1, 2, 3, 4], binary);
        let long = Header { opcode: Opcode::Continuation, is_last: true, length: 1 << 32, mask };
        check(&[0x80, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4], long);
        check(&[0x89, 0x80, 1, 2, 3, 4], Header { opcode: Opcode::Ping, length: 0, ..text });
    }

    #[test]
    fn what_no_client_may_send_is_seen_at_once() {
        for bytes in [
            &[0xc1, 0x80][..],
            &[0x83, 0x80],
            &[0x8b, 0x80],
            &[0x81, 0x05],
            &[0x09, 0x80],
            &[0x89, 0xfe],
            &[0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert!(read_header(bytes).is_err(), "{bytes:x?}");
        }
    }

    #[test]
    fn our_headers_have_the_shortest_length() {
        assert_eq!(header(Opcode::Text, 125), [0x81, 125]);
        assert_eq!(header(Opcode::Binary, 126), [0x82, 126, 0, 126]);
        assert_eq!(header(Opcode::Pong, 0), [0x8a, 0]);
        assert_eq!(header(Opcode::Text, 65_535), [0x81, 126, 255, 255]);
        assert_eq!(header(Opcode::Text, 65_536), [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn a_mask_comes_off_in_whatever_parts_the_payload_arrives() {
        let (mask, plain): ([u8; 4], Vec<u8>) = ([7, 99, 200, 1], (0..100).collect());
        let by_hand: Vec<u8> = plain.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b).collect();
        for cut in 0..=plain.len() {
            let mut masked = by_hand.clone();
            let (left, right) = masked.split_at_mut(cut);
            unmask(left, mask, 0);
            unmask(right, mask, cut as u64);
            assert_eq!(masked, plain, "cut at {cut}");
        }
    }
}
