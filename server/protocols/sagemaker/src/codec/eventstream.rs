//! Frames of AWS's event streams (`application/vnd.amazon.eventstream`), as clients of SageMaker's runtime read a
//! streamed reply: parts of its body, and the exception that ends one that broke. Pure.

use bytes::{BufMut, Bytes, BytesMut};
use crc32fast::Hasher;

use formats::json::write;

/// The media type of a stream of frames.
pub const MEDIA_TYPE: &str = "application/vnd.amazon.eventstream";

/// Most bytes of one frame's payload; what is longer goes into several.
pub const MOST_PAYLOAD: usize = 24 << 20;

/// A frame up to that size is joined into one piece: to copy it costs less than to write it in three.
const SMALL: usize = 4 << 10;

/// The only type of header values that is written: text.
const TEXT: u8 = 7;

/// Two lengths and the checksum of them.
const PRELUDE: usize = 12;

/// The checksum at the end.
const CHECKSUM: usize = 4;

/// Why a stream ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The model took too long.
    TimeExceeded,
    /// The rest of the reply will not come.
    Off,
}

impl Broken {
    /// Its name on the wire.
    fn code(self) -> &'static str {
        match self {
            Broken::TimeExceeded => "ModelInvocationTimeExceeded",
            Broken::Off => "StreamBroken",
        }
    }
}

/// Takes as much of these bytes of a reply as one frame may carry, and appends that frame to `out`, in the order of its
/// pieces. A large payload is not copied; `false` for an empty chunk, which has no frame.
pub fn part(chunk: &mut Bytes, out: &mut impl Extend<Bytes>) -> bool {
    const HEADERS: [(&str, &str); 3] = [
        (":message-type", "event"),
        (":event-type", "PayloadPart"),
        (":content-type", "application/octet-stream"),
    ];
    if chunk.is_empty() {
        return false;
    }
    let payload = chunk.split_to(chunk.len().min(MOST_PAYLOAD));
    frame(&HEADERS, payload, out);
    true
}

/// Appends to `out` the frame that says why a stream ends before its reply does.
pub fn exception(broken: Broken, message: &str, out: &mut impl Extend<Bytes>) {
    const HEADERS: [(&str, &str); 3] = [
        (":message-type", "exception"),
        (":exception-type", "ModelStreamError"),
        (":content-type", "application/json"),
    ];
    let mut payload = b"{".to_vec();
    write::key(&mut payload, "ErrorCode");
    write::string(&mut payload, broken.code());
    write::key(&mut payload, "Message");
    write::string(&mut payload, message);
    payload.push(b'}');
    frame(&HEADERS, payload.into(), out);
}

