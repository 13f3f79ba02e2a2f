//! Lists of types: each is a pair of its first one and the list of the others.

/// Something of the first type of a list, or of those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    /// Of the first one.
    First(A),
    /// Of one of the others.
    Other(B),
}

impl<A, B> Either<A, B> {
    /// What is of the first one.
    pub fn first(&self) -> Option<&A> {
        match self {
            Either::First(it) => Some(it),
            Either::Other(_) => None,
        }
    }

    /// What is of one of the others.
    pub fn other(&self) -> Option<&B> {
        match self {
            Either::First(_) => None,
            Either::Other(it) => Some(it),
        }
    }
}
