//! The buffer of a body that is coming in, and the room that it has in the budget.
//!
//! Room is taken for what has arrived and for one piece more, whatever length was announced: an announcement costs its
//! sender nothing. A buffer of `OWN_PAGES` or more is made as long as announced: it lies in pages of its own, and
//! those that were never written to take no memory. A smaller one may lie where another one was, so that all of it
//! takes memory: it has room for all of it, and grows with what arrives. Its tensors lie aligned wherever it moves.

use std::sync::Arc;

use bytes::Bytes;

use inference::{
    aligned::AlignedBuffer,
    error::Error,
    limits::{Budget, Permit, out_of_bytes},
};

/// A body, and the permit for its memory.
#[derive(Debug)]
pub struct Received {
    /// All of it.
    pub bytes: Bytes,
    /// Must live as long as the bytes.
    pub permit: Permit,
}

/// Bytes of room that are taken ahead of what has arrived.
const PIECE: usize = 64 << 10;

/// The allocator gives a block of so many bytes pages of its own (`environment::keep_large_blocks_apart`).
const OWN_PAGES: usize = 1 << 20;

/// A smaller buffer that is full moves into one so many times as large.
const GROWTH: usize = 4;

/// A part of a body, and room for it.
pub struct BodyBuffer {
    buffer: AlignedBuffer,
    permit: Permit,
    announced: usize,
    /// What was announced at first. What frames announce later is not worth a move for each of them: there the buffer
    /// doubles.
    at_first: usize,
    aligned_at: usize,
    /// Bytes that the buffer can hold where it is.
    capacity: usize,
}

/// Room for the first piece of a body of `announced` bytes.
///
/// # Errors
/// [`Error::OutOfBudget`] where the budget has no room for all of it at present, so that a body that has no chance is
/// refused before it is read. What others announce does not count.
pub fn first_piece(budget: &Arc<Budget>, announced: usize) -> Result<Permit, Error> {
    let fits = announced <= PIECE || announced <= budget.left();
    if !fits {
        budget.yielding().press(announced.saturating_sub(budget.left()));
    }
    let permit = fits.then(|| budget.take(announced.min(PIECE))).flatten();
    permit.ok_or_else(|| out_of_bytes(budget))
}

impl BodyBuffer {
    /// An empty buffer for `announced` bytes, 0 where the length is unknown. The byte at offset `aligned_at` will lie
    /// at an aligned address. `permit` is the room that is taken already.
    pub fn new(announced: usize, aligned_at: usize, permit: Permit) -> BodyBuffer {
        let capacity = announced.min(PIECE);
        let buffer = AlignedBuffer::new(capacity, aligned_at);
        BodyBuffer { buffer, permit, announced, at_first: announced, aligned_at, capacity }
    }

    /// Bytes that have arrived.
    pub fn received(&self) -> usize {
        self.buffer.len()
    }

    /// They themselves.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Further bytes are announced: the length is now this one.
    pub fn announce(&mut self, announced: usize) {
        self.announced = announced;
    }

    /// Bytes that there is memory for, those that have arrived among them.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// [`Error::OutOfBudget`] where there is no room for them. It is not waited for: bodies that wait for each other's
    /// room would wait for ever.
    pub fn extend(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let length = self.buffer.len().saturating_add(chunk.len());
        if self.permit.units() < length {
            let ahead = length.saturating_add(PIECE).min(self.announced.max(length));
            // What is read ahead can be done without.
            if !self.permit.grow_spare_to(ahead, 0) && !self.permit.grow_to(length) {
                return Err(out_of_bytes(self.permit.budget()));
            }
        }
        if self.capacity < length && length <= self.at_first {
            self.move_to_larger(length);
        }
        self.buffer.extend(chunk);
        if self.capacity < length {
            // It has moved into a larger one, of which a part is free, and which must have room, too.
            self.capacity = self.buffer.capacity();
            if !self.permit.grow_to(self.capacity) {
                return Err(out_of_bytes(self.permit.budget()));
            }
        }
        Ok(())
    }

