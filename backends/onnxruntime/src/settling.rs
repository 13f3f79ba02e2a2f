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

    /// Lets go of sessions, and returns once none is looked at. Then none of them is kept by the thread alone: either
    /// it began to look before they were let go of, and is waited for, or it finds them gone.
    pub(crate) fn wait_after(&self, let_go: impl FnOnce()) {
        let_go();
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
    use std::sync::mpsc;

    use super::*;

    /// Says when it is looked at, and is looked at until its owner has gone on or a time has passed.
    struct Session {
        begun: Mutex<mpsc::Sender<()>>,
        is_over: Mutex<mpsc::Receiver<()>>,
        gone: mpsc::Sender<()>,
    }

    impl Settle for Session {
        fn settle(&self) -> Settled {
            self.begun.lock().unwrap().send(()).unwrap();
            let _ = self.is_over.lock().unwrap().recv_timeout(Duration::from_millis(100));
            Settled::Kept
        }
    }

    impl Drop for Session {
        fn drop(&mut self) {
            self.gone.send(()).unwrap();
        }
    }

    #[test]
    fn a_session_that_is_looked_at_as_it_is_let_go_of_is_gone_afterwards() {
        let settling = Arc::<Settling>::default();
        let (begin, begun) = mpsc::channel();
        let (end, is_over) = mpsc::channel();
        let (gone, is_gone) = mpsc::channel();
        let (begin, is_over) = (Mutex::new(begin), Mutex::new(is_over));
        let session: Arc<dyn Settle> = Arc::new(Session { begun: begin, is_over, gone });
        settling.wait_after(|| {
            settling.ask(Arc::downgrade(&session));
            begun.recv().unwrap();
            drop(session);
        });
        end.send(()).unwrap_or_default();
        assert_eq!(is_gone.try_recv(), Ok(()));
    }

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
