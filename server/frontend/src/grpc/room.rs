//! The memory of one connection of HTTP/2: what it holds without calls, with each call, and with what its peer has sent
//! ahead. It is taken before it is held, and given back when the connection has been quieter for a while.

use bytes::Bytes;
use h2::server::Connection;
use hyper::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite};

use super::watch::Activity;
use crate::net::footprint::Part;

/// About how many bytes a connection takes with one call.
pub const FOOTPRINT: usize = 44 << 10;

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
    part: Part,
    /// Calls that there is room for.
    calls: usize,
    is_wide: bool,
}

impl Room {
    /// The room of a connection, which has [`FOOTPRINT`] at first.
    pub fn new(part: Part) -> Room {
        Room { part, calls: 1, is_wide: false }
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
    pub fn admits(&mut self, calls: usize, metadata: &HeaderMap) -> Option<Option<Part>> {
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
    ) {
        if self.part.footprint().is_short() {
            if self.is_wide || activity.calls().max(1) < self.calls {
                activity.forget_much();
                self.settle(connection, activity);
            }
            return;
        }
        let is_to_widen = !self.is_wide && activity.has_much();
        if is_to_widen && self.part.grow_for_speed_to(Room::bytes(self.calls, true)) {
            self.is_wide = true;
            connection.set_target_window_size(WIDE);
        }
    }

    /// So many calls are there at the end of a while, in which the peer has sent what `activity` says.
    pub fn settle<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        connection: &mut Connection<S, Bytes>,
        activity: &Activity,
    ) {
        self.calls = activity.calls().max(1);
        if !activity.forget_much() && self.is_wide {
            self.is_wide = false;
            connection.set_target_window_size(NARROW);
        }
        self.part.shrink_to(Room::bytes(self.calls, self.is_wide));
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use inference::ledger::Ledger;

    use super::*;
    use crate::net::footprint::Footprint;

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
}
