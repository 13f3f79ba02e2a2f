//! Those who hold memory and are waited for: where it is short, the slowest of them gives way. A body that comes a byte
//! a second holds what it has for minutes, and others would be refused as long.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// The speed of a holder is measured over so long at least.
const MEASURED: Duration = Duration::from_secs(1);

/// A holder that moves all that it holds within so long is no slow one.
const TURNOVER: u64 = 30;

/// Nor is one that moves so many bytes a second.
const FAST: u64 = 1 << 20;

/// The shortest time between two searches, in milliseconds: a search looks at all holders.
const PAUSE: u64 = 20;

/// Those who hold memory and are waited for.
#[derive(Debug)]
pub struct Yielding {
    epoch: Instant,
    /// Milliseconds from then to the last search.
    searched: AtomicU64,
    /// Guards what is known of each holder. Taken when one is waited for for long, and where memory is short.
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    by_number: HashMap<u64, Row>,
    next: u64,
}

#[derive(Debug)]
struct Row {
    state: Arc<State>,
    /// The last look, and what had been moved by then.
    seen: (Instant, u64),
    /// Bytes per second before that; `None` where it was not measured yet.
    speed: Option<u64>,
}

impl Row {
    /// Measures again where the last look is long enough ago. Returns the speed where it is a slow one.
    fn slow(&mut self, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.seen.0);
        if MEASURED <= passed {
            let moved = self.state.moved.load(Relaxed);
            let bytes = moved.saturating_sub(self.seen.1);
            self.speed = Some((bytes as f64 / passed.as_secs_f64()) as u64);
            self.seen = (now, moved);
        }
        let least = (self.state.held.load(Relaxed) / TURNOVER).clamp(1, FAST);
        self.speed.filter(|it| *it < least)
    }
}

#[derive(Debug, Default)]
struct State {
    held: AtomicU64,
    moved: AtomicU64,
    is_asked: AtomicBool,
    /// Wakes whoever waits beside it.
    waker: Mutex<Option<Waker>>,
}

impl Default for Yielding {
    fn default() -> Yielding {
        Yielding { epoch: Instant::now(), searched: AtomicU64::default(), rows: Mutex::default() }
    }
}

impl Yielding {
    /// Counts a holder among them until this is dropped.
    pub fn enter(self: &Arc<Yielding>) -> Holder {
        let state = Arc::<State>::default();
        let mut rows = self.lock();
        let number = rows.next;
        rows.next += 1;
        let row = Row { state: state.clone(), seen: (Instant::now(), 0), speed: None };
        rows.by_number.insert(number, row);
        drop(rows);
        Holder { state, number, among: self.clone() }
    }

    /// Asks the slowest holders to give way, until they hold `wanted` bytes together. They do so a moment later. Looks
    /// seldom, however often it is called.
    pub fn press(&self, wanted: usize) {
        let now = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let last = self.searched.load(Relaxed);
        let is_early = now < last.saturating_add(PAUSE) && last != 0;
        let mine = self.searched.compare_exchange(last, now.max(1), Relaxed, Relaxed);
        if is_early || mine.is_err() {
            return;
        }
        self.search(wanted as u64, Instant::now());
    }

    fn search(&self, wanted: u64, now: Instant) {
        let mut rows = self.lock();
        let mut slow: Vec<_> = rows
            .by_number
            .iter_mut()
            .filter_map(|(number, row)| {
                Some((row.slow(now)?, u64::MAX - row.state.held.load(Relaxed), *number))
            })
            .collect();
        slow.sort_unstable();
        let mut freed = 0u64;
        for (_, held, number) in slow {
            if wanted <= freed {
                break;
            }
            freed = freed.saturating_add(u64::MAX - held);
            // It is gone from the search at once, and from memory a moment later.
            if let Some(row) = rows.by_number.remove(&number) {
                row.state.ask();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn ask(&self) {
        self.is_asked.store(true, Release);
        if let Some(waker) = self.waker().take() {
            waker.wake();
        }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who holds memory and is waited for.
#[derive(Debug)]
pub struct Holder {
    state: Arc<State>,
    number: u64,
    among: Arc<Yielding>,
}

impl Holder {
    /// It holds so many bytes now, and has moved so many since its beginning.
    pub fn note(&self, held: u64, moved: u64) {
        self.state.held.store(held, Relaxed);
        self.state.moved.store(moved, Relaxed);
    }

    /// Ready once it is asked to give way.
    pub fn poll_asked(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut waker = self.state.waker();
        if self.state.is_asked.load(Acquire) {
            return Poll::Ready(());
        }
        match &mut *waker {
            Some(known) => known.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let mut rows = self.among.lock();
        rows.by_number.remove(&self.number);
        // The memory of many holders is given back when they are gone.
        if rows.by_number.len() * 4 < rows.by_number.capacity() {
            let few = rows.by_number.len() * 2;
            rows.by_number.shrink_to(few);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_asked(holder: &Holder) -> bool {
        holder.poll_asked(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_slowest_give_way_until_there_is_enough_and_fast_ones_never() {
        let yielding = Arc::<Yielding>::default();
        let [fast, slow, slower, small] = [(); 4].map(|()| yielding.enter());
        let begin = Instant::now();
        yielding.search(1, begin);
        assert!(![&fast, &slow, &slower, &small].into_iter().any(is_asked), "nothing is measured");
        let look = |seconds| begin + Duration::from_secs(seconds);
        fast.note(30 << 20, 3 << 20);
        slow.note(30 << 20, 1000);
        slower.note(1000, 10);
        // It sends all that it holds within a second.
        small.note(300, 300);
        yielding.search(900, look(2));
        assert!(is_asked(&slower) && !is_asked(&slow));
        yielding.search(900, look(2));
        assert!(is_asked(&slow));
        yielding.search(900, look(2));
        assert!(!is_asked(&fast) && !is_asked(&small));
        // One that was fast and stops is slow.
        yielding.search(900, look(4));
        assert!(is_asked(&fast));
    }

    #[test]
    fn a_holder_that_is_gone_is_not_asked_and_one_that_is_asked_is_woken() {
        use std::{sync::atomic::AtomicUsize, task::Wake};
        #[derive(Default)]
        struct Woken(AtomicUsize);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let yielding = Arc::<Yielding>::default();
        drop(yielding.enter());
        let holder = yielding.enter();
        let woken = Arc::<Woken>::default();
        let waker = woken.clone().into();
        assert!(holder.poll_asked(&mut Context::from_waker(&waker)).is_pending());
        holder.note(10, 0);
        yielding.search(100, Instant::now() + 2 * MEASURED);
        assert_eq!(woken.0.load(Relaxed), 1);
        assert!(is_asked(&holder));
        drop(holder);
        assert!(yielding.lock().by_number.is_empty());
    }
}
