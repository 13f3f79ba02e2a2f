//! In what numbers products of matrices are computed.

/// In what numbers products of matrices are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// As the weights are: floats of 32 bits.
    #[default]
    Fp32,
    /// In whole numbers of 8 bits, with a scale for each row of what is multiplied, and for each output. Sums of whole
    /// numbers are exact, so that a row is the same in any company. Heads, norms and attention stay floats.
    Int8,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 2] = [Precision::Fp32, Precision::Int8];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Int8 => "int8",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// What the codes of a row lie between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ends {
    /// The largest number of the row, and the same below zero. The middle is 0.
    Alike,
    /// The least number of the row and its largest: steps are smaller, since most rows reach farther to one side, but
    /// each output must be shifted.
    Own,
}

impl Ends {
    /// For a product of so many inputs and outputs. The values of attention and what makes a layer narrow again lose
    /// most to large steps; to shift the many outputs of what makes it wide would cost most.
    pub(crate) fn of([from, to]: [usize; 2]) -> Ends {
        if to <= 3 * from { Ends::Own } else { Ends::Alike }
    }
}
