//! Watches what this process really takes, beside what the ledger says: where that is nearly all, large requests are
//! refused and memory is given back, again and again until there is some. A process that asks for more than its control
//! group has is killed, with everything that it serves.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use inference::ledger::Ledger;
use machine::{AvailableMemory, MemoryGauge, OwnMemory, bytes_text};
use tokio::time::Instant;

use super::retained::Retained;

/// How often memory is looked at: two small files. A fast client sends some 20 MiB in that time.
const EVERY: Duration = Duration::from_millis(20);

/// The same while clients cause nothing: nobody has a body here or a request that runs, and there is much memory. What
/// is taken for a client ends that at once.
const SELDOM: Duration = Duration::from_millis(200);

/// So many times what has to be left is much: more than a load takes in that time.
const MUCH_LEFT: u64 = 3;

/// The part of the limit that has to be left, as a divisor, and its bounds in bytes.
const RESERVE: u64 = 10;
const LEAST_RESERVE: u64 = 32 << 20;
const MOST_RESERVE: u64 = 1 << 30;

/// One of so many looks is exact.
const EXACT_OF: u32 = 50;

/// While memory is scarce, what is not in use is given back so often.
const TRIM_EVERY: Duration = Duration::from_secs(3);

/// Where memory is still scarce after so long, what has been given back is all there was: large requests may then take
/// a part of what is left, so that nothing is refused for ever.
const SETTLED: Duration = Duration::from_secs(7);

/// The part of what is left that they may take, as a divisor.
const OF_LEFT: u64 = 2;

/// Where the memory of this process is read.
pub(super) struct Source {
    /// The control group, where its limit is the one that counts.
    gauge: Option<MemoryGauge>,
    available: AvailableMemory,
    own: OwnMemory,
    /// Looks so far.
    looks: Cell<u32>,
}

impl Source {
    /// Of a process that may take `limit` bytes.
    pub(super) fn open(limit: u64) -> Source {
        let gauge = MemoryGauge::read().filter(|it| it.limit == limit);
        let (available, own) = Default::default();
        Source { gauge, available, own, looks: Cell::default() }
    }

    /// The memory now, where models take `processes()` bytes in processes of their own.
    pub(super) fn read(&self, processes: impl Fn() -> u64) -> Usage {
        let look = self.looks.replace(self.looks.get().wrapping_add(1));
        let (available, own) = (self.available.bytes(), self.own.anonymous_bytes());
        // Files that can be dropped are counted, which takes some time, where they may matter, and now and then.
        let enough = |it: &MemoryGauge| match look % EXACT_OF {
            0 => 0,
            _ => it.limit.saturating_sub(reserve(it.limit) * 2),
        };
        let of_group = self.gauge.as_ref().and_then(|it| Some((enough(it), it.taken(enough(it))?)));
        match of_group {
            Some((enough, taken)) => {
                Usage { taken, own, available, is_exact: enough == 0 || enough < taken }
            }
            None => {
                let taken = own.saturating_add(processes());
                Usage { taken, own, available, is_exact: true }
            }
        }
    }
}

/// Memory at one moment, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// Taken by this process and those of models, without files that the system can drop.
    pub(super) taken: u64,
    /// Taken by this process alone, without all files.
    pub(super) own: u64,
    /// What the machine has left; `None` where it does not say.
    pub(super) available: Option<u64>,
    /// Was all of that taken out? Else there is so much at most.
    pub(super) is_exact: bool,
}

impl Usage {
    /// What is left of `limit` bytes.
    fn left(self, limit: u64) -> u64 {
        limit.saturating_sub(self.taken).min(self.available.unwrap_or(u64::MAX))
    }
}

/// Bytes of `limit` that have to be left.
fn reserve(limit: u64) -> u64 {
    (limit / RESERVE).clamp(LEAST_RESERVE, MOST_RESERVE).min(limit / 4)
}

/// Is memory scarce now? Where it was, half as much again has to be left before it is not.
fn is_scarce(was: bool, limit: u64, usage: Usage) -> bool {
    let reserve = reserve(limit);
    usage.left(limit) < if was { reserve + reserve / 2 } else { reserve }
}

/// Waits for the next look after one at which the ledger held so much, where that was `before` at the one before. Looks
/// are never nearer to each other than [`EVERY`], however short what is taken is held.
async fn pause(ledger: &Ledger, held: usize, before: usize, has_much: bool) {
    tokio::time::sleep(EVERY).await;
    let is_quiet = has_much && held == before && ledger.used() == held && ledger.bodies.used() == 0;
    if is_quiet && !ledger.bodies.is_scarce() {
        // Too late is what has stirred nothing.
        let _ = tokio::time::timeout(SELDOM, ledger.stirs(held)).await;
    }
}

