//! What a job does not measure, and why. Pure.

use crate::setting::{Variables, described, in_words};

/// What was not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// What it is, as the words of a command line.
    pub what: String,
    /// The same in words.
    pub words: String,
    /// Why it was not.
    pub why: String,
}

impl LeftOut {
    /// A setting of a machine.
    pub(crate) fn setting(machine: &str, environment: &Variables, why: &str) -> LeftOut {
        LeftOut {
            what: format!("{machine} {}", in_words(environment)),
            words: format!("{machine} · {}", described(environment)),
            why: why.to_owned(),
        }
    }

    /// Several of a machine's.
    pub(crate) fn several(machine: &str, why: String) -> LeftOut {
        LeftOut { what: machine.to_owned(), words: machine.to_owned(), why }
    }
}
