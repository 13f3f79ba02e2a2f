//! A run of sequences on an instance that has not ended, and when it is to be ended. Plain data.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::Stop;

use crate::{reply::Reply, running::GRACE};

/// A run on an instance.
pub(super) struct Running {
    pub(super) stop: Arc<Stop>,
    pub(super) started: Instant,
    /// Where the answers go; none once it was given up.
    pub(super) replies: Vec<Reply>,
    /// When it was asked to end, and the time that it had had.
    pub(super) asked: Option<(Instant, Duration)>,
    pub(super) is_abandoned: bool,
}

/// What is to be done about a run.
pub(super) enum Step {
    None,
    /// It is to be stopped.
    Stop(Arc<Stop>),
    /// It was, and goes on: these are to be told so, with the time that it had.
    Abandon(Vec<Reply>, Duration),
    /// They were.
    IsAbandoned,
}

impl Running {
    /// A run that begins now.
    pub(super) fn new(replies: Vec<Reply>, now: Instant) -> Running {
        let stop = Arc::new(Stop::new());
        Running { stop, started: now, replies, asked: None, is_abandoned: false }
    }

    /// What is to be done about it now. Each step comes once but the last.
    pub(super) fn next(&mut self, now: Instant, limit: Option<Duration>) -> Step {
        match (self.is_abandoned, self.asked, limit) {
            (true, ..) => Step::IsAbandoned,
            (false, None, Some(limit)) if limit <= now.saturating_duration_since(self.started) => {
                self.asked = Some((now, limit));
                Step::Stop(self.stop.clone())
            }
            (false, Some((asked, limit)), _)
                if GRACE.min(limit) <= now.saturating_duration_since(asked) =>
            {
                self.is_abandoned = true;
                Step::Abandon(std::mem::take(&mut self.replies), limit)
            }
            _ => Step::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_stopped_then_given_up() {
        let (now, limit) = (Instant::now(), Duration::from_secs(9));
        let mut run = Running::new(vec![Reply::none()], now);
        assert!(matches!(run.next(now + limit * 9, None), Step::None));
        assert!(matches!(run.next(now + limit / 2, Some(limit)), Step::None));
        assert!(matches!(run.next(now + limit, Some(limit)), Step::Stop(_)));
        assert!(matches!(run.next(now + limit, Some(limit)), Step::None));
        let later = now + limit + GRACE;
        assert!(matches!(run.next(later, Some(limit)), Step::Abandon(of, _) if of.len() == 1));
        assert!(matches!(run.next(later, Some(limit)), Step::IsAbandoned));
    }
}
