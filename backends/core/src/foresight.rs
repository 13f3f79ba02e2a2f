//! What an engine says of a model's runs before it has loaded it.

/// What the files and the settings of a model tell of its runs. To ask loads nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foresight {
    /// A run reads so many bytes of weights, all of them. So it takes no less than that takes.
    Weights(u64),
    /// They do not tell what a run takes, or whether it ends the process: a clause that says why.
    Unknown(String),
}
