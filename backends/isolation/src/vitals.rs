//! What is known of a worker at any moment, whoever holds it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::{aboard::Aboard, mailbox::Ends};

/// A worker, without a hold on it.
pub(crate) struct Vitals {
    pub(crate) pid: u32,
    is_dead: AtomicBool,
    /// Lanes that it was asked for, and runs that it has answered, with the requests of clients in them.
    lanes: AtomicU32,
    answered: AtomicU64,
    requests: AtomicU64,
    /// How often it was to give memory back.
    trims: AtomicU32,
    aboard: Aboard,
    ends: Ends,
}

impl Vitals {
    pub(crate) fn new(pid: u32) -> Vitals {
        let is_dead = AtomicBool::new(false);
        let (lanes, trims) = (AtomicU32::new(0), AtomicU32::new(0));
        let (answered, requests) = (AtomicU64::new(0), AtomicU64::new(0));
        let (aboard, ends) = Default::default();
        Vitals { pid, is_dead, lanes, answered, requests, trims, aboard, ends }
    }

    /// The runs that are in it.
    pub(crate) fn aboard(&self) -> &Aboard {
        &self.aboard
    }

    /// Those who wait for its answers.
    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Has it ended, or is it of no more use?
    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Relaxed)
    }

    pub(crate) fn note_death(&self) {
        self.is_dead.store(true, Relaxed);
    }

    /// Its process has ended: nobody waits for it any more.
    pub(crate) fn note_end(&self) {
        self.note_death();
        self.ends.end();
    }

    /// The number of its next lane.
    pub(crate) fn next_lane(&self) -> u32 {
        self.lanes.fetch_add(1, Relaxed)
    }

    /// It has answered one more run, of so many requests.
    pub(crate) fn note_answer(&self, requests: usize) {
        self.answered.fetch_add(1, Relaxed);
        self.requests.fetch_add(requests as u64, Relaxed);
    }

    /// The requests in the runs that it has answered.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// The runs that it has answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// It is to give memory back.
    pub(crate) fn note_trim(&self) {
        self.trims.fetch_add(1, Relaxed);
    }

    /// A number that grows with all that it does.
    pub(crate) fn work(&self) -> u64 {
        let others = [&self.lanes, &self.trims].map(|it| u64::from(it.load(Relaxed)));
        self.answered() + others.iter().sum::<u64>()
    }
}
