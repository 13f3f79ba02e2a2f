//! What the second sessions of all models of a process may take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many models have one at most: each has as many threads as there are processors.
const MOST_SESSIONS: usize = 16;

/// What there is of second sessions in a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rooms {
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    sessions: usize,
    /// Of their files.
    bytes: u64,
}

/// The room of one, until this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    rooms: Rooms,
    bytes: u64,
}

impl Rooms {
    /// Room for a session of files of so many bytes, where all have at most so many bytes and there are not too many.
    pub(super) fn take(&self, bytes: u64, most_bytes: Option<u64>) -> Option<Room> {
        let mut taken = self.lock();
        let together = taken.bytes.checked_add(bytes)?;
        let fits = most_bytes.is_none_or(|it| together <= it) && taken.sessions < MOST_SESSIONS;
        fits.then(|| {
            taken.bytes = together;
            taken.sessions += 1;
            Room { rooms: self.clone(), bytes }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.rooms.lock();
        taken.bytes -= self.bytes;
        taken.sessions -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_bytes_are_bounded_and_what_goes_makes_room() {
        let rooms = Rooms::default();
        let first = rooms.take(6, Some(10)).expect("room");
        assert!(rooms.take(5, Some(10)).is_none());
        let second = rooms.take(4, Some(10));
        assert!(second.is_some() && rooms.take(1, Some(10)).is_none());
        drop(first);
        assert!(rooms.take(6, Some(10)).is_some());
        assert!(rooms.take(u64::MAX, None).is_none(), "more than can be counted");
        let many: Vec<Room> = (0..100).map_while(|_| rooms.take(0, Some(10))).collect();
        assert_eq!(many.len(), MOST_SESSIONS - 1);
    }
}
