//! What a worker writes on its standard output and error: lines of the server's log, at most so many a second.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::whose::Whose;

/// A line is cut here.
const LONGEST_LINE: u64 = 8 << 10;

/// Lines, and bytes of them, that are logged in one second; what is beyond is counted.
const LINES_A_SECOND: usize = 10_000;
const BYTES_A_SECOND: usize = 1 << 20;

/// Lines that are kept, for the reason of a death.
const KEPT: usize = 20;

/// What a worker that has ended wrote last is waited for so long: a process that it has left behind may hold the pipe
/// open.
const PATIENCE: Duration = Duration::from_secs(3);

/// The last lines of a worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastLines(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Guards the lines.
    lines: Mutex<Lines>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    last: VecDeque<String>,
    /// Has everything been read?
    is_over: bool,
}

impl LastLines {
    fn push(&self, line: &str) {
        let last = &mut self.lock().last;
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(line.to_owned());
    }

    fn finish(&self) {
        self.lock().is_over = true;
        self.0.over.notify_all();
    }

    /// The lines of a worker that has ended, one below the other. Blocking, until what it wrote has been read.
    pub(crate) fn text(&self) -> String {
        let goes_on = |it: &mut Lines| !it.is_over;
        let waited = self.0.over.wait_timeout_while(self.lock(), PATIENCE, goes_on);
        let (lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
        lines.last.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads to the end: a worker never blocks because nobody reads. Lines that are too many for the log are counted.
pub(crate) fn drain(
    output: impl Read,
    whose: &Whose,
    pid: u32,
    kept: &LastLines,
    dropped: &AtomicU64,
) {
    let mut budget = Budget::new(Instant::now());
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    let mut is_cut = false;
    loop {
        line.clear();
        match (&mut output).take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return kept.finish(),
            Ok(_) => {}
        }
        let is_rest = std::mem::replace(&mut is_cut, !line.ends_with(b"\n"));
        if let Some(lines) = budget.next_second(Instant::now()) {
            let Whose { model, version, .. } = whose;
            tracing::warn!(
                model,
                version,
                worker = pid,
                "{lines} lines of a model's process are dropped"
            );
        }
        // Of a long line the beginning says what it is.
        if is_rest {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        kept.push(text);
        match budget.takes(line.len()) {
            true => log(whose, pid, text),
            false => _ = dropped.fetch_add(1, Relaxed),
        }
    }
}

/// At the level that the line begins with, else as information.
fn log(whose: &Whose, worker: u32, line: &str) {
    let Whose { model, version, .. } = whose;
    let (level, text) = line.trim_start().split_once(' ').unwrap_or(("", line));
    match level {
        "ERROR" => tracing::error!(model, version, worker, "{text}"),
        "WARN" => tracing::warn!(model, version, worker, "{text}"),
        "INFO" => tracing::info!(model, version, worker, "{text}"),
        "DEBUG" | "TRACE" => tracing::debug!(model, version, worker, "{text}"),
        _ => tracing::info!(model, version, worker, "{line}"),
    }
}

/// What may still be logged in this second.
struct Budget {
    since: Instant,
    lines: usize,
    bytes: usize,
    dropped: usize,
}

impl Budget {
    fn new(now: Instant) -> Budget {
        Budget { since: now, lines: LINES_A_SECOND, bytes: BYTES_A_SECOND, dropped: 0 }
    }

    /// Begins anew after a second; says how many lines were dropped in the last.
    fn next_second(&mut self, now: Instant) -> Option<usize> {
        if now.duration_since(self.since) < Duration::from_secs(1) {
            return None;
        }
        let dropped = self.dropped;
        *self = Budget::new(now);
        Some(dropped).filter(|it| 0 < *it)
    }

    fn takes(&mut self, bytes: usize) -> bool {
        match (self.lines.checked_sub(1), self.bytes.checked_sub(bytes)) {
            (Some(lines), Some(bytes)) => {
                (self.lines, self.bytes) = (lines, bytes);
                true
            }
            _ => {
                self.dropped += 1;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose() -> Whose {
        Whose { model: "m".to_owned(), version: 1, device: None }
    }

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let kept = LastLines::default();
        let mut output: Vec<u8> =
            (0..30).flat_map(|it| format!("line {it}\n").into_bytes()).collect();
        output.extend([b'x'; 20_000]);
        output.extend(b"\n\xff\n");
        drain(&*output, &whose(), 1, &kept, &AtomicU64::new(0));
        let text = kept.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), KEPT);
        assert_eq!(lines[0], "line 12");
        assert_eq!(lines[18].len(), LONGEST_LINE as usize);
        assert_eq!(lines[19], "\u{fffd}");
    }

    #[test]
    fn a_line_that_is_not_logged_is_counted() {
        // More than the bytes of a second, and of the next one if it begins meanwhile.
        let lines = 4 * BYTES_A_SECOND / 8000;
        let output: Vec<u8> = [&[b'x'; 7999][..], b"\n"].concat().repeat(lines);
        let dropped = AtomicU64::new(0);
        drain(&*output, &whose(), 1, &LastLines::default(), &dropped);
        assert!(0 < dropped.load(Relaxed) && dropped.load(Relaxed) < lines as u64);
    }

    #[test]
    fn what_is_too_much_for_a_second_is_counted() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let taken = (0..LINES_A_SECOND + 5).filter(|_| budget.takes(10)).count();
        assert_eq!(taken, LINES_A_SECOND);
        assert_eq!(budget.next_second(start), None);
        assert_eq!(budget.next_second(start + Duration::from_secs(1)), Some(5));
        assert!(!budget.takes(BYTES_A_SECOND + 1));
        assert_eq!(budget.next_second(start + Duration::from_secs(2)), Some(1));
        assert_eq!(budget.next_second(start + Duration::from_secs(3)), None);
    }
}
