//! Indices of few bits, and the colours that they stand for.

/// The colours of indices.
pub(crate) struct Palette([[u8; 3]; 256]);

impl Default for Palette {
    fn default() -> Palette {
        Palette::new(&[])
    }
}

impl Palette {
    /// Each index is a shade of grey.
    pub(crate) fn grey() -> Palette {
        Palette(std::array::from_fn(|it| [it as u8; 3]))
    }

    /// `colours` are three bytes each; indices behind the last are black.
    pub(crate) fn new(colours: &[u8]) -> Palette {
        let mut all = [[0; 3]; 256];
        for (colour, given) in all.iter_mut().zip(colours.chunks_exact(3)) {
            colour.copy_from_slice(given);
        }
        Palette(all)
    }

    pub(crate) fn get(&self, index: u8) -> [u8; 3] {
        self.0[usize::from(index)]
    }
}

/// The samples of a row of fewer than 8 bits each, the first in the upper bits.
pub(crate) fn samples(row: &[u8], bits: u32) -> impl Iterator<Item = u8> {
    let per_byte = 8 / bits;
    row.iter().flat_map(move |byte| {
        (1..=per_byte).map(move |it| (byte >> (8 - it * bits)) & (0xFF_u32 >> (8 - bits)) as u8)
    })
}
