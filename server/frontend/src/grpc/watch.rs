//! What a connection is doing, and when it is to be given up. Pure but for the counters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::settings::grpc::ConnectionAge;

/// What a connection's calls are doing, for whoever watches over it.
#[derive(Debug, Default)]
pub struct Activity {
    /// Bytes that the peer has sent, up to [`Activity::PREFACE`].
    read: AtomicU32,
    /// Counts how often the peer has sent something.
    heard: AtomicU32,
    /// Calls that are not answered whole.
    calls: AtomicU32,
    /// Counts the calls that were begun.
    begun: AtomicU32,
    /// Of those, the ones of which a part waits for the peer to take it.
    blocked: AtomicU32,
    /// Counts the parts that were handed over.
    moved: AtomicU32,
}

impl Activity {
    /// The length of HTTP/2's opening words.
    const PREFACE: u32 = 24;

    /// The peer has sent so many bytes. Only the connection itself says that.
    pub fn has_read(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.heard.store(self.heard.load(Relaxed).wrapping_add(1), Relaxed);
        let read = self.read.load(Relaxed);
        if read < Activity::PREFACE {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.read.store(read.saturating_add(bytes), Relaxed);
        }
    }

    /// A part waits for the peer, or does not any more.
    pub fn blocked(&self, waits: bool) {
        match waits {
            true => self.blocked.fetch_add(1, Relaxed),
            false => self.blocked.fetch_sub(1, Relaxed),
        };
    }

    /// A part was handed over.
    pub fn moved(&self) {
        self.moved.fetch_add(1, Relaxed);
    }

    fn seen(&self) -> Seen {
        Seen {
            greeted: Activity::PREFACE <= self.read.load(Relaxed),
            calls: self.calls.load(Relaxed),
            begun: self.begun.load(Relaxed),
            blocked: self.blocked.load(Relaxed),
            moved: self.moved.load(Relaxed),
            heard: self.heard.load(Relaxed),
        }
    }
}

/// A call that is being answered, until it is dropped.
#[derive(Debug)]
pub struct Call(Arc<Activity>);

impl Call {
    /// One more on this connection.
    pub fn begin(activity: Arc<Activity>) -> Call {
        activity.calls.fetch_add(1, Relaxed);
        activity.begun.fetch_add(1, Relaxed);
        Call(activity)
    }

    /// What its connection is doing.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

/// What was seen at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    greeted: bool,
    calls: u32,
    begun: u32,
    blocked: u32,
    moved: u32,
    heard: u32,
}

/// How patient a connection is.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// From the connection to the peer's opening words.
    pub greeting: Duration,
    /// Without the peer taking anything of what waits for it.
    pub stall: Duration,
    /// Without a call.
    pub idle: Duration,
    /// Without a word of the peer, until it is asked whether it still lives.
    pub silence: Duration,
    /// How long the answer to that may take.
    pub echo: Duration,
    /// How old it may become.
    pub age: Option<ConnectionAge>,
    /// How long a connection without calls is kept once it is to end: a call may be under way.
    pub last_call: Duration,
}

/// What is to be done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing. Look again then.
    Keep(Instant),
    /// Ask the peer whether it still lives. Look again then.
    Ask(Instant),
    /// Ask the peer to connect anew, finish what is there. Look again then.
    Retire(Instant),
    /// Close it.
    Drop(&'static str),
}

/// Watches over one connection.
#[derive(Debug)]
pub struct Watch {
    patience: Patience,
    born: Instant,
    retired: Option<Instant>,
    /// Since when nothing was taken that waits, and what had been seen then.
    stalled: Option<(Instant, u32)>,
    /// When a call was last seen, and how many had begun by then.
    called: (Instant, u32),
    /// When the peer was found to have spoken, and how often it had.
    heard: (Instant, u32),
    /// When the peer was asked whether it still lives, and has not answered.
    asked: Option<Instant>,
}

impl Watch {
    /// Of a connection that has just been made.
    pub fn new(patience: Patience, now: Instant) -> Watch {
        let (called, heard) = ((now, 0), (now, 0));
        Watch { patience, born: now, retired: None, stalled: None, called, heard, asked: None }
    }

