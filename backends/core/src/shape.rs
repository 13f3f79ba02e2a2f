//! The shape of a tensor, and data that does not fit it.

use smallvec::SmallVec;

use crate::DataType;

/// Most parts of a tensor without elements: as rows without tokens, or the heads of an empty cache. Each of them may
/// become a list of its own.
pub const MOST_EMPTY_PARTS: usize = 1 << 20;

/// Most elements of a shape without elements, if its zeros are left out: in FP32 they are 1 GiB, as much as the largest
/// body that a server takes by default. So an empty batch is taken of every item that could be sent.
pub const LARGEST_WITHOUT_ZEROS: usize = 1 << 28;

/// The size of each dimension. Empty for a scalar.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// A shape of these dimensions.
    pub fn new(dims: &[usize]) -> Shape {
        Shape(SmallVec::from_slice(dims))
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Number of elements; `None` if it does not fit a `usize`.
    pub fn elements(&self) -> Option<usize> {
        // A zero anywhere makes the product zero, whatever the others are.
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))
    }

    /// Is it a shape without elements whose dimensions are too large to go by? The dimensions in front of its first
    /// zero come to more than [`MOST_EMPTY_PARTS`], or all that are not zero to more than [`LARGEST_WITHOUT_ZEROS`].
    ///
    /// Lists, loops and outputs go by single dimensions. Those of other shapes are bounded by the bytes of the tensor.
    pub fn overstates(&self) -> bool {
        let product = |dims: &[usize]| {
            dims.iter().filter(|it| **it != 0).fold(1usize, |all, it| all.saturating_mul(*it))
        };
        let Some(zero) = self.0.iter().position(|it| *it == 0) else { return false };
        MOST_EMPTY_PARTS < product(&self.0[..zero]) || LARGEST_WITHOUT_ZEROS < product(&self.0)
    }

    /// The first dimension; `None` for a scalar.
    pub fn rows(&self) -> Option<usize> {
        self.0.first().copied()
    }

    /// All dimensions but the first.
    pub fn inner(&self) -> &[usize] {
        self.0.get(1..).unwrap_or(&[])
    }

    /// The same shape with another first dimension. A scalar stays one.
    pub fn with_rows(&self, rows: usize) -> Shape {
        let mut shape = self.clone();
        if let Some(first) = shape.0.first_mut() {
            *first = rows;
        }
        shape
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape::new(dims)
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Shape {
        Shape(dims.into_iter().collect())
    }
}

impl std::fmt::Display for Shape {
    /// As in JSON: `[2,30]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{dim}")?;
        }
        f.write_str("]")
    }
}

/// The data's length does not fit the type and the shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeMismatch {
    /// The product of the dimensions, in elements or bytes, does not fit this machine.
    #[error("the shape {0} has more elements than can be addressed")]
    Overflow(Shape),
    /// A fixed-size type with the wrong number of bytes.
    #[error("{dtype} of shape {shape} takes {expected} bytes, given {given}")]
    Length {
        /// Element type.
        dtype: DataType,
        /// Declared shape.
        shape: Shape,
        /// Bytes that type and shape call for.
        expected: usize,
        /// Bytes that were given.
        given: usize,
    },
    /// A string's length prefix points past the end of the data.
    #[error(
        "element {element} of the BYTES data, at offset {offset}, reaches past the end ({given} bytes)"
    )]
    Prefix {
        /// Index of the element.
        element: usize,
        /// Where its length prefix begins.
        offset: usize,
        /// Bytes that were given.
        given: usize,
    },
    /// Sound strings, but not as many as the shape says.
    #[error("shape {shape} has {expected} elements, the BYTES data has {given}")]
    Elements {
        /// Declared shape.
        shape: Shape,
        /// Elements of the shape.
        expected: usize,
        /// Elements in the data.
        given: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_without_elements_are_usual_up_to_a_size() {
        let usual: [&[usize]; 6] =
            [&[], &[0], &[1 << 40], &[0, 3, 4320, 7680], &[8, 32, 0, 128], &[1 << 20, 0, 4]];
        for dims in usual {
            assert!(!Shape::new(dims).overstates(), "{dims:?}");
        }
        let most = usize::MAX;
        let too_much: [&[usize]; 5] =
            [&[0, 1 << 29], &[1, 1 << 50, 0], &[1 << 21, 0], &[0, most, most], &[0, 0, most]];
        for dims in too_much {
            assert!(Shape::new(dims).overstates(), "{dims:?}");
        }
    }
}
