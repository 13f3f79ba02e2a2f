//! How many tokens of each text stay: pure arithmetic, as the reference does it.

use crate::{error::RowError, side::Side};

/// Windows of one text, each of which is a row in memory.
const MOST_WINDOWS: usize = 256;

/// So far from where a piece of a text may end a blank is looked for.
const NEARBY: usize = 64;

/// Which of two texts is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The longer one, down to the shorter, then both.
    #[default]
    LongestFirst,
    /// The first.
    OnlyFirst,
    /// The second.
    OnlySecond,
}

impl Strategy {
    /// The strategy of that name.
    pub fn from_name(name: &str) -> Option<Strategy> {
        match name {
            "longest_first" => Some(Strategy::LongestFirst),
            "only_first" => Some(Strategy::OnlyFirst),
            "only_second" => Some(Strategy::OnlySecond),
            _ => None,
        }
    }
}

/// How a text that is too long is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Most tokens, special ones included.
    pub max_length: usize,
    /// Which text.
    pub strategy: Strategy,
    /// Which end.
    pub side: Side,
    /// What is cut off becomes further windows, which share this many tokens with the one before. `None`: it is
    /// lost.
    pub stride: Option<usize>,
}

impl Truncation {
    /// Cuts at the right end, whichever text is longer.
    pub fn right(max_length: usize) -> Truncation {
        let (strategy, side) = (Strategy::LongestFirst, Side::Right);
        Truncation { max_length, strategy, side, stride: None }
    }

    /// Most tokens of a text that becomes windows, whatever the other text is; `None` where it loses what is too much.
    pub(super) fn most_in_windows(&self) -> Option<usize> {
        let step = self.max_length.saturating_sub(self.stride?);
        Some(step.saturating_mul(MOST_WINDOWS - 1).saturating_add(self.max_length))
    }

    /// The tokens that stay of the first and of the second text, of which there are `lengths`.
    ///
    /// `special` tokens are added to them later.
    ///
    /// # Errors
    /// When the limit is below the special tokens, the text that may be cut is not long enough, or windows would
    /// not move on.
    pub fn keep(
        &self,
        lengths: (usize, Option<usize>),
        special: usize,
    ) -> Result<(usize, Option<usize>), RowError> {
        let Some(room) = self.max_length.checked_sub(special) else {
            let text = format!(
                "a limit of {} tokens leaves no room: the model adds {special} of its own",
                self.max_length
            );
            return Err(RowError::Truncation(text));
        };
        let (first, second) = lengths;
        let total = first + second.unwrap_or(0);
        let Some(excess) = total.checked_sub(room).filter(|&it| it > 0) else {
            return Ok(lengths);
        };
        let kept = match (self.strategy, second) {
            (Strategy::LongestFirst, None) => (room, None),
            (Strategy::LongestFirst, Some(second)) => {
                let (first, second) = longest_first(first, second, room);
                (first, Some(second))
            }
            (Strategy::OnlyFirst, _) => (shortened(first, excess, "first")?, second),
            (Strategy::OnlySecond, Some(second)) => {
                (first, Some(shortened(second, excess, "second")?))
            }
            (Strategy::OnlySecond, None) => {
                let text = "only the second text may be cut, and there is none";
                return Err(RowError::Truncation(text.to_owned()));
            }
        };
        if let Some(stride) = self.stride {
            check_windows(first, kept.0, stride)?;
            check_windows(second.unwrap_or(0), kept.1.unwrap_or(0), stride)?;
        }
        Ok(kept)
    }
}

/// The error of a text of more tokens than that.
pub(super) fn too_many_windows() -> RowError {
    RowError::Truncation(format!("the text has more than {MOST_WINDOWS} windows"))
}

/// A text in pieces of at least so many bytes but for the last, cut in front of blanks where there are any nearby.
pub(super) fn pieces(text: &str, bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let from = rest.ceil_char_boundary(bytes.max(1));
        let until = rest.ceil_char_boundary(from.saturating_add(NEARBY));
        let end = match rest[from..until].find(char::is_whitespace) {
            Some(at) => from + at,
            None if until == rest.len() => until,
            None => from,
        };
        let (piece, others) = rest.split_at(end);
        rest = others;
        Some(piece)
    })
}

