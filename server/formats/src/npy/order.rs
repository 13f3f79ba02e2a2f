//! The elements of an array one after another as a tensor has them, whichever order and which bytes the file has.

/// Elements' bytes, little-endian and with the last index varying fastest.
pub(super) trait Elements {
    /// All of them, each of `N` bytes.
    fn words<const N: usize>(&self) -> impl Iterator<Item = [u8; N]>;
}

/// A file in which elements follow each other as in a tensor.
pub(super) struct Straight<'a> {
    pub(super) data: &'a [u8],
    pub(super) big_endian: bool,
}

impl Elements for Straight<'_> {
    fn words<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> {
        self.data.as_chunks().0.iter().map(|it| little(*it, self.big_endian))
    }
}

/// A file in Fortran order: the first index varies fastest.
pub(super) struct Transposed<'a> {
    pub(super) data: &'a [u8],
    pub(super) big_endian: bool,
    pub(super) dims: &'a [usize],
}

impl Elements for Transposed<'_> {
    fn words<const N: usize>(&self) -> impl Iterator<Item = [u8; N]> {
        let words = self.data.as_chunks().0;
        let word = |it: usize| words.get(it).copied().unwrap_or([0; N]);
        Places::new(self.dims).map(move |it| little(word(it), self.big_endian))
    }
}

fn little<const N: usize>(mut word: [u8; N], big_endian: bool) -> [u8; N] {
    if big_endian {
        word.reverse();
    }
    word
}

/// The places in a file in Fortran order of the elements in the order of a tensor.
struct Places {
    /// Of each dimension, the last first: its size, how far its next element is in the file, and the index now.
    dims: Vec<(usize, usize, usize)>,
    at: usize,
    left: usize,
}

impl Places {
    fn new(sizes: &[usize]) -> Places {
        let mut stride: usize = 1;
        let mut dims = Vec::with_capacity(sizes.len());
        for &size in sizes {
            dims.push((size, stride, 0));
            // Too large only where another size is zero, so that there is no place.
            stride = stride.saturating_mul(size);
        }
        dims.reverse();
        let left = sizes.iter().try_fold(1usize, |product, it| product.checked_mul(*it));
        let left = if sizes.contains(&0) { 0 } else { left.unwrap_or(0) };
        Places { dims, at: 0, left }
    }
}

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let place = self.at;
        for (size, stride, index) in &mut self.dims {
            *index += 1;
            self.at += *stride;
            if *index < *size {
                break;
            }
            self.at -= *index * *stride;
            *index = 0;
        }
        Some(place)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(dims: &[usize]) -> Vec<usize> {
        Places::new(dims).collect()
    }

    #[test]
    fn rows_are_gathered_from_columns() {
        assert_eq!(places(&[2, 3]), [0, 2, 4, 1, 3, 5]);
        assert_eq!(places(&[2, 1, 2, 2]), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(places(&[3]), [0, 1, 2]);
        assert_eq!(places(&[]), [0]);
        assert!(places(&[0, usize::MAX, usize::MAX]).is_empty());
        assert!(places(&[usize::MAX, usize::MAX, 0]).is_empty());
    }

    #[test]
    fn bytes_are_swapped_on_the_way() {
        let data = [0, 1, 0, 2, 0, 3, 0, 4];
        let transposed = Transposed { data: &data, big_endian: true, dims: &[2, 2] };
        let words: Vec<[u8; 2]> = transposed.words().collect();
        assert_eq!(words, [[1, 0], [3, 0], [2, 0], [4, 0]]);
        assert_eq!(transposed.words::<2>().size_hint(), (4, Some(4)));
    }
}
