//! The frames of a lane's runs, by way of memory that both sides share: a place for one frame in each direction, and a
//! counter of the frames that were put there, which the other side looks at, and sleeps on. A run is one frame there
//! and one back, so that there is never a second one to put.
//!
//! A message over a socket takes twice as long where both sides have one processor. The other side sleeps on the
//! counter, a futex, and is woken only if it says that it sleeps. Each side keeps its own count, reads only the
//! other's, and copies a frame before it looks at it. Memory does not close with a process: the thread that waits for
//! the worker marks the counter when the process has ended. Count and mark are one number, so no end falls between a
//! look and a sleep.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{
            AtomicU32,
            Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        },
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    thread::futex::{self, Flags},
    time::Timespec,
};
use serde::{Deserialize, Serialize};

use crate::{
    channel::ChannelError,
    frame::{self, Encoding, Garbage, HEAD, LONGEST_ANSWER},
    look::Look,
    mapping::Mapping,
    pages::{Counters, Half},
};

/// Bytes of each side's part: counters, then a frame.
const PART: usize = (FRAME + HEAD + LONGEST_ANSWER).next_multiple_of(4096);

/// Where the frame begins in a part. Frames of usual length lie in the same page as the counters.
const FRAME: usize = size_of::<Counters>();

/// Frames are counted in these bits.
const COUNT: u32 = u32::MAX >> 1;

/// The side of the counter sends no more.
const ENDED: u32 = !COUNT;

/// Both sides of a lane in this process, for the server's side: what it sends, and what comes.
pub(crate) fn create(encoding: Encoding) -> io::Result<(Outgoing, Incoming)> {
    Ok(sides(Mapping::with_counters(2 * PART)?, Half::First, encoding))
}

/// The worker's side of the memory that the server has made.
pub(crate) fn open(file: OwnedFd) -> io::Result<(Outgoing, Incoming)> {
    let mapping = Mapping::open_with_counters(file)?;
    if mapping.len() != 2 * PART {
        return Err(io::Error::other("the memory file is that of another version"));
    }
    Ok(sides(mapping, Half::Second, Encoding::default()))
}

fn sides(mapping: Mapping, own: Half, encoding: Encoding) -> (Outgoing, Incoming) {
    let mapping = Arc::new(mapping);
    let outgoing = Outgoing { mapping: mapping.clone(), own, encoding, sent: 0, frame: Vec::new() };
    let (look, frame) = (Look::new(), Vec::new());
    (outgoing, Incoming { mapping, own, encoding, received: 0, has_come: false, look, frame })
}

fn next(count: u32) -> u32 {
    count.wrapping_add(1) & COUNT
}

/// Wakes whoever sleeps on that counter.
fn wake(sent: &AtomicU32) {
    // A worker may have made it a place that nobody can be woken by: whoever sleeps looks again after a while.
    let _ = futex::wake(sent, Flags::empty(), 1);
}

/// What this side sends. The other side hears of its end.
pub(crate) struct Outgoing {
    mapping: Arc<Mapping>,
    own: Half,
    encoding: Encoding,
    sent: u32,
    frame: Vec<u8>,
}

