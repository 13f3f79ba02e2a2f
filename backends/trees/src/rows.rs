//! Rows of a batch as forests take them.

use crate::forest::{packed::Forest, sum::Rows};

/// Rows between two looks at whether anybody still waits for the batch.
pub(crate) const ROWS_PER_LOOK: usize = 1024;

/// Rows in the types that the forests of a model want.
#[derive(Clone, Copy)]
pub(crate) struct Converted<'a> {
    pub(crate) single: Option<&'a [f32]>,
    pub(crate) double: Option<&'a [f64]>,
}

impl<'a> Converted<'a> {
    /// Those that a forest wants.
    pub(crate) fn of(self, forest: &Forest) -> Rows<'a> {
        match forest.takes_single() {
            true => Rows::Single(self.single.unwrap_or_default()),
            false => Rows::Double(self.double.unwrap_or_default()),
        }
    }
}
