//! The way of traces out of the requests: a bounded queue, and a thread that writes or sends them.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use super::record::Finished;
use crate::outbox::{Inbox, Outbox, Received, outbox};

/// Traces that wait to be written to a file. Above that they are dropped and counted.
pub(super) const MOST_TRACES: usize = 4096;

/// Bytes of tensors that waiting traces may keep in memory. Above that traces with tensors are dropped and counted.
const MOST_BYTES: u64 = 64 << 20;

/// Shortest time between two lines of the log that report dropped traces.
const COMPLAINT: Duration = Duration::from_secs(30);

/// Longest sleep of the thread, which then has a look whether there is something to complain about.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Where traces end.
pub(super) trait Sink: Send {
    /// Takes one in.
    fn take(&mut self, trace: Finished);

    /// Does what is due: called when nothing waits, and when the time has come that the last call asked for. Returns
    /// how long the next call can wait; `None` for as long as nothing comes. May block.
    fn work(&mut self, now: Instant) -> Option<Duration>;

    /// Gets rid of everything that it has taken in. May block.
    fn flush(&mut self);

    /// How many it had to give up since it was asked last.
    fn lost(&mut self) -> u64;
}

/// The queue's entrance.
#[derive(Clone)]
pub(super) struct Outlet {
    queue: Outbox<(Box<Finished>, u64)>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Traces that found no room, and have not been reported.
    dropped: AtomicU64,
    /// Bytes of tensors in the queue.
    bytes: AtomicU64,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

impl Outlet {
    /// Starts the thread. It ends when all entrances are gone.
    pub(super) fn start(sink: Box<dyn Sink>, most: usize) -> io::Result<Outlet> {
        let (queue, traces) = outbox(most);
        let counts = Arc::new(Counts::default());
        let shared = counts.clone();
        let write = move || write(traces, sink, &shared);
        thread::Builder::new().name("traces".to_owned()).spawn(write)?;
        Ok(Outlet { queue, counts })
    }

    /// Queues a trace, or drops it. Never waits.
    pub(super) fn put(&self, trace: Finished) {
        let tensors = trace.record.tensors.iter();
        let bytes: u64 = tensors.map(|(_, it)| it.tensor.byte_len() as u64).sum();
        let waiting = self.counts.bytes.fetch_add(bytes, Relaxed);
        let fits = bytes == 0 || waiting + bytes <= MOST_BYTES;
        if !fits || !self.queue.put((Box::new(trace), bytes)) {
            self.counts.bytes.fetch_sub(bytes, Relaxed);
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Waits until what has been queued is out, for so long at most.
    pub(super) fn flush(&self, patience: Duration) {
        self.queue.flush(patience);
    }
}

/// The thread.
fn write(mut traces: Inbox<(Box<Finished>, u64)>, mut sink: Box<dyn Sink>, counts: &Counts) {
    let mut complaints = Complaints { lost: 0, last: None };
    let mut due = None;
    loop {
        let sleep = due.map_or(LONGEST_SLEEP, |it: Duration| it.min(LONGEST_SLEEP));
        let mut next = traces.next(Some(sleep));
        loop {
            match next {
                Received::Item((trace, bytes)) => {
                    sink.take(*trace);
                    counts.bytes.fetch_sub(bytes, Relaxed);
                }
                Received::Flush(flush) => {
                    sink.flush();
                    drop(flush);
                }
                Received::Nothing => break,
                Received::Closed => return sink.flush(),
            }
            next = traces.next(Some(Duration::ZERO));
        }
        due = sink.work(Instant::now());
        complaints.lost += counts.dropped.swap(0, Relaxed) + sink.lost();
        complaints.tell(Instant::now());
    }
}

/// Reports in the log what was lost, not too often.
struct Complaints {
    lost: u64,
    last: Option<Instant>,
}

impl Complaints {
    fn tell(&mut self, now: Instant) {
        let silent = self.last.is_some_and(|it| now.saturating_duration_since(it) < COMPLAINT);
        if self.lost == 0 || silent {
            return;
        }
        tracing::warn!(
            dropped = self.lost,
            "traces were dropped: they came faster than they could be written or sent"
        );
        (self.lost, self.last) = (0, Some(now));
    }
}