    /// Moves what has arrived into a buffer that holds `length` bytes, for which there is room, and more of those that
    /// were announced at first. The smaller buffer is gone a moment later.
    fn move_to_larger(&mut self, length: usize) {
        let next = self.capacity.saturating_mul(GROWTH).max(length).min(self.at_first);
        let larger = match next {
            OWN_PAGES.. => self.at_first,
            // What is not there yet can be done without.
            _ if self.permit.units() < next && !self.permit.grow_spare_to(next, 0) => length,
            _ => next,
        };
        let mut buffer = AlignedBuffer::new(larger, self.aligned_at);
        buffer.extend(self.buffer.bytes());
        (self.buffer, self.capacity) = (buffer, larger);
    }

    /// All of them.
    pub fn finish(self) -> Received {
        Received { bytes: self.buffer.finish(), permit: self.permit }
    }
}

/// A body that arrived in one piece.
///
/// # Errors
/// [`Error::OutOfBudget`] where there is no room for it.
pub fn whole(bytes: Bytes, mut permit: Permit) -> Result<Received, Error> {
    match permit.grow_to(bytes.len()) {
        true => Ok(Received { bytes, permit }),
        false => Err(out_of_bytes(permit.budget())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_takes_room_for_one_piece() {
        let budget = Budget::new(100 << 20);
        let permit = first_piece(&budget, 100 << 20).unwrap();
        assert_eq!(budget.used(), PIECE);
        let mut body = BodyBuffer::new(100 << 20, 0, permit);
        body.extend(&[1; 1000]).unwrap();
        assert_eq!(budget.used(), PIECE);
        body.extend(&vec![1; PIECE]).unwrap();
        assert_eq!(budget.used(), GROWTH * PIECE);
        drop(body);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_message_of_many_short_frames_moves_seldom() {
        let budget = Budget::new(100 << 20);
        let mut body = BodyBuffer::new(100, 0, first_piece(&budget, 100).unwrap());
        let (mut places, mut announced) = (0, 0);
        let mut place = std::ptr::null();
        for _ in 0..10_000 {
            announced += 100;
            body.announce(announced);
            body.extend(&[1; 100]).unwrap();
            places += usize::from(body.bytes().as_ptr() != place);
            place = body.bytes().as_ptr();
        }
        assert!(places < 30, "{places}");
    }

    #[test]
    fn a_buffer_that_may_lie_where_another_one_was_has_room_for_all_of_it_and_tensors_lie_aligned()
    {
        for announced in [OWN_PAGES - 1, 3 * OWN_PAGES] {
            let budget = Budget::new(100 << 20);
            let mut body =
                BodyBuffer::new(announced, 100, first_piece(&budget, announced).unwrap());
            let sent: Vec<u8> = (0..announced).map(|it| it as u8).collect();
            for chunk in sent.chunks(10_000) {
                body.extend(chunk).unwrap();
                let has_own_pages = OWN_PAGES <= body.capacity;
                assert!(has_own_pages || body.capacity <= budget.used());
                assert!(body.capacity <= announced && budget.used() <= announced);
                assert!(body.capacity <= PIECE.max(body.received() * 4) || has_own_pages);
            }
            let Received { bytes, permit } = body.finish();
            assert!(*bytes == *sent && permit.units() == announced);
            assert_eq!((bytes.as_ptr() as usize + 100) % 64, 0);
        }
    }

    #[test]
    fn a_small_body_takes_room_once() {
        let budget = Budget::new(1000);
        let mut body = BodyBuffer::new(1000, 0, first_piece(&budget, 1000).unwrap());
        (0..10).for_each(|_| body.extend(&[1; 100]).unwrap());
        assert_eq!(budget.used(), 1000);
        assert_eq!(body.finish().bytes.len(), 1000);
        assert!(first_piece(&budget, 1001).is_err());
    }

    #[test]
    fn of_two_bodies_without_room_for_both_one_is_refused_and_the_other_one_goes_on() {
        let budget = Budget::new(10 * PIECE);
        let begin = || BodyBuffer::new(8 * PIECE, 0, first_piece(&budget, 8 * PIECE).unwrap());
        let mut bodies = vec![begin(), begin()];
        let piece = vec![1; PIECE];
        let refused = (0..16).find_map(|turn| {
            let error = bodies[turn % 2].extend(&piece).err()?;
            Some((turn % 2, error))
        });
        let Some((at, Error::OutOfBudget(_))) = refused else { panic!("{refused:?}") };
        drop(bodies.remove(at));
        while bodies[0].received() < 8 * PIECE {
            bodies[0].extend(&piece).unwrap();
        }
        assert_eq!(budget.used(), 8 * PIECE);
    }
}
