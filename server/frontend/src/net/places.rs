//! The places of open connections: where all are taken, the connections that have been idle for longest make room, and
//! one peer cannot take all.
//!
//! The places are counted under a lock that is taken when a connection begins and when it ends. A request only writes
//! one number of its own connection.

use std::{
    cmp::Reverse,
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::footprint::{ConnectionBytes, Footprint};
use crate::seldom::seldom;

/// The value of a seat's `idle_since` while a request is in flight.
const BUSY: u64 = u64::MAX;

/// Of so many open connections one is closed at a time: a search goes through all of them.
const FREED_OF: usize = 1024;

/// Of so many places one is freed at a time where memory is short: what idle connections hold is little.
const FREED_OF_WHERE_SHORT: usize = 256;

/// A connection that has been idle for less than that is not closed for want of memory: its client is about to ask, and
/// it would give little.
const FRESH: Duration = Duration::from_millis(500);

/// About how many bytes a connection takes at rest.
const AT_REST: usize = 2 << 10;

/// How often a connection asks for room that there is not, and how long it waits each time.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// The places of some ports' connections.
#[derive(Debug)]
pub struct Places {
    limit: usize,
    epoch: Instant,
    open: Mutex<Open>,
    /// The memory that they have.
    footprint: Arc<Footprint>,
    /// Nanoseconds from `epoch` to the last time that idle ones were closed for want of memory.
    pressed: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    seats: HashMap<u64, Arc<Seat>>,
    /// Connections by the peer's address.
    peers: HashMap<IpAddr, usize>,
    next: u64,
}

impl Places {
    /// Places for `limit` connections, which have that memory.
    pub fn new(limit: usize, footprint: Arc<Footprint>) -> Arc<Places> {
        let (epoch, open, pressed) = (Instant::now(), Mutex::default(), AtomicU64::default());
        Arc::new(Places { limit, epoch, open, footprint, pressed })
    }

    /// Places that are taken at present.
    pub fn used(&self) -> usize {
        self.lock().seats.len()
    }

    /// A place for a connection from `peer`. An idle connection is asked to close where all places are taken, or
    /// where this peer has its share; `None` where none is idle.
    ///
    /// The share of a peer is half of the places, and more while a quarter of all is free. Loopback has no share: it
    /// is the address of proxies beside the server.
    pub fn take(self: &Arc<Places>, peer: IpAddr) -> Option<ConnectionPlace> {
        let peer = network(peer);
        let mut open = self.lock();
        let used = open.seats.len();
        let own = open.peers.get(&peer).copied().unwrap_or(0);
        let is_crowd = self.limit <= own * 2 && self.limit * 3 <= used * 4 && !peer.is_loopback();
        let has_room = match is_crowd {
            true => open.free(1, |seat| seat.peer == peer),
            false => used < self.limit || self.free_oldest(&mut open),
        };
        if !has_room {
            return None;
        }
        let part = match self.footprint.take(AT_REST) {
            Some(part) => part,
            // What it holds is little, and what the others hold is free a moment later.
            None if self.free_oldest(&mut open) => self.footprint.cover(AT_REST),
            None => {
                self.footprint.press(AT_REST);
                return None;
            }
        };
        let number = open.next;
        open.next += 1;
        let seat = Arc::new(Seat::new(peer, self.epoch));
        open.seats.insert(number, seat.clone());
        *open.peers.entry(peer).or_default() += 1;
        drop(open);
        Some(ConnectionPlace { seat, number, places: self.clone(), _part: part })
    }

    /// Asks the connections that have been idle for longest to close: file descriptors are short. False where none is
    /// idle.
    pub fn make_room(&self) -> bool {
        self.free_oldest(&mut self.lock())
    }

    /// Connections are short of so many bytes: those that have been idle for longest are asked to close, and slow
    /// bodies give way. Looks seldom, however often it is called.
    fn press(&self, bytes: usize) {
        self.footprint.press(bytes);
        let nanos = |it: Duration| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX);
        let now = nanos(self.epoch.elapsed());
        let last = self.pressed.load(Relaxed);
        let is_due = last == 0 || PAUSE.as_nanos() <= u128::from(now.saturating_sub(last));
        if is_due && self.pressed.compare_exchange(last, now.max(1), Relaxed, Relaxed).is_ok() {
            let (count, newest) =
                ((self.limit / FREED_OF_WHERE_SHORT).max(1), now.saturating_sub(nanos(FRESH)));
            self.free(&mut self.lock(), count, newest);
        }
    }

    /// Frees the place of the oldest idle connection, first of peers that have half of all places. The number follows
    /// the connections that are open, not the places: where file descriptors end long before the places, the newest
    /// would be closed, too.
    fn free_oldest(&self, open: &mut Open) -> bool {
        let count = (open.seats.len() / FREED_OF).max(1);
        self.free(open, count, BUSY)
    }

    /// The same of so many that have been idle since before that time.
    fn free(&self, open: &mut Open, count: usize, before: u64) -> bool {
        let is_old = |seat: &Seat| seat.idle_since.load(Relaxed) <= before;
        let crowd = open.peers.iter().find(|(_, own)| self.limit <= **own * 2).map(|it| *it.0);
        crowd.is_some_and(|crowd| open.free(count, |seat| seat.peer == crowd && is_old(seat)))
            || open.free(count, is_old)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Asks up to `count` connections to close, those that have been idle for longest first. Their places are free at
    /// once.
    fn free(&mut self, count: usize, which: impl Fn(&Seat) -> bool) -> bool {
        let wanted = self.seats.iter().filter(|(_, seat)| which(seat));
        let since = wanted.map(|(number, seat)| (Reverse(seat.idle_since.load(Relaxed)), *number));
        let mut idle: Vec<_> = since.filter(|(since, _)| since.0 != BUSY).collect();
        if count < idle.len() {
            let newer = idle.len() - count;
            idle.select_nth_unstable(newer);
            idle.drain(..newer);
        }
        for (_, number) in &idle {
            if let Some(seat) = self.remove(*number) {
                seat.evict();
            }
        }
        !idle.is_empty()
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Seat>> {
        let seat = self.seats.remove(&number)?;
        if let Some(own) = self.peers.get_mut(&seat.peer) {
            *own -= 1;
            if *own == 0 {
                self.peers.remove(&seat.peer);
            }
        }
        // The memory of many connections is given back when they are gone.
        if self.seats.len() * 4 < self.seats.capacity() {
            self.seats.shrink_to(self.seats.len() * 2);
        }
        Some(seat)
    }
}

/// The address, or the network, that counts as one peer: an IPv6 host has a whole `/64`.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(it) if !it.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() >> 64 << 64))
        }
        it => it,
    }
}

