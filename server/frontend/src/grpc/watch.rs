//! What a connection is doing, and the decision when to close it. Pure but for the counters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{
    net::{footprint::ConnectionBytes, places::Seat},
    settings::{
        grpc::{ConnectionAge, Keepalive},
        limits::Timeouts,
    },
};

/// What a connection's calls are doing, as counters that its watch reads.
#[derive(Debug)]
pub struct Activity {
    /// Bytes that the peer has sent, up to [`Activity::PREFACE`].
    read: AtomicU32,
    /// Counts the reads that brought bytes from the peer.
    heard: AtomicU32,
    /// Calls that are not answered completely.
    calls: AtomicU32,
    /// Counts the calls that have begun.
    begun: AtomicU32,
    /// Calls of which a part waits for the peer to take it.
    blocked: AtomicU32,
    /// Counts the parts of replies that h2 was given.
    moved: AtomicU32,
    /// Has the peer much to send?
    much: AtomicBool,
    /// Longest time in which the peer takes nothing of one reply.
    stall: Duration,
    /// The place of the connection among all, which must know whether a call is in flight.
    seat: Arc<Seat>,
}

impl Activity {
    /// Counters of a connection on which a reply may wait so long for its peer.
    pub fn new(stall: Duration, seat: Arc<Seat>) -> Activity {
        Activity {
            read: AtomicU32::default(),
            heard: AtomicU32::default(),
            calls: AtomicU32::default(),
            begun: AtomicU32::default(),
            blocked: AtomicU32::default(),
            moved: AtomicU32::default(),
            much: AtomicBool::default(),
            stall,
            seat,
        }
    }

    /// Longest time in which the peer takes nothing of one reply.
    pub fn stall(&self) -> Duration {
        self.stall
    }

    /// A peer that sends so many bytes at once has more of them.
    const MUCH: usize = 4 << 10;

    /// Bytes of HTTP/2's connection preface.
    const PREFACE: u32 = 24;

    /// The peer has sent that many bytes. Only the connection itself calls this.
    pub fn has_read(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.heard.store(self.heard.load(Relaxed).wrapping_add(1), Relaxed);
        if Activity::MUCH <= bytes {
            self.much.store(true, Relaxed);
        }
        let read = self.read.load(Relaxed);
        if read < Activity::PREFACE {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.read.store(read.saturating_add(bytes), Relaxed);
        }
    }

    /// Calls that are not answered completely.
    pub fn calls(&self) -> usize {
        self.calls.load(Relaxed) as usize
    }

    /// Has the peer much to send?
    pub fn has_much(&self) -> bool {
        self.much.load(Relaxed)
    }

    /// The same, and until it is said again the peer has not.
    pub fn forget_much(&self) -> bool {
        self.much.swap(false, Relaxed)
    }

    /// A part begins to wait for the peer, or ends waiting.
    pub fn blocked(&self, waits: bool) {
        match waits {
            true => self.blocked.fetch_add(1, Relaxed),
            false => self.blocked.fetch_sub(1, Relaxed),
        };
    }

    /// h2 was given a part of a reply.
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

/// A call that is being answered; it counts until it is dropped.
#[derive(Debug)]
pub struct Call {
    activity: Arc<Activity>,
    /// The memory of its metadata beyond the usual.
    room: Option<ConnectionBytes>,
}

impl Call {
    /// Counts one more call on this connection.
    pub fn begin(activity: Arc<Activity>) -> Call {
        if activity.calls.fetch_add(1, Relaxed) == 0 {
            activity.seat.busy();
        }
        activity.begun.fetch_add(1, Relaxed);
        Call { activity, room: None }
    }

    /// Holds that memory as long as it lives.
    pub fn hold(&mut self, room: Option<ConnectionBytes>) {
        self.room = room;
    }

    /// The counters of its connection.
    pub fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.activity.calls.fetch_sub(1, Relaxed) == 1 {
            self.activity.seat.idle();
        }
    }
}

/// A snapshot of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    greeted: bool,
    calls: u32,
    begun: u32,
    blocked: u32,
    moved: u32,
    heard: u32,
}

