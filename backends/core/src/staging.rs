//! The one copy on the way in: memory that an input is gathered into when an engine cannot read it where it
//! lies.

use bytes::Bytes;

use crate::{DataType, Tensor};

/// A cache line, and the alignment that kernels are content with.
const LINE: usize = 64;

/// Up to here a buffer is kept whatever is asked of it.
const ALWAYS_KEPT: usize = 1 << 20;

/// A larger one is given back after that many uses in a row which needed less than a quarter of it. So one giant batch
/// does not hold its memory for ever.
const PATIENCE: u32 = 64;

/// Growing memory for one input of one instance, used again and again. Holds at most 1 MiB or four times what
/// recent batches needed.
#[derive(Debug, Default)]
pub struct Staging {
    /// A line more than was asked for, so that there is an aligned place in it.
    memory: Vec<u8>,
    small_uses: u32,
}

impl Staging {
    /// The tensor's elements in one piece, aligned for their type: where they are, if they lie so, else copied
    /// here. Each byte of a BOOL is 0 or 1. Strings have no such form: empty.
    pub fn elements<'a>(&'a mut self, tensor: &'a Tensor) -> &'a [u8] {
        let Some(size) = tensor.dtype().size() else { return &[] };
        match tensor.contiguous() {
            Some(data) if is_usable(tensor.dtype(), size, data) => data,
            _ => self.gather(tensor),
        }
    }

    /// Lets go of what was needed last where that is more than so many bytes.
    pub fn keep_at_most(&mut self, bytes: usize) {
        if bytes < self.memory.len() {
            *self = Staging::default();
        }
    }

    fn gather(&mut self, tensor: &Tensor) -> &[u8] {
        let segments = tensor.segments();
        let memory = self.room(segments.iter().map(Bytes::len).sum());
        let mut rest = &mut *memory;
        for segment in segments {
            let (begin, end) = rest.split_at_mut(segment.len());
            begin.copy_from_slice(segment);
            rest = end;
        }
        if tensor.dtype() == DataType::Bool {
            // A `bool` of C++ that is neither 0 nor 1 breaks its kernels. Clients mean true by it.
            for byte in &mut *memory {
                *byte = u8::from(*byte != 0);
            }
        }
        memory
    }

    /// So many bytes, the first of them at the beginning of a line.
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let (have, needed) = (self.memory.len(), bytes + LINE);
        let roomy = have > ALWAYS_KEPT && needed < have / 4;
        self.small_uses = if roomy { self.small_uses + 1 } else { 0 };
        if needed > have || self.small_uses > PATIENCE {
            self.small_uses = 0;
            // The old memory goes first: the two need not exist side by side.
            self.memory = Vec::new();
            self.memory = vec![0; needed];
        }
        let begin = self.memory.as_ptr().align_offset(LINE);
        &mut self.memory[begin..begin + bytes]
    }
}

/// Can an engine read the elements where they are?
fn is_usable(dtype: DataType, size: usize, data: &Bytes) -> bool {
    let aligned = data.as_ptr().addr().is_multiple_of(size);
    aligned && (dtype != DataType::Bool || data.iter().all(|&it| it <= 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    fn bytes(parts: &[&'static [u8]], dtype: DataType) -> Tensor {
        let part = |it: &&'static [u8]| {
            Tensor::new(dtype, Shape::new(&[it.len()]), Bytes::from_static(it)).unwrap()
        };
        Tensor::concat(&parts.iter().map(part).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_lies_in_one_aligned_piece_is_lent_where_it_is() {
        let tensor = Tensor::from_vec(Shape::new(&[3]), vec![1f32, 2.0, 3.0]).unwrap();
        let lent = Staging::default().elements(&tensor).as_ptr();
        assert_eq!(lent, tensor.contiguous().unwrap().as_ptr());
    }

    #[test]
    fn segments_come_out_joined_and_aligned() {
        let mut staging = Staging::default();
        let tensor = bytes(&[b"ab", b"", b"cde"], DataType::Uint8);
        let joined = staging.elements(&tensor);
        assert_eq!(joined, b"abcde");
        assert_eq!(joined.as_ptr().addr() % LINE, 0);
    }

    #[test]
    fn what_is_not_aligned_is_copied() {
        let data = Bytes::from(vec![0; 9]);
        let begin = 1 + usize::from(data[1..].as_ptr().addr().is_multiple_of(4));
        let odd = data.slice(begin..begin + 4);
        let tensor = Tensor::new(DataType::Fp32, Shape::new(&[1]), odd).unwrap();
        let mut staging = Staging::default();
        assert_eq!(staging.elements(&tensor).as_ptr().addr() % LINE, 0);
    }

    #[test]
    fn every_byte_of_a_bool_is_0_or_1() {
        let mut staging = Staging::default();
        assert_eq!(staging.elements(&bytes(&[&[0, 7, 255]], DataType::Bool)), [0, 1, 1]);
    }

    #[test]
    fn a_buffer_is_used_again_and_a_giant_one_is_given_back() {
        let mut staging = Staging::default();
        let halves = |size: usize| {
            let part = Tensor::from_vec(Shape::new(&[size]), vec![7u8; size]).unwrap();
            Tensor::concat(&[part.clone(), part]).unwrap()
        };
        let giant = halves(4 << 20);
        let first = staging.elements(&giant).as_ptr();
        assert_eq!(staging.elements(&giant).as_ptr(), first);
        let small = halves(1);
        for _ in 0..=PATIENCE {
            staging.elements(&small);
        }
        assert!(staging.memory.len() <= ALWAYS_KEPT);
    }
}