/// Watches for ever that this process stays within `limit` bytes. `trim` gives back what is not in use; it is called
/// again and again while memory is scarce, and may block. So may `give_back`, for what the allocator keeps.
pub(super) async fn watch(
    limit: u64,
    read: impl Fn() -> Usage,
    ledger: Ledger,
    trim: impl Fn() + Clone + Send + 'static,
    give_back: fn(),
) {
    let trimming = Arc::<AtomicBool>::default();
    let (mut since, mut trimmed) = (Instant::now(), None::<Instant>);
    // What was taken when clients held least of late: that is no part of the ledger.
    let mut base: Option<u64> = None;
    let (mut held, mut before, mut has_much) = (0, 0, false);
    let mut retained = Retained::within(limit);
    loop {
        pause(&ledger, held, before, has_much).await;
        let (was, usage) = (ledger.bodies.is_scarce(), read());
        let now = is_scarce(was, limit, usage);
        before = std::mem::replace(&mut held, ledger.used());
        has_much = reserve(limit).saturating_mul(MUCH_LEFT) <= usage.left(limit);
        let beside = usage.taken.saturating_sub(held as u64);
        retained.look(usage.own.saturating_sub(held as u64), give_back);
        if !now && !was {
            if usage.is_exact {
                base = Some(base.map_or(beside, |it| it.min(beside)));
            }
            continue;
        }
        if now != was {
            since = Instant::now();
            trimmed = None;
            say(now, limit, usage, &ledger, base);
        }
        match now {
            true if since.elapsed() < SETTLED => ledger.set_scarce_but_for(0),
            true => {
                let some = usage.left(limit) / OF_LEFT;
                ledger.set_scarce_but_for(usize::try_from(some).unwrap_or(usize::MAX));
            }
            false => {
                base = None;
                ledger.end_scarcity();
            }
        }
        let is_due = trimmed.is_none_or(|it| TRIM_EVERY <= it.elapsed());
        if now && is_due && !trimming.swap(true, Ordering::Relaxed) {
            trimmed = Some(Instant::now());
            let (trim, trimming) = (trim.clone(), trimming.clone());
            // Not waited for: an engine that is busy must not keep this from noticing that there is memory again.
            drop(tokio::task::spawn_blocking(move || {
                trim();
                trimming.store(false, Ordering::Relaxed);
            }));
        }
    }
}

