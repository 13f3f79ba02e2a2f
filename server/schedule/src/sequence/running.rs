//! A run of sequences on an instance that has not ended, and when it is to be ended. Plain data.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend::Stop;

use crate::{ratelimit::ResourcePermit, reply::Reply, running::GRACE};

/// A run on an instance.
pub(super) struct Running {
    pub(super) stop: Arc<Stop>,
    pub(super) started: Instant,
    /// Where the answers go; none once it was given up.
    pub(super) replies: Vec<Reply>,
    /// When it was asked to end, and the time that it had had.
    pub(super) asked: Option<(Instant, Duration)>,
    pub(super) is_abandoned: bool,
    /// What it has of resources: free again when it ends, and when it is given up.
    permit: Option<ResourcePermit>,
}

/// What is to be done about a run.
pub(super) enum Step {
    None,
    /// It is to be stopped.
    Stop(Arc<Stop>),
    /// It was, and goes on: these are to be told so, with the time that it had.
    Abandon(Arc<Stop>, Vec<Reply>, Duration),
    /// They were.
    IsAbandoned,
}

impl Running {
    /// A run that begins now.
    pub(super) fn new(
        replies: Vec<Reply>,
        permit: Option<ResourcePermit>,
        now: Instant,
    ) -> Running {
        let stop = Arc::new(Stop::new());
        Running { stop, started: now, replies, asked: None, is_abandoned: false, permit }
    }

    /// How long it has lasted by now, without what it has waited for a process to run in.
    fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started).saturating_sub(self.stop.waited(now))
    }

    /// It has ended: the time that it had, where it was asked to end. One that `failed` after its limit has ended
    /// itself, though it may not have been asked yet.
    pub(super) fn overdue(
        &self,
        failed: bool,
        now: Instant,
        limit: Option<Duration>,
    ) -> Option<Duration> {
        let took = self.lasted(now);
        let outlasted = limit.filter(|it| failed && *it <= took);
        self.asked.map(|(_, limit)| limit).or(outlasted)
    }

    /// What is to be done about it now. Each step comes once but the last.
    pub(super) fn next(&mut self, now: Instant, limit: Option<Duration>) -> Step {
        match (self.is_abandoned, self.asked, limit) {
            (true, ..) => Step::IsAbandoned,
            (false, None, Some(limit)) if limit <= self.lasted(now) => {
                self.asked = Some((now, limit));
                Step::Stop(self.stop.clone())
            }
            (false, Some((asked, limit)), _)
                if GRACE.min(limit) <= now.saturating_duration_since(asked) =>
            {
                self.permit = None;
                self.is_abandoned = true;
                Step::Abandon(self.stop.clone(), std::mem::take(&mut self.replies), limit)
            }
            _ => Step::None,
        }
    }

    /// When the next step is due. `None` where none is.
    pub(super) fn next_due(&self, now: Instant, limit: Option<Duration>) -> Option<Instant> {
        match self.asked {
            Some(_) if self.is_abandoned => None,
            Some((asked, limit)) => asked.checked_add(GRACE.min(limit)),
            None => self.started.checked_add(limit?)?.checked_add(self.stop.waited(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_stopped_then_given_up() {
        let (now, limit) = (Instant::now(), Duration::from_secs(9));
        let mut run = Running::new(vec![Reply::none()], None, now);
        assert!(matches!(run.next(now + limit * 9, None), Step::None));
        assert!(matches!(run.next(now + limit / 2, Some(limit)), Step::None));
        assert_eq!(run.next_due(now, Some(limit)), Some(now + limit));
        assert!(matches!(run.next(now + limit, Some(limit)), Step::Stop(_)));
        assert!(matches!(run.next(now + limit, Some(limit)), Step::None));
        let later = now + limit + GRACE;
        assert_eq!(run.next_due(now, Some(limit)), Some(later));
        assert!(matches!(run.next(later, Some(limit)), Step::Abandon(_, of, _) if of.len() == 1));
        assert_eq!(run.next_due(later, Some(limit)), None);
        assert!(matches!(run.next(later, Some(limit)), Step::IsAbandoned));
    }

    #[test]
    fn a_run_that_waits_for_a_process_to_run_in_is_not_stopped_for_that() {
        let (now, limit) = (Instant::now(), Duration::from_secs(9));
        let mut run = Running::new(vec![Reply::none()], None, now);
        let (stop, later) = (run.stop.clone(), now + limit * 9);
        let waiting = stop.wait();
        assert!(matches!(run.next(later, Some(limit)), Step::None));
        assert_eq!(run.overdue(true, later, Some(limit)), None);
        drop(waiting);
        assert!(matches!(run.next(later, Some(limit)), Step::Stop(_)));
    }

    #[test]
    fn a_run_that_has_ended_itself_before_it_was_asked_is_overdue_all_the_same() {
        let (now, limit) = (Instant::now(), Duration::from_secs(9));
        let mut run = Running::new(Vec::new(), None, now);
        assert_eq!(run.overdue(true, now + limit, Some(limit)), Some(limit));
        assert_eq!(run.overdue(true, now + limit / 2, Some(limit)), None);
        assert_eq!(run.overdue(false, now + limit, Some(limit)), None);
        run.next(now + limit, Some(limit));
        assert_eq!(run.overdue(false, now + limit, None), Some(limit));
    }
}
