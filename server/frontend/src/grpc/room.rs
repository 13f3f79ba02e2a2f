//! The memory of one connection of HTTP/2: what it holds without calls, with each call, and with what its peer has sent
//! ahead. It is taken before it is held, and given back when the connection has been quieter for a while.

use bytes::Bytes;
use h2::server::Connection;
use hyper::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite};

use super::watch::Activity;
use crate::net::footprint::ConnectionBytes;
use formats::body_memo::BodyMemo;

/// About how many bytes a connection takes with one call, and with what it remembers.
pub const FOOTPRINT: usize = (44 << 10) + BodyMemo::<()>::MOST;

/// About how many bytes each further call takes, with metadata of the usual length.
pub const OF_CALL: usize = 20 << 10;

/// Bytes of metadata that are usual.
const USUAL_METADATA: usize = 2 << 10;

/// What a byte of metadata takes: it is kept as it came, and copied for the model.
const OF_METADATA: usize = 2;

/// Bytes of all calls of a connection that may wait to be read: the least that HTTP/2 allows.
pub const NARROW: u32 = 65_535;

/// The same where there is memory for it, and the peer has much to send.
const WIDE: u32 = 4 << 20;

/// A read buffer up to that size is usual. A larger one shows that the peer has much to send.
pub const USUAL_BUFFER: usize = 24 << 10;

/// The memory of one connection.
#[derive(Debug)]
pub struct Room {
    part: ConnectionBytes,
    /// Calls that there is room for.
    calls: usize,
    /// May the peer send much ahead? Once it may, nobody can forbid it: that takes room until the connection ends.
    is_wide: bool,
    /// Was the peer asked to connect anew?
    is_leaving: bool,
}

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Stays,
    /// Its peer is to connect anew, as others need the room that it has for what the peer may send ahead.
    Leaves,
}

impl Room {
    /// The room of a connection, which has [`FOOTPRINT`] at first.
    pub fn new(part: ConnectionBytes) -> Room {
        Room { part, calls: 1, is_wide: false, is_leaving: false }
    }

    /// The memory of all connections together.
    pub fn limit(&self) -> usize {
        self.part.footprint().limit()
    }

    fn bytes(calls: usize, is_wide: bool) -> usize {
        let of_calls = OF_CALL.saturating_mul(calls.saturating_sub(1));
        let ahead = if is_wide { WIDE as usize } else { 0 };
        FOOTPRINT.saturating_add(of_calls).saturating_add(ahead)
    }

