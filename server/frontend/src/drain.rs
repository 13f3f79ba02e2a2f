//! The way from serving to stopped, as everything that serves sees it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use crate::seldom::seldom;

/// How far the server is with its stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Everything is served.
    Serving,
    /// A signal came: the server is not ready any more, but still serves until load balancers have noticed.
    Leaving,
    /// Nothing new is accepted; what is in flight is finished.
    Closing,
}

/// Says how far the stop is, and counts the work that is not finished.
#[derive(Debug, Clone)]
pub struct Drain {
    stage: watch::Sender<Stage>,
    /// Is the stage the first one? Every request reads this, because a read of `stage` takes a lock.
    serving: Arc<AtomicBool>,
}

impl Default for Drain {
    fn default() -> Drain {
        let serving = Arc::new(AtomicBool::new(true));
        Drain { stage: watch::Sender::new(Stage::Serving), serving }
    }
}

impl Drain {
    /// How far the stop is.
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// Has the stop not begun?
    pub fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed)
    }

    /// Goes on to a later stage; never back.
    pub fn advance(&self, to: Stage) {
        self.serving.fetch_and(to == Stage::Serving, Ordering::Release);
        self.stage.send_if_modified(|stage| {
            let later = *stage < to;
            *stage = to.max(*stage);
            later
        });
    }

    /// Something that must be finished before the server stops. It counts for as long as the guard lives.
    pub fn guard(&self) -> Guard {
        Guard { stage: self.stage.subscribe(), serving: self.serving.clone() }
    }

    /// Waits until every [`Guard`] is gone. False when some were left after `patience`.
    pub async fn finished(&self, patience: Duration) -> bool {
        tokio::time::timeout(patience, self.stage.closed()).await.is_ok()
    }

    /// Guards that are alive.
    pub fn busy(&self) -> usize {
        self.stage.receiver_count()
    }
}

/// Keeps the server from stopping, and learns when the server closes.
#[derive(Debug)]
pub struct Guard {
    stage: watch::Receiver<Stage>,
    /// That of the drain.
    serving: Arc<AtomicBool>,
}

impl Guard {
    /// Returns when the server is closing.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn closing(&mut self) {
        let has_begun = || !self.serving.load(Ordering::Acquire);
        // An error means that the sender of the stages is gone, and the server with it.
        let _ = seldom(has_begun, self.stage.wait_for(|it| *it == Stage::Closing)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stages_only_go_forward_and_guards_hear_of_the_last() {
        let drain = Drain::default();
        let mut guard = drain.guard();
        assert!(drain.is_serving());
        drain.advance(Stage::Closing);
        drain.advance(Stage::Leaving);
        assert_eq!(drain.stage(), Stage::Closing);
        assert!(!drain.is_serving());
        guard.closing().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_drain_is_finished_when_the_last_guard_is_gone() {
        let drain = Drain::default();
        let guard = drain.guard();
        assert!(!drain.finished(Duration::from_secs(1)).await);
        drop(guard);
        assert!(drain.finished(Duration::from_secs(1)).await);
    }
}