/// Fails where windows of `window` tokens would not move on, or would be too many.
fn check_windows(length: usize, window: usize, stride: usize) -> Result<(), RowError> {
    if window >= length {
        return Ok(());
    }
    let Some(step) = window.checked_sub(stride).filter(|&it| it > 0) else {
        let text = format!("windows of {window} tokens cannot share {stride}");
        return Err(RowError::Truncation(text));
    };
    let count = (length - window).div_ceil(step) + 1;
    match count > MOST_WINDOWS {
        true => {
            let text = format!("the text has {count} windows, at most {MOST_WINDOWS} are taken");
            Err(RowError::Truncation(text))
        }
        false => Ok(()),
    }
}

/// `length` less `excess`; at least one token stays.
fn shortened(length: usize, excess: usize, which: &str) -> Result<usize, RowError> {
    let problem =
        || format!("the input is {excess} tokens too long, and the {which} text has only {length}");
    length.checked_sub(excess).filter(|&it| it > 0).ok_or_else(|| RowError::Truncation(problem()))
}

/// The lengths of two texts that together have more tokens than there is room for. Where both are cut, the odd
/// token goes to the longer one.
fn longest_first(first: usize, second: usize, room: usize) -> (usize, usize) {
    let (short, long) = (first.min(second), first.max(second));
    let (mut kept_short, mut kept_long) = (short, long);
    if short <= room {
        kept_long = short.max(room - short);
    }
    if kept_short + kept_long > room {
        kept_short = room / 2;
        kept_long = kept_short + room % 2;
    }
    match first > second {
        true => (kept_long, kept_short),
        false => (kept_short, kept_long),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        strategy: Strategy,
        max_length: usize,
        lengths: (usize, Option<usize>),
        expect: (usize, Option<usize>),
    ) {
        let truncation = Truncation { strategy, ..Truncation::right(max_length) };
        assert_eq!(truncation.keep(lengths, 3), Ok(expect));
    }

    #[test]
    fn the_longer_text_is_cut_down_to_the_shorter_then_both() {
        let strategy = Strategy::LongestFirst;
        check(strategy, 13, (4, Some(6)), (4, Some(6)));
        check(strategy, 13, (4, Some(9)), (4, Some(6)));
        check(strategy, 13, (9, Some(4)), (6, Some(4)));
        check(strategy, 12, (9, Some(9)), (4, Some(5)));
        check(strategy, 12, (10, Some(9)), (5, Some(4)));
        check(strategy, 3, (1, None), (0, None));
    }

    #[test]
    fn only_the_named_text_is_cut() {
        check(Strategy::OnlyFirst, 8, (6, Some(3)), (2, Some(3)));
        check(Strategy::OnlySecond, 8, (3, Some(6)), (3, Some(2)));
        let only = Truncation { strategy: Strategy::OnlySecond, ..Truncation::right(8) };
        let error = only.keep((6, Some(3)), 3).unwrap_err().to_string();
        assert_eq!(error, "the input is 4 tokens too long, and the second text has only 3");
    }

    #[test]
    fn a_limit_below_the_special_tokens_is_refused() {
        let error = Truncation::right(2).keep((1, None), 3).unwrap_err().to_string();
        let text = "a limit of 2 tokens leaves no room: the model adds 3 of its own";
        assert_eq!(error, text);
    }

    #[test]
    fn pieces_end_in_front_of_blanks_and_between_characters() {
        let all: Vec<&str> = pieces("one two three", 2).collect();
        assert_eq!(all, ["one", " two", " three"]);
        let long = "é".repeat(200);
        let all: Vec<&str> = pieces(&long, 101).collect();
        assert_eq!(all.iter().map(|it| it.len()).collect::<Vec<_>>(), [102, 102, 102, 94]);
        assert_eq!(pieces("", 1).count(), 0);
    }

    #[test]
    fn the_most_tokens_of_windows_are_those_that_are_taken() {
        let windows = Truncation { stride: Some(4), ..Truncation::right(10) };
        let most = windows.most_in_windows().unwrap();
        assert_eq!(windows.keep((most, None), 0), Ok((10, None)));
        assert!(windows.keep((most + 1, None), 0).is_err());
        assert_eq!(Truncation::right(10).most_in_windows(), None);
    }

    #[test]
    fn windows_move_on() {
        let windows = Truncation { stride: Some(5), ..Truncation::right(8) };
        assert!(windows.keep((9, None), 3).is_err());
        assert_eq!(windows.keep((5, None), 3), Ok((5, None)));
        let windows = Truncation { stride: Some(4), ..windows };
        assert_eq!(windows.keep((9, None), 3), Ok((5, None)));
        let error = windows.keep((100_000, None), 3).unwrap_err().to_string();
        assert_eq!(error, "the text has 99996 windows, at most 256 are taken");
    }
}
