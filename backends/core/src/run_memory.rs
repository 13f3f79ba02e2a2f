//! What an engine holds for a run beside the tensors that it is given: asked of each model before its runs, so that
//! whoever makes a run can take room for it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a run of a model takes beside the bytes of its inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMemory {
    /// The engine's own form of strings; `None` where it takes none, or takes them as they are.
    pub strings: Option<StringMemory>,
    /// Outputs that may take many times the bytes of the inputs, each with the bytes of a row. A request that does not
    /// want them shares a run with none that does.
    pub large_outputs: Vec<(Arc<str>, usize)>,
}

/// Strings as an engine has them: a place for each, and its text elsewhere where it is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StringMemory {
    /// Bytes of a place, and of what is noted of each string while an output is read.
    pub place: usize,
    /// The longest text that is in its place, in bytes.
    pub inside: usize,
}

/// What the C library's allocator takes for a piece of memory beside its bytes, rounding included.
const OF_A_PIECE: usize = 32;

/// What is noted of each string of an output while it becomes a tensor: where it begins, and its length.
const OF_AN_OUTPUT: usize = 12;

impl StringMemory {
    /// `std::string` of C++.
    pub const STD: StringMemory = StringMemory { place: 32, inside: 15 };

    /// `TF_TString`.
    pub const TENSORFLOW: StringMemory = StringMemory { place: 24, inside: 22 };

    /// Bytes that the engine takes for an input of so many strings with so many bytes of text.
    pub fn of_input(self, strings: usize, text: usize) -> usize {
        let apart = strings.min(text / (self.inside + 1));
        let places = strings.saturating_mul(self.place);
        places.saturating_add(text).saturating_add(apart.saturating_mul(OF_A_PIECE))
    }

    /// The same for an output, while it becomes a tensor: its text is there three times.
    pub fn of_output(self, strings: usize, text: usize) -> usize {
        let noted = strings.saturating_mul(OF_AN_OUTPUT);
        let copies = text.saturating_mul(2);
        self.of_input(strings, text).saturating_add(noted).saturating_add(copies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_strings_take_their_places_and_long_ones_a_piece_of_memory_each() {
        let strings = StringMemory::STD;
        assert_eq!(strings.of_input(1000, 0), 32_000);
        assert_eq!(strings.of_output(1000, 0), 44_000);
        assert_eq!(strings.of_input(1000, 100_000), 32_000 + 100_000 + 32_000);
        assert_eq!(strings.of_input(1000, 1_600), 32_000 + 1_600 + 3_200, "few can be long");
        assert_eq!(StringMemory::TENSORFLOW.of_input(10, 10), 250);
        assert_eq!(strings.of_output(usize::MAX, usize::MAX), usize::MAX);
    }
}