/// What is known of one connection.
#[derive(Debug)]
pub struct Seat {
    peer: IpAddr,
    /// When counting of time begins: the same for all connections that are compared.
    epoch: Instant,
    /// Nanoseconds since then, or [`BUSY`].
    idle_since: AtomicU64,
    /// Is the connection to make room?
    is_evicted: AtomicBool,
    /// Wakes it then.
    evicted: Notify,
}

impl Seat {
    /// The seat of an idle connection.
    pub fn new(peer: IpAddr, epoch: Instant) -> Seat {
        let (idle_since, is_evicted) = Default::default();
        let seat = Seat { peer, epoch, idle_since, is_evicted, evicted: Notify::new() };
        seat.idle();
        seat
    }

    /// A request is in flight.
    pub fn busy(&self) {
        self.idle_since.store(BUSY, Relaxed);
    }

    /// No request is in flight from now on.
    pub fn idle(&self) {
        let since = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(BUSY - 1);
        self.idle_since.store(since, Relaxed);
    }

    /// Is no request in flight?
    pub fn is_idle(&self) -> bool {
        self.idle_since.load(Relaxed) != BUSY
    }

    /// Returns when the connection is to make room for another one.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn evicted(&self) {
        seldom(|| self.is_evicted.load(Acquire), self.evicted.notified()).await;
    }

    fn evict(&self) {
        self.is_evicted.store(true, Release);
        self.evicted.notify_one();
    }
}

/// The place of a connection, which is free when this is dropped.
#[derive(Debug)]
pub struct ConnectionPlace {
    seat: Arc<Seat>,
    number: u64,
    places: Arc<Places>,
    /// What the connection holds at rest.
    _part: ConnectionBytes,
}

impl ConnectionPlace {
    /// What is known of the connection.
    pub fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    /// Nothing, which may grow.
    pub fn no_room(&self) -> ConnectionBytes {
        self.places.footprint.cover(0)
    }

    /// Room for so many bytes, where there is some at once.
    pub fn room(&self, bytes: usize) -> Option<ConnectionBytes> {
        self.places.footprint.take(bytes)
    }

    /// There was no room for so many bytes: idle connections and slow bodies make some.
    pub fn press(&self, bytes: usize) {
        self.places.press(bytes);
    }