/// The times after which a connection is pinged, retired or closed.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How slow the peer may be.
    pub timeouts: Timeouts,
    /// When a silent peer is pinged, and how long its answer may take.
    pub keepalive: Keepalive,
    /// The age at which a connection is retired.
    pub age: Option<ConnectionAge>,
    /// How long a retired connection without calls is kept, because a call may be under way.
    pub last_call: Duration,
}

/// What is to be done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Do nothing. Look again at that time.
    Keep(Instant),
    /// Ask the peer whether it still lives. Look again at that time.
    Ask(Instant),
    /// Ask the peer to connect anew, and finish the calls in flight. Look again at that time.
    Retire(Instant),
    /// Close it, for this reason.
    Drop(&'static str),
}

/// Watches over one connection.
#[derive(Debug)]
pub struct Watch {
    bounds: Bounds,
    born: Instant,
    retired: Option<Instant>,
    /// When a part that waits for the peer was last seen to move, and the count of parts at that time.
    stalled: Option<(Instant, u32)>,
    /// When a call was last seen, and the count of calls at that time.
    called: (Instant, u32),
    /// When bytes from the peer were last seen, and the count of reads at that time.
    heard: (Instant, u32),
    /// When a ping was sent that the peer has not answered.
    pinged: Option<Instant>,
}

impl Watch {
    /// The watch of a connection that was accepted at `now`.
    pub fn new(bounds: Bounds, now: Instant) -> Watch {
        let (called, heard) = ((now, 0), (now, 0));
        Watch { bounds, born: now, retired: None, stalled: None, called, heard, pinged: None }
    }

    /// When to look for the first time.
    pub fn first_look(&self) -> Instant {
        let Bounds { timeouts, keepalive, age, .. } = self.bounds;
        let first = timeouts.head.min(timeouts.idle).min(keepalive.time);
        self.born + age.into_iter().map(|it| it.most).fold(first, Duration::min)
    }

    /// The connection has been asked to end. Returns when to look again.
    pub fn retire(&mut self, now: Instant) -> Instant {
        self.retired.get_or_insert(now);
        now + self.bounds.last_call
    }

    /// Decides from a snapshot of the counters.
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
        let Keepalive { time, timeout } = self.bounds.keepalive;
        // Before its preface a peer cannot be pinged: the limit on that time is `head`.
        if !seen.greeted || self.heard.1 != seen.heard {
            self.heard = (now, seen.heard);
            self.pinged = None;
        }
        let due = self.heard.0 + time;
        match self.pinged {
            Some(pinged) if pinged + timeout <= now => {
                Verdict::Drop("its peer does not answer whether it still lives")
            }
            Some(pinged) => Verdict::Keep(next.min(pinged + timeout)),
            None if due <= now => {
                self.pinged = Some(now);
                Verdict::Ask(next.min(now + timeout))
            }
            None => Verdict::Keep(next.min(due)),
        }
    }

    fn judge_calls(&mut self, seen: Seen, now: Instant) -> Verdict {
        let Bounds { timeouts: Timeouts { idle, head, stall }, age, last_call, .. } = self.bounds;
        if !seen.greeted && self.born + head <= now {
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
        let bounds = Bounds {
            timeouts: Timeouts { idle: 100_000 * SECOND, head: 10 * SECOND, stall: 60 * SECOND },
            keepalive: Keepalive { time: 7200 * SECOND, timeout: 20 * SECOND },
            age,
            last_call: SECOND,
        };
        (Watch::new(bounds, now), now)
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
        watch.bounds.timeouts.idle = 75 * SECOND;
        let at = |seconds| born + seconds * SECOND;
        assert_eq!(watch.judge(IDLE, at(50)), Verdict::Keep(at(75)));
        // A call that began and ended between two looks.
        let called = Seen { begun: 1, heard: 2, ..IDLE };
        assert_eq!(watch.judge(called, at(60)), Verdict::Keep(at(90)));
        // A call that takes long.
        let calls = Seen { begun: 2, calls: 1, heard: 3, ..IDLE };
        assert_eq!(watch.judge(calls, at(130)), Verdict::Keep(at(160)));
        assert_eq!(watch.judge(calls, at(1000)), Verdict::Keep(at(1030)));
        // Bytes without a call do not count against idleness.
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
