//! A bounded queue to a thread that writes or sends. Putting something in never blocks.
//!
//! When the queue is full, what comes is dropped, and its owner counts it. A flush does not stand in the queue, so that
//! it reaches the thread also while the queue is full.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender, bounded, select};

/// The entrance of the queue. Clones lead into the same queue.
pub struct Outbox<T>(Arc<Entrance<T>>);

struct Entrance<T> {
    items: Sender<T>,
    flushes: Sender<Flush>,
}

/// The end of the queue at which its thread waits.
pub struct Inbox<T> {
    items: Receiver<T>,
    flushes: Receiver<Flush>,
    /// A flush that was asked for, and the items that were in the queue before it.
    flush: Option<(Flush, usize)>,
}

/// A request to write everything that was queued before it. Dropping it says that this is done.
#[must_use]
pub struct Flush(#[expect(dead_code, reason = "dropping it is the message")] Sender<()>);

/// What a thread waits for at its [`Inbox`].
pub enum Received<T> {
    /// Something to write.
    Item(T),
    /// Everything before it is to be written now.
    Flush(Flush),
    /// Nothing has come in that time.
    Nothing,
    /// The queue is empty, and nothing will come any more.
    Closed,
}

/// A queue that holds at most so many items.
pub fn outbox<T>(bound: usize) -> (Outbox<T>, Inbox<T>) {
    let (items, taken) = bounded(bound);
    // One flush waits here while another one is made; further ones wait where they are asked for.
    let (flushes, asked) = bounded(1);
    let inbox = Inbox { items: taken, flushes: asked, flush: None };
    (Outbox(Arc::new(Entrance { items, flushes })), inbox)
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Outbox<T> {
        Outbox(self.0.clone())
    }
}

impl<T> Outbox<T> {
    /// Puts an item into the queue; false, and the item is gone, where it is full. Never waits.
    pub fn put(&self, item: T) -> bool {
        self.0.items.try_send(item).is_ok()
    }

    /// Waits until what is in the queue now has been written, for so long at most. Blocking.
    pub fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let (flush, flushed) = bounded(0);
        if self.0.flushes.send_deadline(Flush(flush), until).is_ok() {
            // What is not written by then is given up.
            let _ = flushed.recv_deadline(until);
        }
    }
}

impl<T> Inbox<T> {
    /// Waits for the next item, in order, for a flush, or for so long at most; `None` for any time.
    pub fn next(&mut self, patience: Option<Duration>) -> Received<T> {
        if self.flush.is_none()
            && let Ok(flush) = self.flushes.try_recv()
        {
            self.flush = Some((flush, self.items.len()));
        }
        if let Some((flush, before)) = self.flush.take() {
            if let Some(before) = before.checked_sub(1)
                && let Ok(item) = self.items.try_recv()
            {
                self.flush = Some((flush, before));
                return Received::Item(item);
            }
            return Received::Flush(flush);
        }
        if let Ok(item) = self.items.try_recv() {
            return Received::Item(item);
        }
        let item = |it: Result<T, _>| it.map_or(Received::Closed, Received::Item);
        // Both ends close together, and the items that are left come first.
        match patience {
            None => select! {
                recv(self.items) -> it => item(it),
                recv(self.flushes) -> it => self.flush_next(it.ok()),
            },
            Some(patience) => select! {
                recv(self.items) -> it => item(it),
                recv(self.flushes) -> it => self.flush_next(it.ok()),
                default(patience) => Received::Nothing,
            },
        }
    }

    /// What comes after this flush was asked for.
    fn flush_next(&mut self, flush: Option<Flush>) -> Received<T> {
        self.flush = flush.map(|it| (it, self.items.len()));
        match self.flush {
            Some(_) => self.next(None),
            None => self.items.recv().map_or(Received::Closed, Received::Item),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Takes everything out of an inbox until it is closed; the items and where flushes stood among them.
    fn drain(mut inbox: Inbox<u32>) -> Vec<Option<u32>> {
        let mut taken = Vec::new();
        loop {
            match inbox.next(None) {
                Received::Item(item) => taken.push(Some(item)),
                Received::Flush(_) => taken.push(None),
                Received::Nothing => {}
                Received::Closed => return taken,
            }
        }
    }

    #[test]
    fn a_full_queue_takes_nothing_and_does_not_block() {
        let (outbox, inbox) = outbox(2);
        assert_eq!([1, 2, 3].map(|it| outbox.put(it)), [true, true, false]);
        drop(outbox);
        assert_eq!(drain(inbox), [Some(1), Some(2)]);
    }

    #[test]
    fn a_flush_is_over_once_what_was_queued_before_it_is_taken_even_of_a_full_queue() {
        let (outbox, inbox) = outbox(2);
        assert_eq!([1, 2].map(|it| outbox.put(it)), [true, true]);
        let flushing = outbox.clone();
        let flusher = thread::spawn(move || flushing.flush(Duration::from_secs(60)));
        while outbox.0.flushes.is_empty() {
            thread::yield_now();
        }
        drop(outbox);
        assert_eq!(drain(inbox), [Some(1), Some(2), None]);
        flusher.join().unwrap();
    }

    #[test]
    fn a_flush_without_a_thread_ends_with_its_patience() {
        let (outbox, _inbox) = outbox::<u32>(2);
        outbox.flush(Duration::from_millis(5));
        // The first one still stands there.
        outbox.flush(Duration::from_millis(5));
    }

    #[test]
    fn a_flush_ends_with_the_thread_that_would_have_made_it() {
        let (outbox, inbox) = outbox::<u32>(2);
        drop(inbox);
        outbox.flush(Duration::from_secs(60));
    }

    #[test]
    fn waiting_has_an_end() {
        let (_outbox, mut inbox) = outbox::<u32>(2);
        assert!(matches!(inbox.next(Some(Duration::from_millis(1))), Received::Nothing));
    }
}
