//! What a connection is doing, as its requests, its reads and its writes have noted. One task does them
//! all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::net::places::Seat;

/// The phase of a connection, which decides its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Between requests.
    Idle = 0,
    /// A request is being read or worked on.
    Busy = 1,
}

/// A reply that is made while it is sent.
#[derive(Debug)]
pub struct AnswerInParts(Arc<AtomicBool>);

impl Drop for AnswerInParts {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The phase of a connection, set by its requests. Shared by the connection and its service.
///
/// The lowest bit is the phase, the other bits count the changes. Because of the count, a request that came and was
/// answered between two looks is noticed, too.
#[derive(Debug)]
pub struct Progress {
    changes: AtomicU32,
    /// Is the connection about to be closed?
    is_last_look: AtomicBool,
    /// Is a head that is not complete waited for no more?
    is_late_for_heads: AtomicBool,
    /// Had a part of a request arrived when nothing more could be read?
    arriving: AtomicBool,
    /// Does a part of a reply wait to be written?
    is_writing: AtomicBool,
    /// Is a reply being sent that is made meanwhile? It says so itself.
    is_in_parts: Arc<AtomicBool>,
    /// Is nothing wanted of the connection, for long enough? Reading ends it.
    is_at_rest: AtomicBool,
    /// May it not rest before the next request?
    stays: AtomicBool,
    /// May it not rest at all?
    never_rests: AtomicBool,
    /// The times below are since then.
    opened: Instant,
    /// When the first byte of the present request's head came, in nanoseconds.
    head_came: AtomicU64,
    /// The place of the connection among all, which must know whether a request is in flight.
    seat: Arc<Seat>,
}

impl Progress {
    /// The progress of an idle connection.
    pub fn new(seat: Arc<Seat>) -> Progress {
        Progress {
            changes: AtomicU32::default(),
            is_last_look: AtomicBool::default(),
            is_late_for_heads: AtomicBool::default(),
            arriving: AtomicBool::default(),
            is_writing: AtomicBool::default(),
            is_in_parts: Arc::default(),
            is_at_rest: AtomicBool::new(true),
            stays: AtomicBool::default(),
            never_rests: AtomicBool::default(),
            opened: Instant::now(),
            head_came: AtomicU64::default(),
            seat,
        }
    }

    /// The head of a request has arrived.
    pub fn busy(&self) {
        self.change(Phase::Busy);
        self.stays.store(false, Ordering::Relaxed);
        self.seat.busy();
    }

    /// The first byte of the next request's head came then.
    pub fn head_came(&self, then: Instant) {
        let since = then.saturating_duration_since(self.opened).as_nanos();
        self.head_came.store(since as u64, Ordering::Relaxed);
    }

    /// How long ago the first byte of the present request's head came. The clock is read for it. Requests that come
    /// in one piece count from that piece, and one that comes with the end of a body from there.
    pub fn since_head(&self) -> Duration {
        let came = Duration::from_nanos(self.head_came.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(came)
    }

    /// The request is answered.
    pub fn idle(&self) {
        self.change(Phase::Idle);
        self.seat.idle();
    }

    /// From now on each read that waits notes whether a part of a request is there.
    pub fn last_look(&self) {
        self.is_last_look.store(true, Ordering::Relaxed);
    }

    /// Is each read that waits to note that?
    pub fn is_last_look(&self) -> bool {
        self.is_last_look.load(Ordering::Relaxed)
    }

    /// From now on a head of which only a part is there ends the connection.
    pub fn wait_for_no_head(&self) {
        self.is_late_for_heads.store(true, Ordering::Relaxed);
    }

    /// Is a head of which only a part is there to end the connection?
    pub fn is_late_for_heads(&self) -> bool {
        self.is_late_for_heads.load(Ordering::Relaxed)
    }

    /// A read that waits has looked for a part of a request.
    pub fn set_arriving(&self, arriving: bool) {
        self.arriving.store(arriving, Ordering::Relaxed);
    }

    /// Was a part of a request there at the last read, be it in the kernel alone?
    pub fn is_arriving(&self) -> bool {
        self.arriving.load(Ordering::Relaxed)
    }

    /// A number that is another one after each change of the phase, but for 2^31 changes in a row.
    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::Relaxed)
    }

    fn change(&self, phase: Phase) {
        // Only the connection's own task writes, so load and store need not be one operation.
        let changes = self.changes.load(Ordering::Relaxed) >> 1;
        self.changes.store(changes.wrapping_add(1) << 1 | phase as u32, Ordering::Relaxed);
    }

    /// Does a part of a reply wait to be written?
    pub fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }

    /// A part of a reply waits to be written, or has been.
    pub fn writing(&self, waits: bool) {
        self.is_writing.store(waits, Ordering::Relaxed);
        match waits {
            true => self.seat.busy(),
            false if self.phase() == Phase::Idle => self.seat.idle(),
            false => {}
        }
    }

    /// A reply is sent that is made meanwhile, as long as what this gives lives.
    pub fn in_parts(&self) -> AnswerInParts {
        self.is_in_parts.store(true, Ordering::Relaxed);
        AnswerInParts(self.is_in_parts.clone())
    }

    /// Is such a reply being sent?
    pub fn is_in_parts(&self) -> bool {
        self.is_in_parts.load(Ordering::Relaxed)
    }

    /// Is no request in flight?
    pub fn is_idle(&self) -> bool {
        self.seat.is_idle()
    }

    /// Is the connection at rest? No request is in flight, and nothing was read since that was found.
    pub fn is_at_rest(&self) -> bool {
        self.is_at_rest.load(Ordering::Relaxed)
    }

    /// May the connection rest before the next request, if it is idle?
    pub fn may_rest(&self) -> bool {
        let stays = [&self.stays, &self.never_rests].iter().any(|it| it.load(Ordering::Relaxed));
        self.phase() == Phase::Idle && !stays
    }

    /// There is no rest before the next request: a body that nobody wants is on its way.
    pub fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// There is no rest as long as the connection lives: a request of it has asked for another protocol.
    pub fn stay_for_good(&self) {
        self.never_rests.store(true, Ordering::Relaxed);
    }

    /// Sets whether the connection is at rest.
    pub fn set_at_rest(&self, is_at_rest: bool) {
        self.is_at_rest.store(is_at_rest, Ordering::Relaxed);
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        match self.changes.load(Ordering::Relaxed) & 1 {
            0 => Phase::Idle,
            _ => Phase::Busy,
        }
    }
}
