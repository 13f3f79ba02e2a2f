//! Rows of tokens of one length: how far they are padded, and what padding is in each output.

use backend::{BackendError, NamedTensor};

use super::{call::Call, kept::MASK, settings::StepSettings};
use crate::{side::Side, text::Encoded};

/// Most tokens of a row that a configuration may ask for: rows of a run are all as long.
const LONGEST: usize = 1 << 17;

/// How far rows are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Padding {
    to: To,
    /// The length of rows is a multiple of this.
    multiple: usize,
    /// Where padding stands.
    side: Side,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    /// To the longest of the rows that run together.
    Batch,
    /// To this length.
    Length(usize),
    /// Not at all: rows that differ in length are refused.
    None,
}

impl Padding {
    /// As the parameters say.
    ///
    /// # Errors
    /// When one is wrong.
    pub(super) fn read(
        settings: &StepSettings<'_>,
        max_length: usize,
        side: Side,
    ) -> Result<Padding, BackendError> {
        let names = ["batch", "max_length", "none"];
        let read = |name: &str| match name {
            "batch" => Some(To::Batch),
            "max_length" => Some(To::Length(max_length)),
            "none" => Some(To::None),
            _ => None,
        };
        let to = settings.named("padding", &names, read)?.unwrap_or(To::Batch);
        let multiple = settings.count("pad_to_multiple_of")?.unwrap_or(1);
        for (name, given) in [("max_length", max_length), ("pad_to_multiple_of", multiple)] {
            if LONGEST < given {
                let problem = format!("{given} is more than a row may have, which is {LONGEST}");
                return Err(settings.wrong(name, problem));
            }
        }
        if multiple > 1 && to == To::None {
            let problem = "it needs padding, and padding is none";
            return Err(settings.wrong("pad_to_multiple_of", problem));
        }
        Ok(Padding { to, multiple, side })
    }

    /// The length of rows of these lengths; `None` where they differ and may not.
    fn length(self, mut lengths: impl Iterator<Item = usize> + Clone) -> Option<usize> {
        let longest = lengths.clone().max().unwrap_or(0);
        let length = match self.to {
            To::Batch => longest,
            To::Length(length) => longest.max(length),
            To::None if lengths.any(|it| it != longest) => return None,
            To::None => longest,
        };
        Some(length.next_multiple_of(self.multiple.max(1)))
    }
}

/// Rows of tokens, and what is needed to make outputs of them.
pub(super) struct Rows<'a> {
    pub(super) rows: &'a [Encoded],
    pub(super) padding: Padding,
    /// The id for padding.
    pub(super) pad: u32,
    /// The first position that a token can have.
    pub(super) first: usize,
    /// Is each row made of two texts?
    pub(super) has_pairs: bool,
}

/// What an output has for each token.
struct Column {
    /// Values of a token.
    width: usize,
    /// Each value of padding.
    pad: i64,
    /// The values of the token in that place of a row; the first `width` count.
    value: fn(&Rows<'_>, &Encoded, usize) -> [i64; 2],
}

impl Rows<'_> {
    /// The outputs that are wanted.
    ///
    /// # Errors
    /// When rows differ in length and are not to be padded.
    pub(super) fn outputs(&self, call: &Call<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        let lengths = self.rows.iter().map(|it| it.ids.len());
        let Some(length) = self.padding.length(lengths.clone()) else {
            let lengths: Vec<String> = lengths.map(|it| it.to_string()).collect();
            return Err(BackendError::InvalidInput(format!(
                "the texts have {} tokens, and are not padded; send them one by one, or write padding: batch",
                lengths.join(", ")
            )));
        };
        let mut outputs = Vec::with_capacity(call.batch.outputs.len());
        for name in call.batch.outputs {
            let Some(Column { width, pad, value }) = self.column(name) else { continue };
            let mut values = Vec::with_capacity(self.rows.len() * length * width);
            for row in self.rows {
                let tokens = row.ids.len();
                let padding = std::iter::repeat_n(pad, (length - tokens) * width);
                if self.padding.side == Side::Left {
                    values.extend(padding.clone());
                }
                for at in 0..tokens {
                    values.extend_from_slice(&value(self, row, at)[..width]);
                }
                if self.padding.side == Side::Right {
                    values.extend(padding);
                }
            }
            let dims = [self.rows.len(), length, width];
            let dims = if width == 1 { &dims[..2] } else { &dims[..] };
            outputs.push(call.integer_output(name, dims, values)?);
        }
        Ok(outputs)
    }

    fn column(&self, name: &str) -> Option<Column> {
        type Value = fn(&Rows<'_>, &Encoded, usize) -> [i64; 2];
        let (width, pad, value): (usize, i64, Value) = match name {
            "input_ids" => (1, i64::from(self.pad), |_, row, at| [i64::from(row.ids[at]), 0]),
            MASK => (1, 0, |_, _, _| [1, 0]),
            "token_type_ids" => (1, 0, |_, row, at| [i64::from(row.type_ids[at]), 0]),
            "position_ids" => (1, 0, |rows, _, at| [(rows.first + at) as i64, 0]),
            "offsets" => (2, 0, |_, row, at| [row.offsets[at].0 as i64, row.offsets[at].1 as i64]),
            "special_tokens_mask" => (1, 1, |_, row, at| [i64::from(row.is_special[at]), 0]),
            "word_ids" => (1, -1, |rows, row, at| [rows.word(row, at), 0]),
            _ => return None,
        };
        Some(Column { width, pad, value })
    }

    /// The number of the word in its text, in the second of two texts; -1 for other tokens.
    fn word(&self, row: &Encoded, at: usize) -> i64 {
        let is_counted = !self.has_pairs || row.sequences[at] == Some(1);
        row.words[at].filter(|_| is_counted).map_or(-1, i64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(to: To, multiple: usize, lengths: &[usize], expect: Option<usize>) {
        let padding = Padding { to, multiple, side: Side::Right };
        assert_eq!(padding.length(lengths.iter().copied()), expect);
    }

    #[test]
    fn rows_are_as_long_as_the_longest_or_as_was_said() {
        check(To::Batch, 1, &[3, 5], Some(5));
        check(To::Batch, 8, &[3, 5], Some(8));
        check(To::Length(16), 1, &[3, 5], Some(16));
        check(To::None, 1, &[5, 5], Some(5));
        check(To::None, 1, &[3, 5], None);
    }
}
