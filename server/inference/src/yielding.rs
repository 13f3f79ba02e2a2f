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

/// One that was asked is spared where nobody has been in need for so long when it looks, in milliseconds: about as long
/// as a refused client waits before it asks again.
const SPARED: u64 = 1000;

/// Those who hold memory and are waited for.
#[derive(Debug)]
pub struct Yielding {
    epoch: Instant,
    /// Milliseconds from then to the last search.
    searched: AtomicU64,
    /// The same to the last time that somebody was in need.
    pressed: AtomicU64,
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
        let (searched, pressed) = Default::default();
        Yielding { epoch: Instant::now(), searched, pressed, rows: Mutex::default() }
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

    /// How many there are.
    pub fn holders(&self) -> usize {
        self.lock().by_number.len()
    }

    /// Asks the slowest holders to give way, until they hold `wanted` bytes together. They do so a moment later. Looks
    /// seldom, however often it is called.
    pub fn press(&self, wanted: usize) {
        self.press_at(wanted, Instant::now());
    }

    fn press_at(&self, wanted: usize, now: Instant) {
        let millis = self.millis(now);
        self.pressed.fetch_max(millis, Relaxed);
        let last = self.searched.load(Relaxed);
        let is_early = millis < last.saturating_add(PAUSE) && last != 0;
        // One that comes too early moves nothing: else those who press without pause would keep all from looking.
        if is_early {
            return;
        }
        if self.searched.compare_exchange(last, millis.max(1), Relaxed, Relaxed).is_ok() {
            self.search(wanted as u64, now);
        }
    }

    /// Milliseconds from the epoch to that time.
    fn millis(&self, time: Instant) -> u64 {
        let passed = time.saturating_duration_since(self.epoch);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Is nobody in need any more?
    fn is_over(&self, now: Instant) -> bool {
        self.pressed.load(Relaxed).saturating_add(SPARED) < self.millis(now)
    }

    fn search(&self, wanted: u64, now: Instant) {
        let mut rows = self.lock();
        let mut slow: Vec<_> = rows
            .by_number
            .iter_mut()
            // One that is asked gives way a moment later: it counts once.
            .filter(|(_, row)| !row.state.is_asked.load(Relaxed))
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
            if let Some(row) = rows.by_number.get(&number) {
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

    /// Ready once it is asked to give way, unless nobody is in need any more by the time that it looks.
    pub fn poll_asked(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_asked_at(Instant::now(), context)
    }

    fn poll_asked_at(&self, now: Instant, context: &mut Context<'_>) -> Poll<()> {
        let mut waker = self.state.waker();
        if self.state.is_asked.load(Acquire) {
            if !self.among.is_over(now) {
                return Poll::Ready(());
            }
            self.state.is_asked.store(false, Release);
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
        is_asked_at(holder, holder.among.epoch)
    }

    fn is_asked_at(holder: &Holder, now: Instant) -> bool {
        holder.poll_asked_at(now, &mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_slowest_give_way_until_there_is_enough_and_fast_ones_never() {
        let yielding = Arc::<Yielding>::default();
        let [fast, slow, slower, small] = [(); 4].map(|()| yielding.enter());
        let begin = Instant::now();
        yielding.press_at(1, begin);
        assert!(![&fast, &slow, &slower, &small].into_iter().any(is_asked), "nothing is measured");
        let look = |millis| begin + Duration::from_millis(millis);
        fast.note(30 << 20, 3 << 20);
        slow.note(30 << 20, 1000);
        slower.note(1000, 10);
        // It sends all that it holds within a second.
        small.note(300, 300);
        yielding.press_at(900, look(2000));
        assert!(is_asked(&slower) && !is_asked(&slow));
        yielding.press_at(900, look(2001));
        assert!(!is_asked(&slow), "it looks seldom");
        yielding.press_at(900, look(2100));
        assert!(is_asked(&slow));
        yielding.press_at(900, look(2200));
        assert!(!is_asked(&fast) && !is_asked(&small));
        // One that was fast and stops is slow.
        yielding.press_at(900, look(4000));
        assert!(is_asked(&fast));
    }

    #[test]
    fn one_that_was_asked_is_spared_where_nobody_is_in_need_when_it_looks() {
        let yielding = Arc::<Yielding>::default();
        let holder = yielding.enter();
        holder.note(1 << 20, 0);
        let after = |millis| yielding.epoch + Duration::from_millis(millis);
        let is_asked_at = |millis| is_asked_at(&holder, after(millis));
        yielding.press_at(1, after(5000));
        assert!(is_asked_at(5001) && is_asked_at(5000 + SPARED));
        assert!(!is_asked_at(5001 + SPARED), "the need is over");
        assert!(!is_asked_at(5001), "it was not asked again");
        yielding.press_at(1, after(20_000));
        assert!(is_asked_at(20_001), "it is one of them as before");
    }

    #[test]
    fn those_who_press_without_a_pause_are_heard() {
        let yielding = Arc::<Yielding>::default();
        let holder = yielding.enter();
        let begin = yielding.epoch + Duration::from_secs(5);
        // It is fast at the first look, and stops then.
        holder.note(1 << 20, 100 << 20);
        yielding.press_at(1, begin);
        assert!(!is_asked_at(&holder, begin));
        let step = Duration::from_millis(PAUSE / 4);
        (1..400).for_each(|it| yielding.press_at(1, begin + it * step));
        assert!(is_asked_at(&holder, begin + 400 * step));
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
        yielding.press_at(100, Instant::now() + 2 * MEASURED);
        assert_eq!(woken.0.load(Relaxed), 1);
        assert!(is_asked(&holder));
        drop(holder);
        assert!(yielding.lock().by_number.is_empty());
    }
}
