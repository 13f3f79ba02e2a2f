//! Where the partitions of a lossy WebP end, by its own words (RFC 6386, sections 7 and 9): a decoder makes room for
//! them before it looks whether the file is as long.

/// Bytes of a key frame in front of its first partition: a tag, a start code and its size.
const HEAD: usize = 10;

/// Are all partitions of this frame within its bytes? True of what is not read here.
pub(crate) fn partitions_fit(frame: &[u8]) -> bool {
    let Some(([a, b, c], _)) = frame.split_first_chunk().map(|(it, rest)| (*it, rest)) else {
        return false;
    };
    let first = (u32::from_le_bytes([a, b, c, 0]) >> 5) as usize;
    let Some((first, rest)) = frame.get(HEAD..).and_then(|it| it.split_at_checked(first)) else {
        return false;
    };
    // All but the last one say their size.
    let said = (1usize << Bits::new(first).log_of_partitions()) - 1;
    let Some((sizes, partitions)) = rest.split_at_checked(3 * said) else { return false };
    let (sizes, _) = sizes.as_chunks::<3>();
    let all: u64 = sizes.iter().map(|&[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))).sum();
    all <= partitions.len() as u64
}

/// The bits of a header that are as likely zero as one. Behind the end there are zeros.
struct Bits<'a> {
    rest: &'a [u8],
    value: u32,
    range: u32,
    shifts: u32,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Bits<'a> {
        let mut bits = Bits { rest: bytes, value: 0, range: 255, shifts: 0 };
        bits.value = bits.byte() << 8;
        bits.value |= bits.byte();
        bits
    }

    fn byte(&mut self) -> u32 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        u32::from(*first)
    }

    fn bit(&mut self) -> bool {
        let split = 1 + ((self.range - 1) >> 1);
        let is_set = split << 8 <= self.value;
        match is_set {
            true => {
                self.range -= split;
                self.value -= split << 8;
            }
            false => self.range = split,
        }
        while self.range < 128 {
            (self.value, self.range) = (self.value << 1, self.range << 1);
            self.shifts += 1;
            if self.shifts == 8 {
                self.shifts = 0;
                self.value |= self.byte();
            }
        }
        is_set
    }

    fn number(&mut self, bits: usize) -> u32 {
        (0..bits).fold(0, |number, _| number << 1 | u32::from(self.bit()))
    }

    /// So many values that may be left out, each of so many bits.
    fn skip(&mut self, values: usize, bits: usize) {
        for _ in 0..values {
            if self.bit() {
                self.number(bits);
            }
        }
    }

    /// The logarithm of the number of partitions behind the first.
    fn log_of_partitions(&mut self) -> u32 {
        // Colours, clamping.
        self.number(2);
        if self.bit() {
            let (has_map, has_data) = (self.bit(), self.bit());
            if has_data {
                self.bit();
                // With their signs.
                self.skip(4, 8);
                self.skip(4, 7);
            }
            if has_map {
                self.skip(3, 8);
            }
        }
        // The filter: its kind, level and sharpness, and what differs by frame and by mode.
        self.number(1 + 6 + 3);
        if self.bit() && self.bit() {
            self.skip(8, 7);
        }
        self.number(2)
    }
}
