//! The rows of an image that are held at another width: neighbouring rows of the output are made of the same ones.

use crate::neighbours::Pair;

/// The two rows that were made last.
pub(super) struct TwoRows {
    rows: [Vec<i16>; 2],
    /// Which they are.
    held: [usize; 2],
}

impl TwoRows {
    /// For rows of so many numbers.
    pub(super) fn new(length: usize) -> TwoRows {
        TwoRows { rows: [vec![0; length], vec![0; length]], held: [usize::MAX; 2] }
    }

    /// The rows of a pair. `make` makes those that are not held.
    #[inline(always)]
    pub(super) fn get(
        &mut self,
        pair: &Pair,
        mut make: impl FnMut(usize, &mut [i16]),
    ) -> [&[i16]; 2] {
        if self.held[1] == pair.first {
            self.rows.swap(0, 1);
            self.held.swap(0, 1);
        }
        for (slot, wanted) in [pair.first, pair.second].into_iter().enumerate() {
            if self.held[slot] != wanted {
                make(wanted, &mut self.rows[slot]);
                self.held[slot] = wanted;
            }
        }
        self.rows.each_ref().map(Vec::as_slice)
    }
}
