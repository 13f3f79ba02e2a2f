//! A way to ask a running batch to end.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

type Hook = Box<dyn FnOnce() + Send>;

/// Something that happens once, and what is called then.
#[derive(Default)]
struct Event {
    has_happened: AtomicBool,
    /// Guards the hook that an engine left, and is held while it is called: whoever clears it knows that it is over.
    hook: Mutex<Option<Hook>>,
}

impl Event {
    fn happens(&self) {
        self.has_happened.store(true, Ordering::SeqCst);
        let mut slot = self.slot();
        if let Some(hook) = slot.take() {
            hook();
        }
    }

    fn has_happened(&self) -> bool {
        self.has_happened.load(Ordering::SeqCst)
    }

    /// Calls `hook` once when it happens; at once if it has. A later hook takes the place of an earlier one.
    fn call(&self, hook: Hook) {
        let mut slot = self.slot();
        if self.has_happened() {
            drop(slot);
            hook();
        } else {
            *slot = Some(hook);
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Hook>> {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the hook. One that is being called is waited for.
    fn clear(&self) {
        let hook = self.slot().take();
        // Not under the lock: what it holds may be the last of its kind.
        drop(hook);
    }
}

/// A request to stop one execution. The engine reads it or registers a hook; the scheduler makes the request.
#[derive(Default)]
pub struct Stop {
    stopped: Event,
    given_up: Event,
    /// Guards when the run is to end.
    ends: Mutex<Ends>,
}

/// When a run is to end.
#[derive(Clone, Copy, Default)]
struct Ends {
    /// The moment from which the outcome is of no use.
    by: Option<Instant>,
    /// The moment by which the run has had its time, unless it has waited.
    limit: Option<Instant>,
    /// How long it has waited for what it runs in.
    waited: Duration,
    /// Since when it waits for that.
    waits_since: Option<Instant>,
}

impl Ends {
    fn waited(&self, now: Instant) -> Duration {
        let since = self.waits_since;
        self.waited + since.map_or(Duration::ZERO, |it| now.saturating_duration_since(it))
    }
}

/// A run waits for what it is to run in, until this is dropped.
pub struct Waiting<'a> {
    stop: &'a Stop,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut ends = self.stop.ends();
        ends.waited = ends.waited(Instant::now());
        ends.waits_since = None;
    }
}

impl Stop {
    /// A stop that is not requested.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks the batch to end. Idempotent; returns at once.
    pub fn stop(&self) {
        self.stopped.happens();
    }

    /// Is the stop requested?
    pub fn is_stopped(&self) -> bool {
        self.stopped.has_happened()
    }

    /// The run that was asked to end has not, and is waited for no more: what else is there to end it may be used.
    /// Idempotent; returns at once.
    pub fn give_up(&self) {
        self.given_up.happens();
    }

    /// Is the run waited for no more?
    pub fn is_given_up(&self) -> bool {
        self.given_up.has_happened()
    }

    /// The outcome of the run that begins is of no use after that moment; `None`: it always is of use. For engines that
    /// cannot be stopped in between, and can end a run by themselves.
    pub fn end_by(&self, at: Option<Instant>) {
        self.ends().by = at;
    }

    /// The run has time until that moment, and beyond it as long as it waits for what it runs in; `None`: it has all
    /// time.
    pub fn limit_to(&self, at: Option<Instant>) {
        self.ends().limit = at;
    }

    /// The moment from which the outcome is of no use, or the run has had its time.
    pub fn ends_by(&self) -> Option<Instant> {
        let ends = *self.ends();
        let limit = ends.limit.and_then(|it| it.checked_add(ends.waited(Instant::now())));
        ends.by.into_iter().chain(limit).min()
    }

    /// The run waits for what it is to run in, as a process that starts, until what is returned is dropped. That time
    /// is not the run's.
    pub fn wait(&self) -> Waiting<'_> {
        self.ends().waits_since = Some(Instant::now());
        Waiting { stop: self }
    }

    /// Does the run wait for that now?
    pub fn is_waiting(&self) -> bool {
        self.ends().waits_since.is_some()
    }

