//! A thread that has arenas give back what they may not keep, for whoever drops an output and may not wait: a shrink is
//! a run, and outputs are dropped by threads that talk to clients.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::Duration,
};

use backend::MODEL_STACK;

/// The shortest time between two looks at the same session.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest: it is doubled up to this where looks are in vain, as outputs lie in what arenas hold.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The thread ends where there has been nothing to do for so long.
const IDLE: Duration = Duration::from_secs(10);

/// What holds memory for later runs.
pub(crate) trait Settle: Send + Sync {
    /// Has it give back what it may not keep. Takes some microseconds where there is nothing to give back.
    fn settle(&self) -> Settled;
}

/// What came of looking at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It holds no more than it may keep, or somebody else looks at it.
    Kept,
    /// It holds no more than that now.
    GaveBack,
    /// It still does: outputs lie in what it holds.
    InVain,
}

/// Sessions that are to be looked at, and the thread that does it.
#[derive(Default)]
pub(crate) struct Settling {
    state: Mutex<State>,
    /// Something is to be done.
    changed: Condvar,
    /// Held while sessions are looked at.
    busy: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Each once.
    waiting: Vec<Weak<dyn Settle>>,
    has_thread: bool,
}

impl Settling {
    /// An output of that session is gone. Does not wait.
    pub(crate) fn ask(self: &Arc<Settling>, session: Weak<dyn Settle>) {
        let mut state = self.lock();
        if state.waiting.iter().any(|it| it.ptr_eq(&session)) {
            return;
        }
        state.waiting.push(session);
        if state.has_thread {
            return self.changed.notify_one();
        }
        let settling = self.clone();
        let builder = thread::Builder::new().name("arenas".to_owned()).stack_size(MODEL_STACK);
        // Without a thread the next long run looks at its arena itself.
        state.has_thread = builder.spawn(move || settling.run()).is_ok();
    }

    /// Returns once no session is looked at. One that is ended a moment before it would be looked at is left alone.
    pub(crate) fn wait(&self) {
        drop(self.busy.lock());
    }

    fn run(&self) {
        let mut pause = PAUSE;
        while let Some(sessions) = self.next() {
            let settled: Vec<Settled> = sessions
                .iter()
                .filter_map(|it| {
                    let _busy = self.busy.lock();
                    it.upgrade().map(|it| it.settle())
                })
                .collect();
            pause = next_pause(pause, &settled);
            thread::sleep(pause);
        }
    }

    /// The sessions to look at; `None` where there have been none for long, which is the end of the thread.
    fn next(&self) -> Option<Vec<Weak<dyn Settle>>> {
        let is_idle = |it: &mut State| it.waiting.is_empty();
        let waited = self.changed.wait_timeout_while(self.lock(), IDLE, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.waiting.is_empty() {
            state.has_thread = false;
            return None;
        }
        Some(std::mem::take(&mut state.waiting))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait after a pause of that length and looks with these outcomes.
fn next_pause(last: Duration, settled: &[Settled]) -> Duration {
    match settled.contains(&Settled::InVain) {
        true => (2 * last).min(LONGEST_PAUSE),
        false => PAUSE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_while_they_are_in_vain() {
        let pauses = (0..6).scan(PAUSE, |pause, _| {
            *pause = next_pause(*pause, &[Settled::Kept, Settled::InVain]);
            Some(pause.as_millis())
        });
        assert_eq!(pauses.collect::<Vec<_>>(), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(next_pause(LONGEST_PAUSE, &[Settled::GaveBack, Settled::Kept]), PAUSE);
    }
}
