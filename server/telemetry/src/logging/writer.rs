//! A thread that writes lines, behind a queue that never blocks.

use std::{
    fmt,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use inference::outbox::{Inbox, Outbox, Received, outbox};
use tracing::Level;

use super::log_settings::LogFormat;
use super::{
    control::LogState,
    format::{Line, SourceLine},
    terminal::Looks,
};

/// Lines that wait to be written. A line has at most some 16 KiB, and 200 bytes as a rule. When the
/// queue is full, lines are dropped and counted.
const MOST_WAITING: usize = 2048;

/// Bytes that are written in one go.
const CHUNK: usize = 64 * 1024;

/// Longest wait for the last lines to be written.
const LONGEST_FLUSH: Duration = Duration::from_secs(1);

/// The queue's entrance.
#[derive(Clone)]
pub(super) struct Writer {
    queue: Outbox<String>,
    /// Lines dropped and not yet reported.
    dropped: Arc<AtomicU64>,
}

/// Flushes when it is dropped.
pub(super) struct WriterGuard {
    queue: Outbox<String>,
}

impl fmt::Debug for WriterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterGuard").finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts the thread. It ends when the writer and its guard are gone.
    pub(super) fn start(
        name: &str,
        sink: Box<dyn Write + Send>,
        settings: Arc<LogState>,
    ) -> io::Result<(Writer, WriterGuard)> {
        let (queue, lines) = outbox(MOST_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let shared = dropped.clone();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || write_lines(lines, sink, &shared, &settings))?;
        Ok((Writer { queue: queue.clone(), dropped }, WriterGuard { queue }))
    }

    /// Queues a line, or drops it. Never waits.
    pub(super) fn write(&self, line: String) {
        if !self.queue.put(line) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl WriterGuard {
    /// Waits until what has been queued is written, for [`LONGEST_FLUSH`] at most.
    pub(super) fn flush(&self) {
        self.queue.flush(LONGEST_FLUSH);
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        self.flush();
    }
}

fn write_lines(
    mut lines: Inbox<String>,
    mut sink: Box<dyn Write + Send>,
    dropped: &AtomicU64,
    settings: &LogState,
) {
    let mut chunk = String::new();
    let mut is_open = true;
    while is_open {
        let (mut next, mut flush) = (lines.next(None), None);
        loop {
            match next {
                Received::Item(line) => chunk.push_str(&line),
                Received::Flush(it) => {
                    flush = Some(it);
                    break;
                }
                Received::Nothing => break,
                Received::Closed => {
                    is_open = false;
                    break;
                }
            }
            if CHUNK <= chunk.len() {
                break;
            }
            next = lines.next(Some(Duration::ZERO));
        }
        // A sink that fails, as a closed pipe, cannot be reported anywhere.
        let _ = sink.write_all(chunk.as_bytes());
        chunk.clear();
        let count = dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            let _ = sink.write_all(report(count, settings.format()).as_bytes());
        }
        let _ = sink.flush();
        drop(flush);
    }
}

/// The line that reports dropped ones.
fn report(count: u64, format: LogFormat) -> String {
    let mut line = Line::new(format, Level::WARN, SourceLine::new(file!(), line!()));
    line.say(&format!("{count} log lines were dropped: they came faster than they were read"));
    line.finish(Looks::default())
}