impl Outgoing {
    /// The memory, to be counted and for the other side.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// For the worker.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.mapping.file()
    }

    /// Sends one frame. The one before it has been answered.
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] where there is no room for it. Nothing is sent then.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        let frame = std::mem::take(&mut self.frame);
        let frame = frame::encode(self.encoding, message, frame).map_err(ChannelError::Io)?;
        let frame = frame.ok_or(ChannelError::Io(io::ErrorKind::FileTooLarge.into()))?;
        self.put(&frame)?;
        self.frame = frame;
        Ok(())
    }

    /// Puts these bytes there, which are a frame.
    ///
    /// # Errors
    /// As of [`Outgoing::send`].
    pub(crate) fn put(&mut self, frame: &[u8]) -> Result<(), ChannelError> {
        let pages = self.mapping.pages();
        let bytes = frame.len().saturating_sub(HEAD);
        let fits = bytes <= LONGEST_ANSWER;
        let written = fits.then(|| pages.write(pages.start(self.own) + FRAME, frame));
        written.flatten().ok_or(ChannelError::TooLong { bytes, room: LONGEST_ANSWER })?;
        self.sent = next(self.sent);
        let sent = &pages.counters(self.own).sent;
        // Either this side sees that the other one sleeps, or that one sees the frame before it does.
        sent.store(self.sent, SeqCst);
        if pages.counters(self.own.other()).sleeps.load(SeqCst) != 0 {
            wake(sent);
        }
        Ok(())
    }

    /// Has the other side taken all that was sent?
    pub(crate) fn was_taken(&self) -> bool {
        self.mapping.pages().counters(self.own.other()).taken.load(Acquire) == self.sent
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        end(&self.mapping, self.own);
    }
}

/// Whoever waits for a frame of that side waits no longer.
fn end(mapping: &Mapping, side: Half) {
    let sent = &mapping.pages().counters(side).sent;
    sent.fetch_or(ENDED, AcqRel);
    wake(sent);
}

/// What comes from the other side.
pub(crate) struct Incoming {
    mapping: Arc<Mapping>,
    own: Half,
    encoding: Encoding,
    received: u32,
    /// Has the next frame come? The counter is not asked again: who has counted it may count back.
    has_come: bool,
    look: Look,
    /// The last frame: nobody changes it any more.
    frame: Vec<u8>,
}

impl Incoming {
    /// Whether it pays to look for frames before one sleeps.
    pub(crate) fn look(&mut self) -> &mut Look {
        &mut self.look
    }

    /// Waits until the next frame is here, for so long at most. Blocking.
    ///
    /// # Errors
    /// [`ChannelError::Closed`] where the other side sends no more, [`ChannelError::Garbage`] where it has counted
    /// frames that nobody has asked for.
    pub(crate) fn wait(&mut self, at_most: Option<Duration>) -> Result<(), ChannelError> {
        if self.has_come {
            return Ok(());
        }
        let now = Instant::now();
        if let Some(until) = self.look.until(now) {
            while !self.is_here()? && Instant::now() < until {
                // Whoever is to send the frame may have no other processor.
                thread::yield_now();
            }
        }
        let until = at_most.and_then(|it| now.checked_add(it));
        while !self.is_here()? {
            let left = until.map(|it| it.saturating_duration_since(Instant::now()));
            if left.is_some_and(|it| it.is_zero()) {
                return Err(ChannelError::Timeout);
            }
            self.sleep(left)?;
        }
        self.look.came(Instant::now());
        self.has_come = true;
        Ok(())
    }

    /// Sleeps until there may be a frame.
    fn sleep(&self, at_most: Option<Duration>) -> Result<(), ChannelError> {
        let pages = self.mapping.pages();
        let sleeps = &pages.counters(self.own).sleeps;
        // Before the last look: whoever counts a frame after it sees that somebody sleeps.
        sleeps.store(1, SeqCst);
        if !self.is_here()? {
            let left = at_most.and_then(|it| Timespec::try_from(it).ok());
            let sent = &pages.counters(self.own.other()).sent;
            // Whatever ends it: the counter says whether there is a frame.
            let _ = futex::wait(sent, Flags::empty(), self.received, left.as_ref());
        }
        sleeps.store(0, Relaxed);
        Ok(())
    }

    /// Is the next frame here? A frame comes before the end.
    pub(crate) fn is_here(&self) -> Result<bool, ChannelError> {
        let sent = self.mapping.pages().counters(self.own.other()).sent.load(SeqCst);
        match sent & COUNT {
            count if count == next(self.received) => Ok(true),
            _ if sent & ENDED != 0 => Err(ChannelError::Closed),
            count if count == self.received => Ok(false),
            count => {
                let other = format!("frame {count}, where {} is waited for", next(self.received));
                Err(Garbage::Unexpected(other).into())
            }
        }
    }

