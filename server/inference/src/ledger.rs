//! The ledger of what clients can cause to be in memory: one account for each part, of which permits are taken. What is
//! in no account is not held.

use std::sync::Arc;

use crate::{limits::Budget, rest::Rest};

/// The accounts, by what they are for.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// Bodies and what is made of them: decoded inputs, steps, replies that are not written yet.
    pub bodies: Arc<Budget>,
    /// What is there before and around a body: connections, heads, buffers for reading, calls of gRPC and their
    /// metadata.
    pub connections: Arc<Budget>,
    /// Who watches it.
    rest: Arc<Rest>,
}

/// Connections have so much of the memory, as a divisor: less than bodies, which have a quarter by default, and enough
/// that 3,000 of them can be awake in 1 GiB.
const OF_MEMORY: u64 = 16;

/// The same of the room for bodies, where the memory is not known.
const OF_BODIES: u64 = 4;

/// The least that connections have: some hundreds of them.
const LEAST: u64 = 16 << 20;

impl Ledger {
    /// A ledger with `bodies` bytes for bodies, on a machine with so much memory.
    pub fn new(bodies: u64, memory: Option<u64>) -> Ledger {
        let connections = memory.map_or(bodies / OF_BODIES, |it| it / OF_MEMORY).max(LEAST);
        let rest = Arc::<Rest>::default();
        let budget = |bytes: u64| {
            Budget::watched(usize::try_from(bytes).unwrap_or(usize::MAX), rest.clone())
        };
        Ledger { bodies: budget(bodies), connections: budget(connections), rest }
    }

    /// The accounts and their names.
    pub fn accounts(&self) -> [(&'static str, &Arc<Budget>); 2] {
        [("bodies", &self.bodies), ("connections", &self.connections)]
    }

    /// Memory is scarce: large permits of each account get so many bytes more than are taken now, together.
    pub fn set_scarce_but_for(&self, more: usize) {
        self.accounts().iter().for_each(|it| it.1.set_scarce_but_for(more));
    }

    /// Memory is not scarce any more.
    pub fn end_scarcity(&self) {
        self.accounts().iter().for_each(|it| it.1.set_scarce(false));
    }

    /// Returns once something is taken of any account; at once where more than `seen` bytes are held.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn stirs(&self, seen: usize) {
        self.rest.until_disturbed(|| self.used() <= seen).await;
    }

    /// Bytes that are held by all accounts.
    pub fn used(&self) -> usize {
        self.accounts().iter().map(|it| it.1.used()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        task::{Context, Waker},
    };

    use super::*;
    use crate::limits::Permit;

    #[test]
    fn connections_have_a_sixteenth_of_the_memory_and_bodies_what_they_are_given() {
        let ledger = Ledger::new(100, Some(1 << 30));
        let limits = ledger.accounts().map(|(name, it)| (name, it.limit()));
        assert_eq!(limits, [("bodies", 100), ("connections", 64 << 20)]);
        assert_eq!(Ledger::new(1 << 30, None).connections.limit(), 256 << 20);
        assert_eq!(Ledger::new(100, Some(1)).connections.limit(), 16 << 20);
    }

    #[test]
    fn all_accounts_are_summed() {
        let ledger = Ledger::new(100, None);
        let _held = (ledger.bodies.take(3), ledger.connections.take(4));
        assert_eq!(ledger.used(), 7);
    }

    #[test]
    fn whoever_watches_rests_until_something_is_taken() {
        let ledger = Ledger::new(100, None);
        let held = ledger.connections.take(10).unwrap();
        let polled = |future: Pin<&mut dyn Future<Output = ()>>| {
            future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        assert!(polled(pin!(ledger.stirs(9))), "more was held before");
        let mut rests = pin!(ledger.stirs(10));
        assert!(!polled(rests.as_mut()) && !polled(rests.as_mut()));
        drop(held);
        assert!(!polled(rests.as_mut()), "what is given back is no news");
        drop(ledger.bodies.take(1));
        assert!(polled(rests.as_mut()));
        // What was taken before it rests again is seen by itself.
        let mut permit = Permit::nothing(&ledger.bodies);
        let mut rests = pin!(ledger.stirs(0));
        assert!(!polled(rests.as_mut()));
        permit.cover(1000);
        assert!(polled(rests.as_mut()));
    }
}
