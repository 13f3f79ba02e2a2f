//! How many lines the log gets of requests that fail: of each kind of failure ten in a second, and the number of those
//! that have none. So a client that is broken does not fill a disk.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use inference::error::Kind;

/// Most lines of one kind within [`WINDOW`].
const MOST: u32 = 10;

/// The time in which lines are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// The lines of failed requests.
#[derive(Debug, Default)]
pub struct FailureLines {
    /// Guards the counts of each kind that there has been, 23 at most. Held only to count.
    kinds: Mutex<HashMap<Kind, Count>>,
}

/// Failures of one kind.
#[derive(Debug)]
struct Count {
    /// The window began.
    since: Instant,
    /// Lines within it.
    lines: u32,
    /// Failures without a line that have not been told yet.
    left_out: u64,
}

impl Count {
    /// Takes the failures that have not been told, once their window is over.
    fn take_left_out(&mut self, now: Instant) -> Option<u64> {
        let is_over = WINDOW <= now.saturating_duration_since(self.since);
        let left_out = if is_over { std::mem::take(&mut self.left_out) } else { 0 };
        Some(left_out).filter(|it| 0 < *it)
    }
}

impl FailureLines {
    /// Counts a failure. Has it a line? Failures that had none before are told first.
    pub(super) fn has_line(&self, kind: Kind) -> bool {
        let (has_line, left_out) = self.count(kind, Instant::now());
        tell(left_out.map(|it| (kind, it)));
        has_line
    }

    /// Tells of failures that had no line, once there are no further ones of their kind. Called again and again.
    pub fn tell_left_out(&self) {
        tell(self.left_out(Instant::now()));
    }

    fn count(&self, kind: Kind, now: Instant) -> (bool, Option<u64>) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let count = kinds.entry(kind).or_insert(Count { since: now, lines: 0, left_out: 0 });
        let left_out = count.take_left_out(now);
        if WINDOW <= now.saturating_duration_since(count.since) {
            (count.since, count.lines) = (now, 0);
        }
        let has_line = count.lines < MOST;
        match has_line {
            true => count.lines += 1,
            false => count.left_out += 1,
        }
        (has_line, left_out)
    }

    fn left_out(&self, now: Instant) -> Vec<(Kind, u64)> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.iter_mut().filter_map(|(kind, it)| Some((*kind, it.take_left_out(now)?))).collect()
    }
}

fn tell(left_out: impl IntoIterator<Item = (Kind, u64)>) {
    for (kind, count) in left_out {
        let count = grouped(count);
        tracing::info!(?kind, "and {count} more requests failed in the same way");
    }
}

/// `12345` → `12,345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_of_a_kind_have_a_line_in_a_second_and_the_others_are_counted() {
        let (lines, start) = (FailureLines::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let first: Vec<bool> = (0..25).map(|it| lines.count(Kind::NotFound, at(it)).0).collect();
        assert_eq!(first.iter().filter(|it| **it).count(), 10);
        assert!(first[9] && !first[10]);
        assert_eq!(lines.count(Kind::InvalidArgument, at(30)), (true, None), "another kind");
        assert_eq!(lines.count(Kind::NotFound, at(999)), (false, None));
        assert_eq!(lines.count(Kind::NotFound, at(1000)), (true, Some(16)));
        assert_eq!(lines.count(Kind::NotFound, at(1001)), (true, None), "they are told once");
    }

    #[test]
    fn what_was_left_out_is_told_without_a_further_failure() {
        let (lines, start) = (FailureLines::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for _ in 0..12 {
            lines.count(Kind::NotFound, start);
        }
        assert_eq!(lines.left_out(at(999)), []);
        assert_eq!(lines.left_out(at(1000)), [(Kind::NotFound, 2)]);
        assert_eq!(lines.left_out(at(2000)), []);
    }

    #[test]
    fn numbers_have_commas() {
        let texts = [0, 999, 1000, 12345, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }
}
