//! The shape of a tensor, and data that does not fit it.

use smallvec::SmallVec;

use crate::DataType;

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
