//! Where the frames of an MP3 begin. What stands in front of the first one is looked through once, and not for long.

/// Bytes behind the tags within which the first frame begins.
pub(crate) const SEARCHED: usize = 1 << 20;

/// Kilobits a second by index, of the first version and of the later ones.
const RATES: [[u32; 15]; 2] = [
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

/// What frames of one stream have in common, and the bytes of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    version: u8,
    samples_a_second: u32,
    is_mono: bool,
    bytes: usize,
}

impl Frame {
    /// By the four bytes of its head.
    fn read(head: &[u8]) -> Option<Frame> {
        let &[0xff, second, third, fourth, ..] = head else { return None };
        let (version, layer) = (second >> 3 & 3, second >> 1 & 3);
        let samples_a_second = *[44_100, 48_000, 32_000].get(usize::from(third >> 2 & 3))?;
        let (samples_a_second, later) = match version {
            3 => (samples_a_second, 0),
            2 => (samples_a_second / 2, 1),
            0 => (samples_a_second / 4, 1),
            _ => return None,
        };
        let kilobits = *RATES[later].get(usize::from(third >> 4))?;
        if second < 0xe0 || layer != 1 || kilobits == 0 {
            return None;
        }
        let factor = if later == 0 { 144_000 } else { 72_000 };
        let bytes = factor * kilobits / samples_a_second + u32::from(third >> 1 & 1);
        let is_mono = fourth >> 6 == 3;
        Some(Frame { version, samples_a_second, is_mono, bytes: bytes as usize })
    }

    fn is_like(&self, other: &Frame) -> bool {
        Frame { bytes: 0, ..*self } == Frame { bytes: 0, ..*other }
    }
}

/// Where the first frame begins that another one of its kind follows, or the end of the file.
pub(crate) fn first_frame(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < SEARCHED {
        at += bytes.get(at..)?.iter().position(|it| *it == 0xff)?;
        if let Some(frame) = Frame::read(&bytes[at..])
            && let Some(behind) = bytes.get(at + frame.bytes..)
            && (behind.len() < 4 || Frame::read(behind).is_some_and(|it| it.is_like(&frame)))
        {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of 32 kilobits a second: 104 bytes.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 104];
        frame[..4].copy_from_slice(&[255, 251, 0x10, 0]);
        frame
    }

    #[test]
    fn the_first_of_two_frames_is_found_behind_what_is_none() {
        let two = [frame(), frame()].concat();
        assert_eq!(first_frame(&two), Some(0));
        assert_eq!(first_frame(&[&[255, 251, 0x10, 0, 7, 255][..], &two].concat()), Some(6));
        assert_eq!(first_frame(&frame()), Some(0), "the end of the file may follow");
        assert_eq!(first_frame(&frame()[..100]), None);
        let other = [frame(), vec![255, 243, 0x10, 0, 0]].concat();
        assert_eq!(first_frame(&other), None, "another version");
    }

    #[test]
    fn frames_are_as_long_as_their_heads_say() {
        let bytes = |head: [u8; 4]| Frame::read(&head).map(|it| it.bytes);
        assert_eq!(bytes([255, 251, 0x90, 0]), Some(417));
        assert_eq!(bytes([255, 251, 0xe2, 0]), Some(1045));
        assert_eq!(bytes([255, 243, 0x80, 0]), Some(208));
        for none in
            [[255, 251, 0, 0], [255, 251, 0xf0, 0], [255, 251, 0x9c, 0], [255, 253, 0x90, 0]]
        {
            assert_eq!(bytes(none), None, "{none:?}");
        }
    }
}
