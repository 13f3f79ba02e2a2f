//! What a worker writes on its standard output and error: lines of the server's log, at most so many a second.

use std::{
    collections::VecDeque,
    io::Read,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tracing::Level;

use crate::{level::level_of, whose::Whose};

/// A line is cut here.
const LONGEST_LINE: usize = 8 << 10;

/// Bytes that one read asks for.
const READ: usize = 8 << 10;

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

/// One of the two that a worker writes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Error,
}

impl Stream {
    /// As the log calls it.
    const fn name(self) -> &'static str {
        match self {
            Stream::Output => "stdout",
            Stream::Error => "stderr",
        }
    }
}

/// Reads both to their ends: a worker never blocks because nobody reads. Lines that are too many for the log are
/// counted. What is to be done at its death is done once that file can be read, also where another process holds the
/// streams open.
pub(crate) fn drain(
    streams: [(Stream, OwnedFd); 2],
    whose: &Whose,
    pid: u32,
    kept: &LastLines,
    dropped: &AtomicU64,
    mut death: Option<(OwnedFd, impl FnOnce())>,
) {
    let mut budget = Budget::new(Instant::now());
    let mut said = |stream: Stream, line: &[u8]| {
        if let Some(lines) = budget.next_second(Instant::now()) {
            let Whose { model, version, .. } = whose;
            tracing::warn!(
                model,
                version,
                worker = pid,
                "{lines} lines of a model's process are dropped"
            );
        }
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        kept.push(text);
        match budget.takes(line.len()) {
            true => log(whose, pid, stream, text),
            false => _ = dropped.fetch_add(1, Relaxed),
        }
    };
    let with_lines = |(stream, pipe)| (stream, std::fs::File::from(pipe), Splitter::default());
    let mut open = Vec::from(streams.map(with_lines));
    let mut bytes = vec![0; READ];
    while !open.is_empty() {
        let pipes = open.iter().map(|(_, pipe, _)| pipe.as_fd());
        let ready = ready(pipes.chain(death.iter().map(|(file, _)| file.as_fd())));
        if ready.get(open.len()) == Some(&true)
            && let Some((_, noted)) = death.take()
        {
            noted();
        }
        let mut ready = ready.into_iter();
        open.retain_mut(|(stream, pipe, lines)| {
            if ready.next() == Some(false) {
                return true;
            }
            match pipe.read(&mut bytes) {
                Ok(0) | Err(_) => {
                    lines.finish(|line| said(*stream, line));
                    false
                }
                Ok(count) => {
                    let read = bytes.get(..count).unwrap_or_default();
                    lines.take(read, |line| said(*stream, line));
                    true
                }
            }
        });
    }
    kept.finish();
}

/// Which of these can be read without waiting. Blocking, until there is one. All, where that cannot be told.
fn ready<'a>(files: impl Iterator<Item = BorrowedFd<'a>>) -> Vec<bool> {
    let mut pipes: Vec<PollFd<'_>> =
        files.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)).collect();
    let polled = loop {
        match poll(&mut pipes, None) {
            Err(Errno::INTR) => {}
            polled => break polled,
        }
    };
    pipes.iter().map(|it| polled.is_err() || !it.revents().is_empty()).collect()
}

/// Bytes of a stream → its lines. Of a long line the beginning says what it is.
#[derive(Debug, Default)]
struct Splitter {
    line: Vec<u8>,
}

impl Splitter {
    fn take(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for part in bytes.split_inclusive(|it| *it == b'\n') {
            let room = LONGEST_LINE.saturating_sub(self.line.len());
            self.line.extend(part.iter().take(room));
            if part.ends_with(b"\n") {
                each(&self.line);
                self.line.clear();
            }
        }
    }

    /// What has no end of its own.
    fn finish(&mut self, each: impl FnOnce(&[u8])) {
        if !self.line.is_empty() {
            each(&self.line);
        }
    }
}