    /// When to look for the first time.
    pub fn first_look(&self) -> Instant {
        let Patience { greeting, idle, silence, age, .. } = self.patience;
        let first = greeting.min(idle).min(silence);
        self.born + age.into_iter().map(|it| it.most).fold(first, Duration::min)
    }

    /// The connection has been asked to end. When to look again.
    pub fn retire(&mut self, now: Instant) -> Instant {
        self.retired.get_or_insert(now);
        now + self.patience.last_call
    }

    /// Looks at what the connection is doing.
    pub fn look(&mut self, activity: &Activity, now: Instant) -> Verdict {
        self.judge(activity.seen(), now)
    }

    fn judge(&mut self, seen: Seen, now: Instant) -> Verdict {
        match self.judge_calls(seen, now) {
            Verdict::Keep(next) => self.judge_silence(seen, now, next),
            other => other,
        }
    }

    /// Does the peer still live? `next` is when to look again for other reasons.
    fn judge_silence(&mut self, seen: Seen, now: Instant, next: Instant) -> Verdict {
        let Patience { silence, echo, .. } = self.patience;
        // Who has not said that it speaks HTTP/2 cannot be asked.
        if !seen.greeted || self.heard.1 != seen.heard {
            self.heard = (now, seen.heard);
            self.asked = None;
        }
        let due = self.heard.0 + silence;
        match self.asked {
            Some(asked) if asked + echo <= now => {
                Verdict::Drop("its peer does not answer whether it still lives")
            }
            Some(asked) => Verdict::Keep(next.min(asked + echo)),
            None if due <= now => {
                self.asked = Some(now);
                Verdict::Ask(next.min(now + echo))
            }
            None => Verdict::Keep(next.min(due)),
        }
    }