    /// How long the run has waited for what it runs in, by that moment.
    pub fn waited(&self, now: Instant) -> Duration {
        self.ends().waited(now)
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is the outcome of no use any more, as the stop is requested or that moment has passed?
    pub fn is_over(&self) -> bool {
        self.is_stopped() || self.ends_by().is_some_and(|it| it <= Instant::now())
    }

    /// Calls `hook` once when somebody asks; at once if that has happened already. A later hook takes the place of an
    /// earlier one. It may not use this stop, nor wait for what somebody holds who clears hooks: that waits for it.
    pub fn on_stop(&self, hook: impl FnOnce() + Send + 'static) {
        self.stopped.call(Box::new(hook));
    }

    /// The same, when the run is given up.
    pub fn on_give_up(&self, hook: impl FnOnce() + Send + 'static) {
        self.given_up.call(Box::new(hook));
    }

    /// Forgets the hooks: the run that they would have ended is over. Blocking while one of them is called: none is
    /// afterwards.
    pub fn clear_hook(&self) {
        self.stopped.clear();
        self.given_up.clear();
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop").field("stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, atomic::AtomicUsize, mpsc};

    #[test]
    fn a_hook_runs_once_whether_it_comes_before_or_after_the_stop() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = |calls: &Arc<AtomicUsize>| {
            let calls = calls.clone();
            move || {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        let stop = Stop::new();
        stop.on_stop(count(&calls));
        assert!(!stop.is_stopped());
        stop.stop();
        stop.stop();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        stop.on_stop(count(&calls));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        stop.on_give_up(count(&calls));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        stop.give_up();
        stop.give_up();
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn a_cleared_hook_is_not_called() {
        let stop = Stop::new();
        stop.on_stop(|| panic!("the run is over"));
        stop.on_give_up(|| panic!("the run is over"));
        stop.clear_hook();
        stop.stop();
        stop.give_up();
    }

    #[test]
    fn a_hook_that_is_called_while_hooks_are_cleared_is_over_afterwards() {
        let stop = Arc::new(Stop::new());
        let ((begins, begun), (clears, cleared)) = (mpsc::channel(), mpsc::channel());
        let (tells, told) = mpsc::channel();
        stop.on_stop(move || {
            begins.send(()).unwrap();
            let is_cleared = cleared.recv_timeout(Duration::from_millis(50)).is_ok();
            tells.send(is_cleared).unwrap();
        });
        let stopping = std::thread::spawn({
            let stop = stop.clone();
            move || stop.stop()
        });
        begun.recv().unwrap();
        stop.clear_hook();
        let _ = clears.send(());
        assert!(!told.recv().unwrap(), "it was cleared while it was called");
        stopping.join().unwrap();
    }

    #[test]
    fn a_run_is_over_once_it_is_stopped_or_its_moment_has_passed() {
        let (stopped, late, early) = (Stop::new(), Stop::new(), Stop::new());
        stopped.stop();
        late.end_by(Some(Instant::now()));
        early.end_by(Instant::now().checked_add(std::time::Duration::from_secs(3600)));
        let over = [&stopped, &late, &early, &Stop::new()].map(Stop::is_over);
        assert_eq!(over, [true, true, false, false]);
    }

    #[test]
    fn the_time_of_a_run_is_longer_by_what_it_has_waited_and_its_deadline_is_not() {
        let (stop, now) = (Stop::new(), Instant::now());
        let later = |seconds| now.checked_add(Duration::from_secs(seconds));
        stop.limit_to(later(10));
        assert_eq!((stop.ends_by(), stop.waited(now)), (later(10), Duration::ZERO));
        let waiting = stop.wait();
        let hour = Duration::from_secs(3600);
        assert!(hour <= stop.waited(now + 2 * hour), "while it waits");
        drop(waiting);
        let waited = stop.waited(now);
        assert_eq!(stop.waited(now + hour), waited, "it waits no more");
        assert!(Duration::ZERO < waited);
        assert_eq!(stop.ends_by(), later(10).map(|it| it + waited));
        stop.end_by(later(10));
        assert_eq!(stop.ends_by(), later(10));
    }
}