/// At the level that the line begins with, else as information.
fn log(whose: &Whose, worker: u32, stream: Stream, line: &str) {
    let Whose { model, version, .. } = whose;
    let stream = stream.name();
    match level_of(line) {
        (Level::ERROR, text) => tracing::error!(model, version, worker, stream, "{text}"),
        (Level::WARN, text) => tracing::warn!(model, version, worker, stream, "{text}"),
        (Level::INFO, text) => tracing::info!(model, version, worker, stream, "{text}"),
        (_, text) => tracing::debug!(model, version, worker, stream, "{text}"),
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
    use std::{
        io::{self, Write},
        thread,
    };

    fn whose() -> Whose {
        Whose { model: "m".to_owned(), version: 1, device: None }
    }

    fn no_death() -> Option<(OwnedFd, fn())> {
        None
    }

    /// What is left of these bytes on standard output, and of those on standard error, read at the same time.
    fn drained(output: Vec<u8>, error: Vec<u8>) -> (String, u64) {
        let (kept, dropped) = (LastLines::default(), AtomicU64::new(0));
        let pipes = [(Stream::Output, output), (Stream::Error, error)].map(|(stream, bytes)| {
            let (read, mut written) = io::pipe().unwrap();
            let writer = thread::spawn(move || written.write_all(&bytes).unwrap());
            ((stream, OwnedFd::from(read)), writer)
        });
        let [(output, writes_output), (error, writes_error)] = pipes;
        drain([output, error], &whose(), 1, &kept, &dropped, no_death());
        writes_output.join().unwrap();
        writes_error.join().unwrap();
        (kept.text(), dropped.load(Relaxed))
    }

    #[test]
    fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let mut output: Vec<u8> =
            (0..30).flat_map(|it| format!("line {it}\n").into_bytes()).collect();
        output.extend([b'x'; 20_000]);
        output.extend(b"\n\xff\nno end");
        let (text, _) = drained(output, Vec::new());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), KEPT);
        assert_eq!(lines[0], "line 13");
        assert_eq!(lines[17].len(), LONGEST_LINE);
        assert_eq!(lines[18..], ["\u{fffd}", "no end"]);
    }

    #[test]
    fn lines_of_one_stream_are_not_mixed_with_those_of_the_other() {
        let lines = |word: &str| format!("{word}\n").repeat(5).into_bytes();
        let (text, _) = drained(lines("output"), lines("error"));
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, [["error"; 5], ["output"; 5]].concat());
    }

    #[test]
    fn one_that_writes_on_one_stream_alone_is_read() {
        // More than a pipe holds, while nothing comes on the other.
        let (mut written, text) = (Vec::new(), "z".repeat(999));
        (0..200).for_each(|_| written.extend(format!("{text}\n").into_bytes()));
        assert_eq!(drained(Vec::new(), written).0.lines().last(), Some(&*text));
    }

    #[test]
    fn a_line_that_is_not_logged_is_counted() {
        // More than the bytes of a second, and of the next one if it begins meanwhile.
        let lines = 4 * BYTES_A_SECOND / 8000;
        let output: Vec<u8> = [&[b'x'; 7999][..], b"\n"].concat().repeat(lines);
        let (_, dropped) = drained(output, Vec::new());
        assert!(0 < dropped && dropped < lines as u64, "{dropped}");
    }

    #[test]
    fn a_death_is_noted_while_somebody_else_holds_the_streams_open() {
        let [(output, held), (error, also_held)] = [(); 2].map(|()| io::pipe().unwrap());
        let (life, lives) = io::pipe().unwrap();
        let (sender, noted) = std::sync::mpsc::channel();
        let reads = thread::spawn(move || {
            let streams = [(Stream::Output, output.into()), (Stream::Error, error.into())];
            let death = Some((OwnedFd::from(life), || sender.send(()).unwrap()));
            drain(streams, &whose(), 1, &LastLines::default(), &AtomicU64::new(0), death);
        });
        drop(lives);
        noted.recv().unwrap();
        assert!(!reads.is_finished());
        drop((held, also_held));
        reads.join().unwrap();
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
