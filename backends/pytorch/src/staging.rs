//! The one copy on the way in: memory that an input is gathered into when it does not lie in one aligned
//! piece. An instance has one per input and uses it again and again.

use bytes::Bytes;

/// A cache line, and the alignment that libtorch's own memory has.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

const LINE: usize = 64;

/// Up to here a buffer is kept whatever is asked of it.
const ALWAYS_KEPT: usize = 1 << 20;

/// A larger one is given back after that many uses in a row which needed less than a quarter of it, so
/// that one giant batch does not hold its memory for ever.
const PATIENCE: u32 = 64;

/// Growing, aligned memory. Holds at most 1 MiB or four times what recent batches needed.
#[derive(Default)]
pub(crate) struct Staging {
    lines: Vec<Line>,
    small_uses: u32,
}

impl Staging {
    /// The segments one after the other, aligned for every element type.
    pub(crate) fn gather(&mut self, segments: &[Bytes]) -> &mut [u8] {
        let bytes: usize = segments.iter().map(Bytes::len).sum();
        self.make_room(bytes.div_ceil(LINE));
        let memory = &mut as_bytes(&mut self.lines)[..bytes];
        let mut rest = &mut *memory;
        for segment in segments {
            let (begin, end) = rest.split_at_mut(segment.len());
            begin.copy_from_slice(segment);
            rest = end;
        }
        memory
    }

    fn make_room(&mut self, lines: usize) {
        let have = self.lines.len();
        let roomy = have * LINE > ALWAYS_KEPT && lines < have / 4;
        self.small_uses = if roomy { self.small_uses + 1 } else { 0 };
        if lines > have || self.small_uses > PATIENCE {
            self.small_uses = 0;
            // The old memory goes first: the two need not exist side by side.
            self.lines = Vec::new();
            self.lines = vec![Line([0; LINE]); lines];
        }
    }
}

fn as_bytes(lines: &mut [Line]) -> &mut [u8] {
    let bytes = size_of_val(lines);
    // SAFETY: `Line` is an array of bytes without padding, so every byte of the slice is initialised and
    // any byte may be written; the result borrows `lines` for as long as it lives.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<u8>(), bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_come_out_joined_and_aligned() {
        let mut staging = Staging::default();
        let parts = [Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cde")];
        let joined = staging.gather(&parts);
        assert_eq!(joined, b"abcde");
        assert_eq!(joined.as_ptr().addr() % 64, 0);
        assert_eq!(staging.gather(&[]).as_ptr().addr() % 64, 0);
    }

    #[test]
    fn a_buffer_is_used_again_and_a_giant_one_is_given_back() {
        let mut staging = Staging::default();
        let giant = [Bytes::from(vec![7; 8 << 20])];
        let first = staging.gather(&giant).as_ptr();
        assert_eq!(staging.gather(&giant).as_ptr(), first);
        let small = [Bytes::from_static(b"x")];
        for _ in 0..=PATIENCE {
            staging.gather(&small);
        }
        assert!(staging.lines.len() * LINE <= ALWAYS_KEPT);
    }
}
