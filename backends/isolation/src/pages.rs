//! Memory that two processes write to, each to a part of its own: copies in, copies out, and views, all within its
//! bounds. Where the memory comes from is not said here.

use std::{
    ops::Range,
    ptr::{self, NonNull},
    sync::atomic::AtomicU32,
};

use bytes::Bytes;

/// The memory as one of the two has it.
pub(crate) struct Pages {
    base: NonNull<u8>,
    len: usize,
    /// What this process may write to.
    own: Range<usize>,
    /// Are there counters at the front of each half? They are reached as such alone.
    has_counters: bool,
}

/// One of the two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    First,
    Second,
}

impl Half {
    pub(crate) const fn other(self) -> Half {
        match self {
            Half::First => Half::Second,
            Half::Second => Half::First,
        }
    }
}

/// Numbers at the front of a half, by which its side says what it has done. What is written and looked at most is on a
/// line of the processor's cache by itself.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Counters {
    /// Frames that it has put there.
    pub(crate) sent: AtomicU32,
    _rest: [AtomicU32; 15],
    /// Does it sleep until there is one of the other's?
    pub(crate) sleeps: AtomicU32,
    /// Frames of the other's that it has taken.
    pub(crate) taken: AtomicU32,
}

// SAFETY: the memory is there for as long as this value is used, see `new`. It is reached by copies within its bounds,
// by `view`, to whose part nothing in this process writes, or as numbers that anybody may write at any time.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// # Safety
    ///
    /// The `len` bytes at `base` may be read and written until this value is dropped, `own` lies within them, and
    /// nobody in this process has a reference into `own`.
    pub(crate) unsafe fn new(base: NonNull<u8>, len: usize, own: Range<usize>) -> Pages {
        Pages { base, len, own, has_counters: false }
    }

    /// The same with counters at the front of each half.
    ///
    /// # Safety
    ///
    /// As of [`Pages::new`]. Whoever else in this process reaches that memory does so by pages with counters, too. Both
    /// halves begin where counters may be, hold them, and read as zeros or as what the other process has written.
    pub(crate) unsafe fn with_counters(base: NonNull<u8>, len: usize, own: Range<usize>) -> Pages {
        Pages { base, len, own, has_counters: true }
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Is that range there, and no counter in it?
    fn holds(&self, at: usize, len: usize) -> bool {
        let is_counter = |end: usize| {
            let fronts = [Half::First, Half::Second].map(|it| self.start(it));
            fronts.into_iter().any(|it| it < end && at < it + size_of::<Counters>())
        };
        let end = at.checked_add(len).filter(|end| *end <= self.len);
        end.is_some_and(|end| !(self.has_counters && is_counter(end)))
    }

    /// Where that half begins.
    pub(crate) fn start(&self, half: Half) -> usize {
        match half {
            Half::First => 0,
            Half::Second => self.len / 2,
        }
    }

    /// Those of that half. Only of pages that have any.
    pub(crate) fn counters(&self, half: Half) -> &Counters {
        assert!(self.has_counters, "these pages were made with counters");
        // SAFETY: they are within the memory, where there is room for them by `with_counters`, and are of numbers
        // alone, of which all bits are one. Nothing in this process reaches them otherwise, see `holds`.
        unsafe { self.base.add(self.start(half)).cast::<Counters>().as_ref() }
    }

    /// Copies these bytes to that place. `None` where they do not fit into this process's part.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Option<()> {
        let end = at.checked_add(bytes.len())?;
        if at < self.own.start || self.own.end < end || !self.holds(at, bytes.len()) {
            return None;
        }
        // SAFETY: the range is within this process's part, of which nobody here has a reference: `bytes` is elsewhere,
        // or in the other part.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(at), bytes.len());
        }
        Some(())
    }

    /// A copy of that range, aligned for every element type. `None` where it is not all there.
    pub(crate) fn read(&self, at: usize, len: usize) -> Option<Bytes> {
        if !self.holds(at, len) {
            return None;
        }
        let mut words: Vec<u64> = Vec::new();
        let count = len.div_ceil(size_of::<u64>());
        words.try_reserve_exact(count).ok()?;
        // SAFETY: the range is within the memory; the copy has room for it and for the rest of its last word, which
        // is written first. No reference to the other process's memory is made.
        unsafe {
            if let Some(last) = count.checked_sub(1) {
                words.as_mut_ptr().add(last).write(0);
            }
            let from = self.base.as_ptr().add(at);
            ptr::copy_nonoverlapping(from, words.as_mut_ptr().cast::<u8>(), len);
            words.set_len(count);
        }
        Some(Bytes::from_owner(Words { words, len }))
    }

    /// Copies that range, which is as long as the copy. `None` where it is not all there.
    pub(crate) fn copy(&self, at: usize, copy: &mut [u8]) -> Option<()> {
        if !self.holds(at, copy.len()) {
            return None;
        }
        // SAFETY: the range is within the memory, and the copy is elsewhere: nobody has a reference to this process's
        // part that could be written by, nor any to the other's.
        unsafe {
            let from = self.base.as_ptr().add(at);
            ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), copy.len());
        }
        Some(())
    }

    /// That range itself, before this process's part. `None` where it is not all there.
    ///
    /// The other process is trusted not to write there while the bytes are used.
    pub(crate) fn view(&self, at: usize, len: usize) -> Option<&[u8]> {
        let end = at.checked_add(len)?;
        if self.own.start < end || !self.holds(at, len) {
            return None;
        }
        // SAFETY: the range is within the memory, which is there as long as this value. Nothing in this process writes
        // there, and the other one does not meanwhile.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at), len) })
    }

    /// Where in the memory these bytes lie, if they do.
    pub(crate) fn place_of(&self, bytes: &[u8]) -> Option<usize> {
        let at = (bytes.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        self.holds(at, bytes.len()).then_some(at)
    }
}