    /// The next frame, which is waited for. Blocking.
    ///
    /// # Errors
    /// Those of [`Incoming::wait`], and [`ChannelError::Garbage`] where it is none.
    pub(crate) fn receive<'a, T: Deserialize<'a>>(&'a mut self) -> Result<T, ChannelError> {
        self.wait(None)?;
        self.has_come = false;
        let pages = self.mapping.pages();
        // What is looked at is a copy, which the other side cannot change.
        let mut head = [0; HEAD];
        let at = pages.start(self.own.other()) + FRAME;
        let is_there = pages.copy(at, &mut head);
        let long = frame::len(head, LONGEST_ANSWER)?;
        self.frame.clear();
        self.frame.resize(HEAD + long, 0);
        let is_there = is_there.and_then(|()| pages.copy(at, &mut self.frame));
        is_there.ok_or_else(|| Garbage::Unexpected("a frame outside of its memory".into()))?;
        self.received = next(self.received);
        pages.counters(self.own).taken.store(self.received, Release);
        Ok(frame::decode(self.encoding, &self.frame)?)
    }
}

/// The lanes of a worker, whose runs are to hear of its end.
#[derive(Default)]
pub(crate) struct Ends(Mutex<Lanes>);

#[derive(Default)]
struct Lanes {
    has_ended: bool,
    lanes: Vec<Weak<Mapping>>,
    others: Vec<Weak<dyn HearsEnd>>,
}

/// Who else is to hear of the end of a worker.
pub(crate) trait HearsEnd: Send + Sync {
    /// It has ended. Must not block.
    fn ends(&self);
}

