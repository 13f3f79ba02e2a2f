//! What is known of a value of a graph: where the rows of a run are in it.

use super::structure::Constant;

/// Where the rows of a run are in a value, whose operators are named for as long as the graph's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows<'a> {
    /// It is the same in all runs.
    Constant,
    /// It follows from the shapes of what is sent.
    OfShapes,
    /// They lie one behind the other along that axis, with one element for each or several.
    Along(usize),
    /// Along that axis it says the places of the rows in their run, and has nothing of what is sent.
    Places(usize),
    /// That operator made it of several rows, or of a row at a certain place.
    Shared(&'a str),
    /// It is not known.
    Unknown,
}

/// A number in a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dim {
    Known(i64),
    /// As many as there are rows.
    Rows,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value<'a> {
    pub(super) rows: Rows<'a>,
    /// The number of its dimensions. Rows that lie along an axis have one.
    pub(super) rank: Option<usize>,
    /// Its elements, where it is a shape or a part of one.
    pub(super) integers: Option<Vec<Dim>>,
}

impl<'a> Value<'a> {
    pub(super) const UNKNOWN: Value<'static> = Value::of(Rows::Unknown, None);

    /// What an operator takes where an input is left out: a number that is not there.
    pub(super) const LEFT_OUT: Value<'static> =
        Value { rows: Rows::Constant, rank: Some(0), integers: Some(Vec::new()) };

    pub(super) const fn of(rows: Rows<'a>, rank: Option<usize>) -> Value<'a> {
        Value { rows, rank, integers: None }
    }

    pub(super) const fn along(axis: usize, rank: usize) -> Value<'a> {
        Value::of(Rows::Along(axis), Some(rank))
    }

    pub(super) const fn shared(operator: &'a str) -> Value<'a> {
        Value::of(Rows::Shared(operator), None)
    }

    pub(super) fn is_left_out(&self) -> bool {
        *self == Value::LEFT_OUT
    }

    /// The axis of the rows, and how many axes there are.
    pub(super) fn axis(&self) -> Option<(usize, usize)> {
        match (self.rows, self.rank) {
            (Rows::Along(axis) | Rows::Places(axis), Some(rank)) => Some((axis, rank)),
            _ => None,
        }
    }

    /// How many axes are behind that of the rows.
    pub(super) fn behind(&self) -> Option<usize> {
        self.axis().and_then(|(axis, rank)| rank.checked_sub(axis + 1))
    }

    /// Its elements, where all of them are the same in all runs.
    pub(super) fn numbers(&self) -> Option<Vec<i64>> {
        let of = |it: &Dim| match it {
            Dim::Known(number) => Some(*number),
            Dim::Rows | Dim::Other => None,
        };
        self.integers.as_ref()?.iter().map(of).collect()
    }

    pub(super) fn is_of_places(&self) -> bool {
        matches!(self.rows, Rows::Places(_))
    }

    /// Is it the same for all rows of a run?
    pub(super) fn is_of_shapes(&self) -> bool {
        matches!(self.rows, Rows::Constant | Rows::OfShapes)
    }
}

impl From<&Constant> for Value<'_> {
    fn from(constant: &Constant) -> Self {
        let integers = constant.integers.as_ref();
        let integers = integers.map(|it| it.iter().map(|it| Dim::Known(*it)).collect());
        Value { rows: Rows::Constant, rank: Some(constant.dims.len()), integers }
    }
}

/// That axis of so many, counted from the first; negative ones are counted from behind the last.
pub(super) fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis + rank } else { axis };
    usize::try_from(axis).ok().filter(|_| axis < rank)
}