    /// Is there room for so many calls at once, of which the last has these metadata? The second is what these take
    /// beyond the usual.
    pub fn admits(
        &mut self,
        calls: usize,
        metadata: &HeaderMap,
    ) -> Option<Option<ConnectionBytes>> {
        if self.calls < calls {
            if !self.part.grow_to(Room::bytes(calls, self.is_wide)) {
                self.part.footprint().press(OF_CALL);
                return None;
            }
            self.calls = calls;
        }
        let length = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            name.as_str().len() + value.len()
        };
        let bytes: usize = metadata.iter().map(length).sum();
        if bytes <= USUAL_METADATA {
            return Some(None);
        }
        let mut long = self.part.footprint().cover(0);
        long.grow_to(bytes * OF_METADATA).then_some(Some(long))
    }

    /// Lets a peer that has much to send do so, once there is memory for it. Where there is little, gives back what is
    /// not used.
    pub fn follow<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        connection: &mut Connection<S, Bytes>,
        activity: &Activity,
    ) -> Fate {
        if self.part.footprint().is_short() {
            return match self.is_wide && !self.is_leaving || activity.calls().max(1) < self.calls {
                true => self.settle(connection, activity),
                false => Fate::Stays,
            };
        }
        if self.is_to_widen(activity) {
            connection.set_target_window_size(WIDE);
        }
        Fate::Stays
    }

    /// Has the peer much to send, and is there room for it from now on?
    fn is_to_widen(&mut self, activity: &Activity) -> bool {
        let is_to_widen = !self.is_wide
            && activity.has_much()
            && self.part.grow_for_speed_to(Room::bytes(self.calls, true));
        self.is_wide |= is_to_widen;
        is_to_widen
    }

    /// So many calls are there at the end of a while, in which the peer has sent what `activity` says.
    pub fn settle<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        connection: &mut Connection<S, Bytes>,
        activity: &Activity,
    ) -> Fate {
        let fate = self.settled(activity);
        if fate == Fate::Leaves {
            // What the peer may send already it may still send; it will not be given more.
            connection.set_target_window_size(NARROW);
        }
        fate
    }

    fn settled(&mut self, activity: &Activity) -> Fate {
        self.calls = activity.calls().max(1);
        self.part.shrink_to(Room::bytes(self.calls, self.is_wide));
        let (has_much, footprint) = (activity.forget_much(), self.part.footprint());
        let may_leave = self.is_wide && !self.is_leaving;
        // One leaves for each that has to be as fast.
        self.is_leaving |=
            may_leave && (footprint.is_short() || !has_much && footprint.lacked_speed());
        match may_leave && self.is_leaving {
            true => Fate::Leaves,
            false => Fate::Stays,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::header::HeaderValue;
    use inference::ledger::Ledger;

    use super::*;
    use crate::net::{footprint::Footprint, places::Places};

    #[test]
    fn calls_have_room_until_three_quarters_are_taken_and_a_first_call_always_has() {
        let footprint = Footprint::new(&Ledger::new(0, Some(0)));
        let mut room = Room::new(footprint.take(FOOTPRINT).unwrap());
        let none = HeaderMap::new();
        let most = (1..).take_while(|it| room.admits(*it, &none).is_some()).count();
        assert_eq!(most, 1 + ((12 << 20) - FOOTPRINT) / OF_CALL);
        let mut other = Room::new(footprint.take(FOOTPRINT).unwrap());
        assert!(other.admits(1, &none).is_some() && other.admits(2, &none).is_none());
        drop(room);
        assert!(other.admits(2, &none).is_some());
    }

    #[test]
    fn long_metadata_take_room_of_their_own() {
        let footprint = Footprint::new(&Ledger::new(0, Some(0)));
        let mut room = Room::new(footprint.take(FOOTPRINT).unwrap());
        let mut long = HeaderMap::new();
        long.insert("x", HeaderValue::from_str(&"a".repeat(10_000)).unwrap());
        let part = room.admits(1, &long).unwrap().unwrap();
        assert_eq!(part.bytes(), 2 * 10_001);
        assert!(room.admits(1, &HeaderMap::new()).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_wide_window_has_its_room_until_its_connection_ends_where_others_need_it() {
        let footprint = Footprint::new(&Ledger::new(0, Some(1 << 29)));
        let places = Places::new(9, footprint.clone());
        let place = places.take([127, 0, 0, 1].into()).unwrap();
        let activity = Activity::new(Duration::from_secs(1), place.seat().clone());
        let mut room = Room::new(footprint.take(FOOTPRINT).unwrap());
        let is_to_widen = |room: &mut Room| {
            activity.has_read(1 << 16);
            room.is_to_widen(&activity)
        };
        assert!(is_to_widen(&mut room) && !is_to_widen(&mut room));
        let wide = Room::bytes(1, true);
        // The peer has had nothing to send for long.
        for _ in 0..3 {
            assert_eq!((room.settled(&activity), room.part.bytes()), (Fate::Stays, wide));
        }
        let half = footprint.take(footprint.limit() / 2 - wide).unwrap();
        let mut other = Room::new(footprint.take(FOOTPRINT).unwrap());
        assert!(!is_to_widen(&mut other));
        assert_eq!(room.settled(&activity), Fate::Stays, "it has much to send itself");
        assert_eq!((room.settled(&activity), room.part.bytes()), (Fate::Leaves, wide));
        assert_eq!(room.settled(&activity), Fate::Stays, "it was told");
        drop((room, half));
        assert!(is_to_widen(&mut other));
        footprint.press(1);
        activity.has_read(1 << 16);
        assert_eq!(other.settled(&activity), Fate::Leaves, "others have none");
    }
}
