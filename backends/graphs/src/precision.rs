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
