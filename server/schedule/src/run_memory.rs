//! How many tokens may a run have, so that it fits the memory? From a few runs that were tried. Pure.

/// A run of one row that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialRun {
    /// Tokens of the row.
    pub tokens: usize,
    /// Bytes by which the process had grown after it, since before the first.
    pub bytes: u64,
}

/// Shorter rows say nothing: what they take is lost in what engines take ahead of need.
const TELLING: usize = 64;

/// Most tokens of a run, padding included, that takes no more than `room` bytes; at least `longest`, a row of the
/// longest input, and at most `most`. `runs` are in the order in which they were made.
///
/// A token takes as many bytes as every other, and in an encoder one more for each token of its row: what it takes in a
/// row of the longest input is found on the line through the two longest rows that were tried. With one row the line
/// begins at zero. Without any, nothing is known, and there is no bound but `most`.
pub fn tokens_that_fit(runs: &[TrialRun], room: u64, longest: usize, most: usize) -> usize {
    let of_token = |it: &TrialRun| it.bytes as f64 / it.tokens.max(1) as f64;
    let telling = || runs.iter().rev().filter(|it| TELLING <= it.tokens);
    let Some(last) = telling().next() else { return most };
    let (tokens, bytes) = (last.tokens as f64, of_token(last));
    let through_zero = bytes / tokens;
    let before = telling().find(|it| it.tokens < last.tokens);
    let steepness = before.map_or(through_zero, |before| {
        (bytes - of_token(before)) / (tokens - before.tokens as f64)
    });
    let steepness = steepness.clamp(0.0, through_zero);
    let at_longest = bytes + steepness * (longest as f64 - tokens).max(0.0);
    if at_longest <= 0.0 {
        return most;
    }
    // A number that is too large for the type becomes its largest.
    ((room as f64 / at_longest) as usize).min(most).max(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[track_caller]
    fn check(runs: &[(usize, u64)], room: u64, longest: usize, expected: usize) {
        let run = |(tokens, bytes): &(usize, u64)| TrialRun { tokens: *tokens, bytes: *bytes };
        let runs: Vec<TrialRun> = runs.iter().map(run).collect();
        assert_eq!(tokens_that_fit(&runs, room, longest, 4096), expected);
    }

    #[test]
    fn a_run_takes_what_its_rows_take() {
        // 64 KiB a token, however long its row is.
        check(&[(256, 16 * MIB), (512, 32 * MIB)], 128 * MIB, 512, 2048);
        check(&[(512, 32 * MIB)], 64 * MIB, 512, 1024);
    }

    #[test]
    fn tokens_of_longer_rows_than_were_tried_take_more() {
        // 16 KiB a token and 64 bytes for each token of its row: 48 KiB where there are 512.
        let of = |tokens: u64| tokens * (16 * 1024 + 64 * tokens);
        check(&[(128, of(128)), (256, of(256))], 96 * MIB, 512, 2048);
        // As if all of it grew with the square: 32 KiB of 128 tokens are 128 KiB of 512.
        check(&[(128, 4 * MIB)], 128 * MIB, 512, 1024);
        check(&[(8, 64 * MIB), (128, 4 * MIB)], 128 * MIB, 512, 1024);
    }

    #[test]
    fn one_row_of_the_longest_input_is_always_taken_and_no_more_than_the_most() {
        check(&[(512, 512 * MIB)], MIB, 512, 512);
        check(&[(512, MIB)], 1 << 40, 512, 4096);
        check(&[(512, MIB)], u64::MAX, 8192, 8192);
    }

    #[test]
    fn what_was_not_seen_bounds_nothing() {
        check(&[], MIB, 512, 4096);
        check(&[(512, 0)], MIB, 512, 4096);
        check(&[(8, 512 * MIB), (32, 512 * MIB)], MIB, 512, 4096);
    }

    #[test]
    fn a_longer_row_that_took_less_is_taken_as_it_is() {
        check(&[(128, 16 * MIB), (256, 16 * MIB)], 128 * MIB, 512, 2048);
    }
}