    fn judge_calls(&mut self, seen: Seen, now: Instant) -> Verdict {
        let Patience { greeting, stall, idle, age, last_call, .. } = self.patience;
        if !seen.greeted && self.born + greeting <= now {
            return Verdict::Drop("it has not said that it speaks HTTP/2");
        }
        match self.stalled.filter(|(_, moved)| 0 < seen.blocked && *moved == seen.moved) {
            Some((since, _)) if since + stall <= now => {
                return Verdict::Drop("its peer does not take what it asked for");
            }
            Some(_) => {}
            None => self.stalled = (0 < seen.blocked).then_some((now, seen.moved)),
        }
        if let Some(retired) = self.retired {
            let grace = age.and_then(|it| it.grace);
            if grace.is_some_and(|it| retired + it <= now) {
                return Verdict::Drop("the time for its last calls is over");
            }
            if seen.calls == 0 && retired + last_call <= now {
                return Verdict::Drop("it is idle, and was to end");
            }
            return Verdict::Keep(now + last_call);
        }
        if 0 < seen.calls || self.called.1 != seen.begun {
            self.called = (now, seen.begun);
        }
        let by_age = age.map(|it| self.born + it.most);
        let end = by_age.into_iter().fold(self.called.0 + idle, Instant::min);
        match end <= now {
            true => Verdict::Retire(self.retire(now)),
            false => Verdict::Keep(end.min(now + stall / 2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch(age: Option<ConnectionAge>) -> (Watch, Instant) {
        let now = Instant::now();
        let patience = Patience {
            greeting: 10 * SECOND,
            stall: 60 * SECOND,
            idle: 100_000 * SECOND,
            silence: 7200 * SECOND,
            echo: 20 * SECOND,
            age,
            last_call: SECOND,
        };
        (Watch::new(patience, now), now)
    }

    const IDLE: Seen = Seen { greeted: true, calls: 0, begun: 0, blocked: 0, moved: 0, heard: 1 };

    #[test]
    fn a_peer_that_says_nothing_is_given_up_and_an_idle_one_is_kept() {
        let (mut watch, born) = watch(None);
        assert_eq!(watch.first_look(), born + 10 * SECOND);
        let later = born + 10 * SECOND;
        let silent = Seen { greeted: false, ..IDLE };
        assert!(matches!(watch.judge(silent, later), Verdict::Drop(_)));
        assert_eq!(watch.judge(IDLE, later), Verdict::Keep(later + 30 * SECOND));
        let spoke = Seen { heard: 2, ..IDLE };
        assert!(matches!(watch.judge(spoke, born + 10_000 * SECOND), Verdict::Keep(_)));
    }

    #[test]
    fn a_connection_without_calls_is_asked_to_end_and_one_with_calls_is_not() {
        let (mut watch, born) = watch(None);
        watch.patience.idle = 75 * SECOND;
        let at = |seconds| born + seconds * SECOND;
        assert_eq!(watch.judge(IDLE, at(50)), Verdict::Keep(at(75)));
        // One that came and went between two looks.
        let called = Seen { begun: 1, heard: 2, ..IDLE };
        assert_eq!(watch.judge(called, at(60)), Verdict::Keep(at(90)));
        // One that takes its time.
        let calls = Seen { begun: 2, calls: 1, heard: 3, ..IDLE };
        assert_eq!(watch.judge(calls, at(130)), Verdict::Keep(at(160)));
        assert_eq!(watch.judge(calls, at(1000)), Verdict::Keep(at(1030)));
        // What the peer says beside calls does not count.
        let pinged = Seen { calls: 0, heard: 9, ..calls };
        assert_eq!(watch.judge(pinged, at(1060)), Verdict::Keep(at(1075)));
        assert_eq!(watch.judge(pinged, at(1075)), Verdict::Retire(at(1076)));
        assert!(matches!(watch.judge(pinged, at(1076)), Verdict::Drop(_)));
    }

    #[test]
    fn a_peer_that_is_silent_is_asked_and_given_up_when_it_does_not_answer() {
        let (mut watch, born) = watch(None);
        assert!(matches!(watch.judge(IDLE, born), Verdict::Keep(_)));
        let late = born + 7200 * SECOND;
        assert_eq!(watch.judge(IDLE, late - SECOND), Verdict::Keep(late));
        assert_eq!(watch.judge(IDLE, late), Verdict::Ask(late + 20 * SECOND));
        assert_eq!(watch.judge(IDLE, late + SECOND), Verdict::Keep(late + 20 * SECOND));
        let answered = Seen { heard: 2, ..IDLE };
        assert!(matches!(watch.judge(answered, late + 20 * SECOND), Verdict::Keep(_)));
        let later = late + 7220 * SECOND;
        assert!(matches!(watch.judge(answered, later), Verdict::Ask(_)));
        assert!(matches!(watch.judge(answered, later + 20 * SECOND), Verdict::Drop(_)));
    }

    #[test]
    fn a_peer_that_takes_nothing_for_too_long_is_given_up() {
        let (mut watch, born) = watch(None);
        let busy = |moved| Seen { calls: 1, blocked: 1, moved, ..IDLE };
        assert!(matches!(watch.judge(busy(1), born + 10 * SECOND), Verdict::Keep(_)));
        assert!(matches!(watch.judge(busy(2), born + 40 * SECOND), Verdict::Keep(_)));
        assert!(matches!(watch.judge(busy(2), born + 99 * SECOND), Verdict::Keep(_)));
        assert!(matches!(watch.judge(busy(2), born + 100 * SECOND), Verdict::Drop(_)));
    }

    #[test]
    fn an_old_connection_is_retired_and_its_calls_have_their_grace() {
        let age = ConnectionAge { most: 5 * SECOND, grace: Some(7 * SECOND) };
        let (mut watch, born) = watch(Some(age));
        assert_eq!(watch.first_look(), born + 5 * SECOND);
        let old = born + 5 * SECOND;
        let busy = Seen { calls: 1, ..IDLE };
        assert_eq!(watch.judge(busy, old), Verdict::Retire(old + SECOND));
        assert_eq!(watch.judge(busy, old + SECOND), Verdict::Keep(old + 2 * SECOND));
        assert!(matches!(watch.judge(busy, old + 7 * SECOND), Verdict::Drop(_)));
        assert!(matches!(watch.judge(IDLE, old + SECOND), Verdict::Drop(_)));
    }
}
