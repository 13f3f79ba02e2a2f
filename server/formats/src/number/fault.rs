//! Why a text is no number of a type.

/// Why a text is not a number of the wanted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with a number as JSON writes it.
    Syntax,
    /// It has a fraction or an exponent, and the type is an integer. `1.0` is refused, too: a client that
    /// writes it means another type.
    Fraction,
    /// It is a number, but the type ends before it.
    Range,
}
