//! The account of the ledger that connections have, and the signal that much of it has become free. The C library's
//! allocator keeps what is free, because parts of other connections lie in between.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use inference::{
    ledger::Ledger,
    limits::{Budget, Permit},
    yielding::Yielding,
};
use tokio::sync::Notify;

/// Less than that is not worth a signal.
const LEAST: usize = 16 << 20;

/// The memory of connections: what each may hold, in parts that are given back when they are dropped.
#[derive(Debug)]
pub struct Footprint {
    account: Arc<Budget>,
    /// Slow bodies give way to connections, too: their connections end with them.
    bodies: Arc<Budget>,
    /// The most there were since the last [`Footprint::forget`].
    most: AtomicUsize,
    fell: Notify,
    /// Was there too little, and is there not much yet?
    is_short: AtomicBool,
    /// Was there none to make a connection faster?
    lacks_speed: AtomicBool,
}

impl Footprint {
    /// The footprint of a server's connections.
    pub fn new(ledger: &Ledger) -> Arc<Footprint> {
        let Ledger { bodies, connections, .. } = ledger.clone();
        let (most, fell) = (AtomicUsize::new(0), Notify::new());
        let (is_short, lacks_speed) = Default::default();
        Arc::new(Footprint { account: connections, bodies, most, fell, is_short, lacks_speed })
    }

    /// Takes so many bytes; `None` where there are no more.
    pub fn take(self: &Arc<Footprint>, bytes: usize) -> Option<ConnectionBytes> {
        let permit = self.account.take(bytes)?;
        self.note();
        Some(ConnectionBytes { permit, footprint: self.clone() })
    }

    /// Takes so many bytes, whether there are as many or not: others make room for them.
    pub fn cover(self: &Arc<Footprint>, bytes: usize) -> ConnectionBytes {
        let mut permit = Permit::nothing(&self.account);
        permit.cover(bytes);
        self.note();
        ConnectionBytes { permit, footprint: self.clone() }
    }

    /// The slowest bodies, and the calls that have been silent for longest, make room for so many bytes.
    pub fn press(&self, bytes: usize) {
        self.is_short.store(true, Relaxed);
        self.account.yielding().press(bytes);
        self.bodies.yielding().press(bytes);
    }

    /// Bytes that all connections together may take.
    pub fn limit(&self) -> usize {
        self.account.limit()
    }

    /// Bodies and replies that give way to others.
    pub fn yielding_bodies(&self) -> &Arc<Yielding> {
        self.bodies.yielding()
    }

    /// Was there no room to make a connection faster, since this was asked for the last time?
    pub fn lacked_speed(&self) -> bool {
        self.lacks_speed.swap(false, Relaxed)
    }

    /// Was there too little of late? Connections then hold no more than they use, until a half is free.
    pub fn is_short(&self) -> bool {
        self.is_short.load(Relaxed)
    }

    /// Those who give way where connections are short of memory.
    pub fn yielding(&self) -> &Arc<Yielding> {
        self.account.yielding()
    }

    /// Returns when a quarter of the most that connections took has become free, and 16 MiB at least.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn fallen(&self) {
        loop {
            self.fell.notified().await;
            // A signal may be left from before it was forgotten.
            if self.has_fallen() {
                return;
            }
        }
    }

    fn note(&self) {
        self.most.fetch_max(self.account.used(), Relaxed);
    }

    fn has_fallen(&self) -> bool {
        let most = self.most.load(Relaxed);
        LEAST.max(most / 4) <= most.saturating_sub(self.account.used())
    }

    /// What is free now is given back, and signalled no more.
    pub fn forget(&self) {
        self.most.store(self.account.used(), Relaxed);
    }
}

/// Bytes of one connection, held while this lives.
#[derive(Debug)]
pub struct ConnectionBytes {
    permit: Permit,
    footprint: Arc<Footprint>,
}

impl ConnectionBytes {
    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.permit.units()
    }

    /// Makes it at least so large; false where there is no more. A quarter of all is left to other connections.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let left = self.footprint.limit() / 4;
        let granted = self.permit.grow_spare_to(bytes, left);
        self.footprint.note();
        granted
    }

    /// The same for what only makes a connection faster: a half is left to other connections.
    pub fn grow_for_speed_to(&mut self, bytes: usize) -> bool {
        let left = self.footprint.limit() / 2;
        let granted = self.permit.grow_spare_to(bytes, left);
        self.footprint.note();
        if !granted {
            self.footprint.lacks_speed.store(true, Relaxed);
        }
        granted
    }

    /// Makes it so small.
    pub fn shrink_to(&mut self, bytes: usize) {
        if bytes < self.permit.units() {
            self.permit.resize(bytes);
            self.signal();
        }
    }

    /// What it is a part of.
    pub fn footprint(&self) -> &Arc<Footprint> {
        &self.footprint
    }

    fn signal(&self) {
        if self.footprint.is_short() && self.footprint.account.used() < self.footprint.limit() / 2 {
            self.footprint.is_short.store(false, Relaxed);
        }
        if self.footprint.has_fallen() {
            self.footprint.fell.notify_one();
        }
    }
}

impl Drop for ConnectionBytes {
    fn drop(&mut self) {
        self.permit.resize(0);
        self.signal();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn has_fallen(footprint: &Footprint) -> bool {
        tokio::time::timeout(Duration::from_millis(1), footprint.fallen()).await.is_ok()
    }

    #[tokio::test]
    async fn much_that_becomes_free_is_signalled_until_it_is_given_back() {
        let footprint = Footprint::new(&Ledger::new(0, Some(1 << 40)));
        let take = || footprint.take(LEAST / 2).unwrap();
        let mut parts: Vec<_> = (0..10).map(|_| take()).collect();
        parts.truncate(8);
        assert!(!has_fallen(&footprint).await, "a fifth");
        parts.truncate(7);
        assert!(has_fallen(&footprint).await);
        footprint.forget();
        parts.truncate(6);
        assert!(!has_fallen(&footprint).await, "half a mebibyte");
        parts.clear();
        assert!(has_fallen(&footprint).await);
    }

    #[test]
    fn connections_get_no_more_than_their_account_and_leave_a_quarter_to_others() {
        let footprint = Footprint::new(&Ledger::new(0, Some(1 << 30)));
        let mut part = footprint.take(1 << 20).unwrap();
        assert!(part.grow_to(48 << 20) && !part.grow_to((48 << 20) + 1));
        assert!(footprint.take(16 << 20).is_some() && footprint.take(17 << 20).is_none());
        part.shrink_to(1 << 20);
        assert!(footprint.take(17 << 20).is_some());
    }
}
