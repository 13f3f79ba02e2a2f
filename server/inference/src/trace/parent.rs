//! The header `traceparent`, by which a request says of which trace it is a part (W3C Trace Context). Pure.

/// The trace that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: [u8; 16],
    /// The client's span.
    pub(super) span: [u8; 8],
    /// Does the client record it?
    pub(super) sampled: bool,
}

impl Parent {
    /// `00-<32 digits>-<16 digits>-<2 digits>`; `None` for anything else, as the specification wants: a wrong header
    /// is as good as none.
    pub(super) fn read(text: &str) -> Option<Parent> {
        let mut parts = text.trim().split('-');
        let version: [u8; 1] = digits(parts.next()?)?;
        let trace: [u8; 16] = digits(parts.next()?)?;
        let span: [u8; 8] = digits(parts.next()?)?;
        let [flags]: [u8; 1] = digits(parts.next()?)?;
        // Later versions may have more to say; they begin with the same.
        let known = version == [0] && parts.next().is_none() || 0 < version[0] && version[0] < 255;
        let named = trace != [0; 16] && span != [0; 8];
        (known && named).then_some(Parent { trace, span, sampled: flags & 1 == 1 })
    }
}

/// Exactly so many bytes, as lower-case hexadecimal digits.
fn digits<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let digit = |it: u8| match it {
        b'0'..=b'9' => Some(it - b'0'),
        b'a'..=b'f' => Some(it - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    if text.len() != 2 * BYTES {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_has_a_trace_a_span_and_a_flag() {
        let parent = Parent::read(GOOD).unwrap();
        assert_eq!(parent.trace[..3], [0x0a, 0xf7, 0x65]);
        assert_eq!(parent.span[7], 0x31);
        assert!(parent.sampled);
        assert!(!Parent::read(&GOOD.replace("-01", "-00")).unwrap().sampled);
        let later = GOOD.replacen("00", "cc", 1) + "-what-comes";
        assert_eq!(Parent::read(&later), Some(parent));
    }

    #[test]
    fn what_is_malformed_is_no_parent() {
        for wrong in [
            "",
            "00",
            &GOOD.to_uppercase(),
            &GOOD[..GOOD.len() - 1],
            &format!("{GOOD}-more"),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            &GOOD.replace('-', "_"),
            "00-ä",
        ] {
            assert_eq!(Parent::read(wrong), None, "{wrong}");
        }
    }
}