/// Says that memory is scarce, or is not any more, with the ledger beside the truth. Where much is `unaccounted`, a
/// part of the ledger is wrong, or memory that was freed has not been given back.
fn say(is_scarce: bool, limit: u64, usage: Usage, ledger: &Ledger, base: Option<u64>) {
    let left = bytes_text(usage.left(limit));
    let (limit, taken) = (bytes_text(limit), bytes_text(usage.taken));
    if !is_scarce {
        return tracing::info!(left, limit, "there is memory again: large requests are taken");
    }
    let [bodies, connections] = ledger.accounts().map(|(_, it)| bytes_text(it.used() as u64));
    let before = base.unwrap_or(0);
    let unaccounted = usage.taken.saturating_sub(before).saturating_sub(ledger.used() as u64);
    let (before, unaccounted) = (bytes_text(before), bytes_text(unaccounted));
    tracing::warn!(
        left,
        limit,
        taken,
        bodies,
        connections,
        before,
        unaccounted,
        "memory is nearly used up: large requests are refused, and engines give back what they do not use"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn ledger() -> Ledger {
        Ledger::new(GIB, Some(GIB))
    }

    #[test]
    fn memory_is_scarce_with_a_tenth_left_and_not_any_more_with_half_as_much_again() {
        let of = |was, taken, available| {
            is_scarce(was, GIB, Usage { taken, own: 0, available, is_exact: true })
        };
        assert!(!of(false, 0, None));
        assert!(!of(false, GIB / 100 * 89, None));
        assert!(of(false, GIB / 100 * 91, None));
        assert!(of(true, GIB / 100 * 86, None));
        assert!(!of(true, GIB / 100 * 84, None));
        // Others may have taken the machine's memory.
        assert!(of(false, 0, Some(40 << 20)));
        assert!(!of(false, 0, Some(GIB)));
        // More than there should be.
        assert!(of(false, 2 * GIB, None));
    }

    #[tokio::test(start_paused = true)]
    async fn large_requests_are_refused_from_the_next_look_on_until_there_is_memory() {
        let (ledger, taken) = (ledger(), Cell::new(0));
        let read = || Usage { taken: taken.get(), own: 0, available: None, is_exact: true };
        let _one = ledger.bodies.take(1);
        let watching = watch(GIB, read, ledger.clone(), || {}, || {});
        let mut watching = std::pin::pin!(watching);
        let mut after = async |bytes| {
            taken.set(bytes);
            let _ = tokio::time::timeout(2 * EVERY, watching.as_mut()).await;
            ledger.bodies.take(100 << 20).is_some()
        };
        assert!(after(GIB / 2).await);
        assert!(!after(GIB - 1).await);
        assert!(after(GIB / 2).await);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_are_rare_while_nothing_is_taken_and_one_comes_at_once_when_something_is() {
        let (ledger, taken, looks) = (ledger(), Cell::new(0), Cell::new(0));
        let read = || {
            looks.set(looks.get() + 1);
            Usage { taken: taken.get(), own: 0, available: None, is_exact: true }
        };
        let mut watching = std::pin::pin!(watch(GIB, read, ledger.clone(), || {}, || {}));
        let mut looks_in = async |time: Duration| {
            looks.set(0);
            let _ = tokio::time::timeout(time, watching.as_mut()).await;
            looks.get()
        };
        let second = Duration::from_secs(1);
        looks_in(second).await;
        assert!(looks_in(second).await <= 6);
        // Many that are held for a moment cost no more looks than one that is held for long.
        let mut of_many = 0;
        for _ in 0..100 {
            drop(ledger.bodies.take(1));
            of_many += looks_in(Duration::from_millis(1)).await;
        }
        assert!(of_many <= 6, "{of_many} looks in a tenth of a second");
        // It rests by then.
        looks_in(5 * EVERY).await;
        let request = ledger.bodies.take(1);
        assert_eq!(looks_in(Duration::from_millis(1)).await, 1);
        assert!(45 <= looks_in(second).await);
        drop(request);
        let connection = ledger.connections.take(1);
        looks_in(second).await;
        assert!(looks_in(second).await <= 6, "a connection at rest");
        taken.set(GIB / 4 * 3);
        looks_in(second).await;
        assert!(45 <= looks_in(second).await, "little is left");
        drop(connection);
    }

    #[tokio::test(start_paused = true)]
    async fn where_memory_stays_scarce_large_requests_get_a_part_of_what_is_left() {
        let ledger = ledger();
        let read = || Usage { taken: GIB - (64 << 20), own: 0, available: None, is_exact: true };
        let mut watching = std::pin::pin!(watch(GIB, read, ledger.clone(), || {}, || {}));
        let _ = tokio::time::timeout(SETTLED - EVERY, watching.as_mut()).await;
        assert!(ledger.bodies.take(2 << 20).is_none() && ledger.bodies.take(1000).is_some());
        let _ = tokio::time::timeout(3 * EVERY, watching.as_mut()).await;
        let held = ledger.bodies.take(30 << 20).unwrap();
        assert!(ledger.bodies.take(30 << 20).is_none());
        drop(held);
    }

    #[tokio::test]
    async fn engines_trim_their_memory_again_and_again_while_it_is_scarce() {
        tokio::time::pause();
        let (taken, trimmed) = (Cell::new(0), Arc::<AtomicUsize>::default());
        let counter = trimmed.clone();
        let trim = move || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let read = || Usage { taken: taken.get(), own: 0, available: None, is_exact: true };
        let mut watching = std::pin::pin!(watch(GIB, read, ledger(), trim, || {}));
        for (bytes, seconds, times) in [(GIB / 2, 9, 0), (GIB, 1, 1), (GIB, 6, 3), (0, 9, 3)] {
            taken.set(bytes);
            for _ in 0..seconds * 10 {
                let tenth = Duration::from_millis(100);
                let _ = tokio::time::timeout(tenth, watching.as_mut()).await;
                // The thread that trims keeps its own time.
                std::thread::yield_now();
            }
            let until = std::time::Instant::now() + Duration::from_secs(20);
            while trimmed.load(Ordering::Relaxed) < times && std::time::Instant::now() < until {
                std::thread::yield_now();
            }
            assert_eq!(trimmed.load(Ordering::Relaxed), times);
        }
    }
}
