//! A growing buffer whose tensors lie where engines can read them.

use bytes::{Bytes, BytesMut};

/// Engines read memory at such an address without copying it first.
const ALIGNMENT: usize = 64;

/// A growing buffer whose byte at a chosen offset lies at an aligned address, as long as it does not
/// outgrow its first size.
pub struct AlignedBuffer {
    bytes: BytesMut,
    padding: usize,
}

impl AlignedBuffer {
    /// An empty one with room for `capacity` bytes; the one at the offset `aligned_at` will lie aligned.
    pub fn new(capacity: usize, aligned_at: usize) -> AlignedBuffer {
        let mut bytes = BytesMut::with_capacity(capacity.saturating_add(ALIGNMENT));
        let address = (bytes.as_ptr() as usize).wrapping_add(aligned_at);
        let padding = address.wrapping_neg() % ALIGNMENT;
        bytes.resize(padding, 0);
        AlignedBuffer { bytes, padding }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.padding
    }

    /// Are there none yet?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those so far.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.padding..).unwrap_or_default()
    }

    /// Bytes that there is memory for, those so far among them.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity().saturating_sub(ALIGNMENT)
    }

    /// Adds bytes.
    pub fn extend(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
    }

    /// All bytes.
    pub fn finish(mut self) -> Bytes {
        drop(self.bytes.split_to(self.padding));
        self.bytes.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_offset_of_a_buffer_is_aligned() {
        for aligned_at in [0, 1, 63, 64, 167] {
            let mut buffer = AlignedBuffer::new(1000, aligned_at);
            (0..10).for_each(|_| buffer.extend(&[7; 100]));
            assert_eq!(buffer.len(), 1000);
            let bytes = buffer.finish();
            assert_eq!(bytes.len(), 1000);
            assert_eq!((bytes.as_ptr() as usize + aligned_at) % ALIGNMENT, 0);
        }
    }
}