    /// Room for so many bytes. Where there is none, idle connections and slow bodies make room; `None` where that
    /// takes longer than a second.
    pub async fn wait_for_room(&self, bytes: usize) -> Option<ConnectionBytes> {
        for _ in 0..TRIES {
            let part = self.room(bytes);
            if part.is_some() {
                return part;
            }
            self.places.press(bytes);
            tokio::time::sleep(PAUSE).await;
        }
        None
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.places.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use inference::ledger::Ledger;

    use super::*;

    /// So many places, with memory for all of them.
    fn places_for(limit: usize) -> Arc<Places> {
        Places::new(limit, Footprint::new(&Ledger::new(0, Some(1 << 30))))
    }

    fn peer(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    async fn is_evicted(place: &ConnectionPlace) -> bool {
        tokio::time::timeout(std::time::Duration::from_millis(1), place.seat.evicted())
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn when_all_places_are_taken_the_connection_that_was_idle_for_longest_makes_room() {
        let places = places_for(3);
        let [a, b, c] = [1, 2, 3].map(|it| places.take(peer(it)).unwrap());
        a.seat.busy();
        // It has been idle from now on only.
        b.seat.idle();
        let d = places.take(peer(4)).unwrap();
        assert_eq!(places.used(), 3);
        assert!(is_evicted(&c).await && !is_evicted(&b).await && !is_evicted(&a).await);
        // Its place is free once, not twice.
        drop(c);
        assert_eq!(places.used(), 3);
        b.seat.busy();
        d.seat.busy();
        assert!(places.take(peer(5)).is_none());
        a.seat.idle();
        assert!(places.take(peer(5)).is_some());
        assert!(is_evicted(&a).await);
    }

    #[tokio::test]
    async fn one_peer_takes_no_more_than_half_when_places_are_short() {
        let places = places_for(8);
        let crowd: Vec<_> = (0..6).map(|_| places.take(peer(1)).unwrap()).collect();
        for place in &crowd {
            place.seat.busy();
        }
        assert!(places.take(peer(1)).is_none());
        let others = [2, 3].map(|it| places.take(peer(it)).unwrap());
        // A full house: the idle ones of the crowd go first, although others are idle for longer.
        crowd[5].seat.idle();
        let another = places.take(peer(4)).unwrap();
        assert!(is_evicted(&crowd[5]).await);
        for place in others.iter().chain([&another]) {
            assert!(!is_evicted(place).await);
        }
        // A peer beyond its share makes room itself.
        crowd[4].seat.idle();
        assert!(places.take(peer(1)).is_some());
        assert!(is_evicted(&crowd[4]).await);
    }

    #[test]
    fn loopback_has_no_share_and_a_host_has_one_for_all_its_addresses() {
        let places = places_for(4);
        let taken: Vec<_> = (0..4).map(|_| places.take([127, 0, 0, 1].into()).unwrap()).collect();
        taken.iter().for_each(|it| it.seat.busy());
        drop(taken);
        assert_eq!(places.used(), 0);
        let address = |text: &str| network(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), peer(1));
        assert!(address("::1").is_loopback() && address("::ffff:127.0.0.1").is_loopback());
    }

    #[tokio::test]
    async fn room_is_made_when_descriptors_are_short() {
        let places = places_for(100);
        assert!(!places.make_room());
        let [old, new] = [1, 2].map(|it| places.take(peer(it)).unwrap());
        assert!(places.make_room());
        assert!(is_evicted(&old).await && !is_evicted(&new).await);
    }

    #[tokio::test]
    async fn where_descriptors_end_before_the_places_a_connection_that_just_came_stays() {
        let places = places_for(1 << 20);
        let [old, middle, new] = [1, 2, 3].map(|it| places.take(peer(it)).unwrap());
        assert!(places.make_room());
        assert!(is_evicted(&old).await);
        assert!(!is_evicted(&middle).await && !is_evicted(&new).await);
    }

    #[tokio::test(start_paused = true)]
    async fn where_memory_is_short_idle_connections_make_room_and_without_them_there_is_none() {
        let footprint = Footprint::new(&Ledger::new(0, Some(0)));
        let places = Places::new(100, footprint.clone());
        let mut places = Arc::try_unwrap(places).unwrap();
        places.epoch -= 2 * FRESH;
        let places = Arc::new(places);
        let [old, new] = [1, 2].map(|it| places.take(peer(it)).unwrap());
        old.seat.idle_since.store(1, Relaxed);
        let mut all = footprint.cover(0);
        while all.grow_to(all.bytes() + AT_REST) {}
        let rest = footprint.take(3 << 20).unwrap();
        assert!(new.room(2 << 20).is_none());
        let waits = new.wait_for_room(2 << 20);
        let gives = async {
            old.seat.evicted().await;
            drop(rest);
        };
        assert!(tokio::join!(waits, gives).0.is_some());
        assert!(!is_evicted(&new).await, "its client may be about to ask");
        drop(all);
        // A connection that has no room is refused where none is idle.
        new.seat.busy();
        let _all = footprint.take(15 << 20);
        let _more = footprint.cover(10 << 20);
        assert!(places.take(peer(3)).is_none());
        new.seat.idle();
        assert!(places.take(peer(3)).is_some());
        assert!(is_evicted(&new).await);
    }
}
