//! Numbers that look like chance and come from a seed.

/// A source of them.
pub struct Random(u64);

impl Random {
    /// The source of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ it >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ it >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ it >> 31
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// A size from 1 to `2^bits`: each order of magnitude is as likely as each other one.
    pub fn size(&mut self, bits: usize) -> usize {
        let order = self.below(bits + 1);
        1 + self.below(1 << order)
    }
}
