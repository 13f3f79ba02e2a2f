//! The close frames of a WebSocket: a code, and a reason for a human reader. Pure.

use crate::http::websocket::frame::{LONGEST_CONTROL, Violation};

/// The content of a close frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// `None` for an empty close frame.
    code: Option<u16>,
    reason: String,
}

impl Close {
    /// 1000: nothing has happened for that many seconds.
    pub fn idle(seconds: u64) -> Close {
        Close::new(1000, format!("idle for {seconds} seconds (--idle-timeout-secs)"))
    }

    /// 1001: the server stops.
    pub fn leaving() -> Close {
        Close::new(1001, "the server is shutting down".to_owned())
    }

    /// 1002: the peer violates the protocol.
    pub fn violation(what: &'static str) -> Close {
        Close::new(1002, what.to_owned())
    }

    /// 1007: a text is not UTF-8.
    pub fn not_text() -> Close {
        Close::new(1007, "a text message that is not UTF-8".to_owned())
    }

    /// 1008: a message takes too long to come.
    pub fn slow(seconds: u64) -> Close {
        Close::new(1008, format!("a message did not arrive within {seconds} seconds"))
    }

    /// 1013: a message came slowly while there was no memory for others.
    pub fn gave_way() -> Close {
        let reason = "there is no memory for more requests, and this message came too slowly";
        Close::new(1013, reason.to_owned())
    }

    /// 1009: a message has more than `limit` bytes.
    pub fn too_large(limit: u64) -> Close {
        let reason = format!("a message of more than {limit} bytes (--http-max-input-size)");
        Close::new(1009, reason)
    }

    fn new(code: u16, reason: String) -> Close {
        Close { code: Some(code), reason }
    }

    /// Parses a peer's close frame, and returns the frame to answer with.
    ///
    /// # Errors
    /// The frame to answer with where the peer's frame is invalid.
    pub fn read(payload: &[u8]) -> Result<Close, Close> {
        let Some((code, reason)) = payload.split_first_chunk() else {
            return match payload.is_empty() {
                true => Ok(Close { code: None, reason: String::new() }),
                false => Err(Close::violation("half a close code")),
            };
        };
        let code = u16::from_be_bytes(*code);
        let is_allowed = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
        if !is_allowed || std::str::from_utf8(reason).is_err() {
            return Err(Close::violation("a close code or reason that nobody may send"));
        }
        Ok(Close { code: Some(code), reason: String::new() })
    }

    /// The payload of this close frame.
    pub fn payload(&self) -> Vec<u8> {
        let Some(code) = self.code else { return Vec::new() };
        let mut bytes = code.to_be_bytes().to_vec();
        let room = LONGEST_CONTROL - bytes.len();
        let end = self.reason.floor_char_boundary(room);
        bytes.extend(self.reason.as_bytes().get(..end).unwrap_or_default());
        bytes
    }
}

impl From<Violation> for Close {
    fn from(Violation(what): Violation) -> Close {
        Close::violation(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_code_comes_back_and_a_wrong_one_is_a_violation() {
        let said = |payload: &[u8]| Close::read(payload).map(|it| it.payload());
        assert_eq!(said(&[]), Ok(vec![]));
        assert_eq!(said(&[3, 0xe8]), Ok(vec![3, 0xe8]));
        assert_eq!(said(&[3, 0xe8, b'b', b'y', b'e']), Ok(vec![3, 0xe8]));
        assert_eq!(said(&[0x0b, 0xb8]), Ok(vec![0x0b, 0xb8]));
        for wrong in [&[3][..], &[0, 0], &[3, 0xec], &[3, 0xed], &[3, 0xee], &[3, 0xe8, 0xff]] {
            let said = said(wrong).unwrap_err().payload();
            assert_eq!(said[..2], [3, 0xea], "{wrong:x?}");
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let close = Close::new(1009, "ä".repeat(100));
        let payload = close.payload();
        assert!(payload.len() <= LONGEST_CONTROL);
        assert!(std::str::from_utf8(&payload[2..]).unwrap().chars().all(|it| it == 'ä'));
    }
}