/// Lengths, their checksum, headers, payload, the checksum of everything before it; all integers big-endian.
fn frame(headers: &[(&str, &str)], payload: Bytes, out: &mut impl Extend<Bytes>) {
    let headers_length: usize =
        headers.iter().map(|(name, value)| 1 + name.len() + 1 + 2 + value.len()).sum();
    let total = PRELUDE + headers_length + payload.len() + CHECKSUM;
    let joined = total <= SMALL;
    let mut head = BytesMut::with_capacity(match joined {
        true => total,
        false => PRELUDE + headers_length,
    });
    // Payloads are at most `MOST_PAYLOAD`, headers are ours: both lengths fit.
    head.put_u32(total as u32);
    head.put_u32(headers_length as u32);
    head.put_u32(crc32fast::hash(&head));
    for (name, value) in headers {
        head.put_u8(name.len() as u8);
        head.put_slice(name.as_bytes());
        head.put_u8(TEXT);
        head.put_u16(value.len() as u16);
        head.put_slice(value.as_bytes());
    }
    let mut checksum = Hasher::new();
    checksum.update(&head);
    checksum.update(&payload);
    let checksum = checksum.finalize();
    if joined {
        head.put_slice(&payload);
        head.put_u32(checksum);
        out.extend([head.freeze()]);
    } else {
        out.extend([head.freeze(), payload, Bytes::copy_from_slice(&checksum.to_be_bytes())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part `{"tok":1}\n`, as the platform sends it.
    const GOLDEN: &str = "0000007300000059c9e7ac260d3a6d6573736167652d747970650700056576656e740b3a6576656e742d747970650700\
                          0b5061796c6f6164506172740d3a636f6e74656e742d747970650700186170706c69636174696f6e2f6f637465742d73\
                          747265616d7b22746f6b223a317d0a15ae84ec";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|it| format!("{it:02x}")).collect()
    }

    /// Headers and payload.
    type Read = (Vec<(String, String)>, Vec<u8>);

    /// The frames; panics where a length or a checksum is wrong.
    fn read(mut bytes: &[u8]) -> Vec<Read> {
        let number = |it: &[u8]| u32::from_be_bytes(it[..4].try_into().unwrap());
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let (total, headers) = (number(bytes) as usize, number(&bytes[4..]) as usize);
            assert_eq!(number(&bytes[8..]), crc32fast::hash(&bytes[..8]));
            assert_eq!(number(&bytes[total - 4..]), crc32fast::hash(&bytes[..total - 4]));
            let (mut rest, payload) = bytes[12..total - 4].split_at(headers);
            let mut found = Vec::new();
            while !rest.is_empty() {
                let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
                let end = 1 + usize::from(rest[0]);
                assert_eq!(rest[end], TEXT);
                let length = usize::from(u16::from_be_bytes([rest[end + 1], rest[end + 2]]));
                found.push((text(&rest[1..end]), text(&rest[end + 3..end + 3 + length])));
                rest = &rest[end + 3 + length..];
            }
            frames.push((found, payload.to_vec()));
            bytes = &bytes[total..];
        }
        frames
    }

    #[test]
    fn a_part_is_framed_byte_for_byte_as_by_the_platform() {
        let mut out = Vec::new();
        assert!(part(&mut Bytes::from_static(b"{\"tok\":1}\n"), &mut out));
        let bytes = out.concat();
        assert_eq!(bytes.len(), 115);
        assert_eq!(hex(&bytes), GOLDEN);
    }

    #[test]
    fn what_is_longer_than_a_frame_may_be_goes_into_several_and_is_not_copied() {
        let body = Bytes::from(vec![7; 2 * MOST_PAYLOAD + 3]);
        let mut out: Vec<Bytes> = Vec::new();
        let mut rest = body.clone();
        while part(&mut rest, &mut out) {}
        assert_eq!(out[1].as_ptr(), body.as_ptr());
        let frames = read(&out.concat());
        let lengths: Vec<usize> = frames.iter().map(|it| it.1.len()).collect();
        assert_eq!(lengths, [MOST_PAYLOAD, MOST_PAYLOAD, 3]);
        let payload: Vec<u8> = frames.into_iter().flat_map(|it| it.1).collect();
        assert_eq!(payload, body);
    }

    #[test]
    fn nothing_has_no_frame() {
        let mut out: Vec<Bytes> = Vec::new();
        assert!(!part(&mut Bytes::new(), &mut out));
        assert!(out.is_empty());
    }

    #[test]
    fn an_exception_names_its_code_and_says_why() {
        let mut out: Vec<Bytes> = Vec::new();
        exception(Broken::TimeExceeded, "it took \"long\"", &mut out);
        let frames = read(&out.concat());
        let headers: Vec<(&str, &str)> =
            frames[0].0.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected = [
            (":message-type", "exception"),
            (":exception-type", "ModelStreamError"),
            (":content-type", "application/json"),
        ];
        assert_eq!(headers, expected);
        let text = br#"{"ErrorCode":"ModelInvocationTimeExceeded","Message":"it took \"long\""}"#;
        assert_eq!(frames[0].1, text);
    }
}