struct Words {
    words: Vec<u64>,
    len: usize,
}

impl AsRef<[u8]> for Words {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `len` bytes are at most those of all words, which are written.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }
}

/// Both sides of memory of this process, for tests that need no other, and for Miri, which knows no files that are
/// mapped.
#[cfg(test)]
pub(crate) struct BothSides {
    pub(crate) ours: Pages,
    pub(crate) theirs: Pages,
    _memory: std::rc::Rc<[std::cell::UnsafeCell<Line>]>,
}

#[cfg(test)]
#[derive(Default)]
#[repr(align(64))]
struct Line {
    _zeros: [u64; 8],
}

#[cfg(test)]
impl BothSides {
    /// Of so many bytes each, a multiple of 8.
    pub(crate) fn new(half: usize) -> BothSides {
        // SAFETY: the memory goes with both, may be written by way of a shared reference, and nothing else refers to
        // it.
        BothSides::of(half, |base, len, own| unsafe { Pages::new(base, len, own) })
    }

    /// The same with counters, of a multiple of 64 bytes.
    pub(crate) fn with_counters(half: usize) -> BothSides {
        assert!(half.is_multiple_of(align_of::<Counters>()) && size_of::<Counters>() <= half);
        // SAFETY: as above; it is zeros, and a line begins at each half.
        BothSides::of(half, |base, len, own| unsafe { Pages::with_counters(base, len, own) })
    }

    fn of(half: usize, pages: impl Fn(NonNull<u8>, usize, Range<usize>) -> Pages) -> BothSides {
        let len = half * 2;
        let lines = len.div_ceil(size_of::<Line>());
        let memory: std::rc::Rc<[_]> =
            (0..lines).map(|_| std::cell::UnsafeCell::new(Line::default())).collect();
        let base = NonNull::from(&*memory).cast::<u8>();
        let (ours, theirs) = (pages(base, len, 0..half), pages(base, len, half..len));
        BothSides { ours, theirs, _memory: memory }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn both_sides_see_what_either_writes() {
        let BothSides { ours, theirs, .. } = &BothSides::new(4096);
        ours.write(1001, b"some bytes").unwrap();
        let seen = theirs.view(1001, 10).unwrap();
        assert_eq!(seen, b"some bytes");
        assert_eq!(theirs.place_of(&seen[5..]), Some(1006));
        assert_eq!(theirs.place_of(b"elsewhere"), None);
        theirs.write(4096, seen).unwrap();
        assert_eq!(&ours.read(4096, 10).unwrap()[..], b"some bytes");
    }

    #[test]
    fn a_copy_is_aligned_whatever_its_place_and_length() {
        let BothSides { ours, theirs, .. } = &BothSides::new(64);
        let numbers: Vec<u8> = (0..64).collect();
        theirs.write(64, &numbers).unwrap();
        for (at, len) in (64..96).flat_map(|at| (0..24).map(move |len| (at, len))) {
            let copy = ours.read(at, len).unwrap();
            assert_eq!(&copy[..], &numbers[at - 64..at - 64 + len]);
            assert!(copy.is_empty() || (copy.as_ptr() as usize).is_multiple_of(8));
        }
    }

    #[test]
    fn counters_are_seen_by_both_sides_and_are_no_bytes_of_either() {
        const COUNTERS: usize = size_of::<Counters>();
        let BothSides { ours, theirs, .. } = &BothSides::with_counters(4096);
        assert_eq!(COUNTERS, 128);
        ours.counters(Half::First).sent.store(7, Relaxed);
        theirs.counters(Half::Second).taken.store(6, Relaxed);
        assert_eq!(theirs.counters(Half::First).sent.load(Relaxed), 7);
        assert_eq!(ours.counters(Half::Second).taken.load(Relaxed), 6);
        for start in [0, 4096] {
            for (at, len) in [(start, 1), (start + COUNTERS - 1, 8), (start, 4096)] {
                assert!(ours.read(at, len).is_none() && theirs.view(at, len).is_none());
                assert!(ours.copy(at, &mut vec![0; len]).is_none());
                assert!(ours.write(at, &vec![0; len]).is_none());
                assert!(theirs.write(at, &vec![0; len]).is_none());
            }
        }
        assert!(ours.read(4090, 7).is_none(), "it ends within those of the other half");
        ours.write(COUNTERS, b"a frame").unwrap();
        let mut copy = [0; 7];
        theirs.copy(COUNTERS, &mut copy).unwrap();
        assert_eq!(&copy, b"a frame");
    }

    #[test]
    fn each_side_writes_to_its_half() {
        let BothSides { ours, theirs, .. } = &BothSides::new(4096);
        assert!(ours.write(4090, b"seven..").is_none());
        assert!(theirs.write(4090, b"seven..").is_none());
        assert!(theirs.write(8186, b"seven..").is_none());
        assert!(ours.write(usize::MAX, b"seven..").is_none());
        assert!(ours.read(8192, 1).is_none());
        assert!(ours.read(usize::MAX, 2).is_none());
        assert!(ours.view(0, 1).is_none());
        assert!(theirs.view(4096, 1).is_none());
        assert!(theirs.view(1, usize::MAX).is_none());
        assert!(ours.read(8192, 0).is_some_and(|it| it.is_empty()));
    }
}