impl Ends {
    /// One more lane: that of the server's side.
    pub(crate) fn has_lane(&self, lane: &Outgoing) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.has_ended {
            end(&lane.mapping, lane.own.other());
        }
        known.lanes.retain(|it| 0 < it.strong_count());
        known.lanes.push(Arc::downgrade(&lane.mapping));
    }

    /// One more who is to hear of it.
    pub(crate) fn are_for(&self, who: Weak<dyn HearsEnd>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.others.retain(|it| 0 < it.strong_count());
        known.others.push(who.clone());
        let has_ended = known.has_ended;
        drop(known);
        who.upgrade().filter(|_| has_ended).iter().for_each(|it| it.ends());
    }

    /// The worker has ended, and writes no more.
    pub(crate) fn end(&self) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.has_ended = true;
        known.lanes.drain(..).filter_map(|it| it.upgrade()).for_each(|it| end(&it, Half::Second));
        let others = std::mem::take(&mut known.others);
        drop(known);
        others.iter().filter_map(Weak::upgrade).for_each(|it| it.ends());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(5);

    type Side = (Outgoing, Incoming);

    fn both() -> (Side, Side) {
        let server = create(Encoding::Postcard).unwrap();
        let worker = open(server.0.file().try_clone_to_owned().unwrap()).unwrap();
        (server, worker)
    }

    fn sent(outgoing: &Outgoing) -> &AtomicU32 {
        &outgoing.mapping.pages().counters(outgoing.own).sent
    }

    #[test]
    fn frames_go_over_and_come_back_also_where_their_number_begins_anew() {
        let (mut server, mut worker) = both();
        for outgoing in [&mut server.0, &mut worker.0] {
            outgoing.sent = COUNT - 2;
            sent(outgoing).store(COUNT - 2, Relaxed);
        }
        (server.1.received, worker.1.received) = (COUNT - 2, COUNT - 2);
        let echo = thread::spawn(move || {
            while let Ok(text) = worker.1.receive::<String>() {
                worker.0.send(&text).unwrap();
            }
        });
        for number in 0..2000 {
            let text = "text ".repeat(number % 50);
            server.0.send(&text).unwrap();
            if number % 3 == 0 {
                server.1.wait(Some(Duration::from_secs(60))).unwrap();
            }
            assert_eq!(server.1.receive::<&str>().unwrap(), text);
            assert!(server.0.was_taken());
        }
        drop(server);
        echo.join().unwrap();
    }

    #[test]
    fn a_frame_is_waited_for_as_long_as_was_said() {
        let (mut server, mut worker) = both();
        assert!(matches!(server.1.wait(Some(SOON)), Err(ChannelError::Timeout)));
        assert!(!server.1.is_here().unwrap());
        worker.0.send(&7u32).unwrap();
        server.1.wait(Some(SOON)).unwrap();
        server.1.wait(Some(SOON)).unwrap();
        assert!(!worker.0.was_taken());
        assert_eq!(server.1.receive::<u32>().unwrap(), 7);
        assert!(worker.0.was_taken());
    }

    #[test]
    fn whoever_is_woken_for_nothing_waits_no_longer_for_that() {
        let (mut server, worker) = both();
        let waits = thread::spawn(move || server.1.wait(Some(20 * SOON)));
        while !waits.is_finished() {
            wake(sent(&worker.0));
        }
        assert!(matches!(waits.join().unwrap(), Err(ChannelError::Timeout)));
    }

    #[test]
    fn a_frame_that_has_come_is_there_also_where_it_is_not_counted_any_more() {
        let (mut server, mut worker) = both();
        worker.0.send(&7u32).unwrap();
        server.1.wait(None).unwrap();
        sent(&worker.0).store(0, SeqCst);
        assert_eq!(server.1.receive::<u32>().unwrap(), 7);
    }

    #[test]
    fn the_end_of_a_side_is_heard_after_its_last_frame() {
        let (mut server, mut worker) = both();
        worker.0.send(&7u32).unwrap();
        drop(worker);
        assert_eq!(server.1.receive::<u32>().unwrap(), 7);
        assert!(matches!(server.1.wait(None), Err(ChannelError::Closed)));
    }

    #[test]
    fn the_end_of_a_worker_wakes_those_that_wait_for_it_whenever_they_came() {
        let ((outgoing, mut incoming), _worker) = both();
        let ends = Arc::new(Ends::default());
        ends.has_lane(&outgoing);
        let waits = thread::spawn(move || incoming.wait(None));
        ends.end();
        assert!(matches!(waits.join().unwrap(), Err(ChannelError::Closed)));
        let ((outgoing, mut incoming), _worker) = both();
        ends.has_lane(&outgoing);
        assert!(matches!(incoming.wait(None), Err(ChannelError::Closed)));
    }

    #[test]
    fn a_frame_that_does_not_fit_is_not_sent_and_one_that_just_fits_is() {
        let (mut server, mut worker) = both();
        let text = "x".repeat(LONGEST_ANSWER);
        let error = worker.0.send(&text).unwrap_err();
        assert!(matches!(error, ChannelError::TooLong { bytes, room } if room < bytes), "{error}");
        assert!(!server.1.is_here().unwrap());
        let text = "x".repeat(LONGEST_ANSWER - 3);
        worker.0.send(&text).unwrap();
        assert_eq!(server.1.receive::<&str>().unwrap().len(), text.len());
        assert_eq!(worker.0.mapping.len(), 2 * PART);
    }

    #[test]
    fn counters_and_lengths_that_lie_are_garbage() {
        for (counted, head) in [(2, 4), (COUNT, 4), (1, LONGEST_ANSWER as u32 + 1), (1, u32::MAX)] {
            let (mut server, worker) = both();
            let pages = worker.0.mapping.pages();
            pages.write(pages.start(worker.0.own) + FRAME, &head.to_le_bytes()).unwrap();
            sent(&worker.0).store(counted, SeqCst);
            let error = server.1.receive::<u32>().unwrap_err();
            assert!(matches!(error, ChannelError::Garbage(_)), "{error}");
        }
    }
}
