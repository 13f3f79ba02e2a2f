//! The arena that the runs of a session take their memory from: how much of it nobody uses, and how much it may keep.

use std::{
    ffi::CStr,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicU64},
};

use ort::sys;

use super::table::{Native, check, made};

/// What an arena keeps in any case: its first region, which it never gives back.
const ALWAYS_KEPT: u64 = 2 << 20;

/// Of how much idle memory sessions are relieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keeping {
    /// Most of one session.
    pub(crate) of_one: u64,
    /// Most of all sessions of the process together.
    pub(crate) of_all: u64,
}

impl Keeping {
    /// May sessions keep any number of bytes?
    pub(crate) const ANY: Keeping = Keeping { of_one: u64::MAX, of_all: u64::MAX };

    /// Where all sessions together may keep so much. No session takes more than a quarter of it.
    pub(crate) fn within(all: u64) -> Keeping {
        Keeping { of_one: (all / 4).max(ALWAYS_KEPT), of_all: all.max(ALWAYS_KEPT) }
    }

    /// May a session keep that of its own, where all together have so much?
    pub(super) fn allows(self, own: u64, all: u64) -> bool {
        own <= self.of_one && (all <= self.of_all || own <= ALWAYS_KEPT)
    }
}

/// The arena that the runs of a session take their memory from.
pub(super) struct Arena {
    allocator: NonNull<sys::OrtAllocator>,
    table: &'static sys::OrtApi,
    pub(super) keeping: Keeping,
    /// Is it that of other sessions, too?
    pub(super) is_common: bool,
    /// What it held idle when it was last looked at; 0 where it is common.
    pub(super) known: AtomicU64,
    pub(super) is_shrinking: AtomicBool,
}

impl Arena {
    /// That of a session that was just made; `None` where it has none.
    ///
    /// # Safety
    /// The session is alive, and outlives what is made here.
    pub(super) unsafe fn of(
        native: &Native,
        session: NonNull<sys::OrtSession>,
        keeping: Keeping,
        is_common: bool,
    ) -> Option<Arena> {
        let table = native.table;
        let (mut memory, mut allocator) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: one pointer is written by each call; the session is alive, the description of the memory is copied
        // and released once.
        let allocator = unsafe {
            check((table.CreateCpuMemoryInfo)(
                sys::OrtAllocatorType::OrtArenaAllocator,
                sys::OrtMemType::OrtMemTypeDefault,
                &mut memory,
            ))
            .ok()?;
            let made_it = check((table.CreateAllocator)(session.as_ptr(), memory, &mut allocator));
            (table.ReleaseMemoryInfo)(memory);
            made_it.and_then(|()| made(allocator)).ok()?
        };
        let (known, is_shrinking) = Default::default();
        let arena = Arena { allocator, table, keeping, is_common, known, is_shrinking };
        arena.begin();
        arena.idle().map(|_| arena)
    }

    /// Has its first region be a small one. An arena never gives that back, and a client's request may be the first.
    fn begin(&self) {
        let mut place = ptr::null_mut();
        // SAFETY: the allocator is alive; what it gives goes back to it at once.
        unsafe {
            if check((self.table.AllocatorAlloc)(self.allocator.as_ptr(), 64, &mut place)).is_ok() {
                let _ = check((self.table.AllocatorFree)(self.allocator.as_ptr(), place));
            }
        }
    }

    /// Bytes that it holds and nobody uses; `None` where the library does not say. Some microseconds.
    pub(super) fn idle(&self) -> Option<u64> {
        let mut stats = ptr::null_mut();
        // SAFETY: the allocator is alive, and one pointer is written.
        unsafe { check((self.table.AllocatorGetStats)(self.allocator.as_ptr(), &mut stats)).ok()? };
        let stats = made(stats).ok()?.as_ptr();
        let number = |key: &CStr| {
            // SAFETY: the table of figures is alive until the line below; a value is a C string in it, or null.
            let text = unsafe {
                let value = (self.table.GetKeyValue)(stats, key.as_ptr());
                (!value.is_null()).then(|| CStr::from_ptr(value))
            };
            text?.to_str().ok()?.parse::<u64>().ok()
        };
        let idle = number(c"TotalAllocated")
            .zip(number(c"InUse"))
            .map(|(all, used)| all.saturating_sub(used));
        // SAFETY: it was made for us, and nothing points into it any more.
        unsafe { (self.table.ReleaseKeyValuePairs)(stats) };
        idle
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: made by `CreateAllocator`, released once, before its session.
        unsafe { (self.table.ReleaseAllocator)(self.allocator.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_a_quarter_of_what_all_may_and_little_where_all_have_that() {
        let keeping = Keeping::within(128 << 20);
        assert!(keeping.allows(32 << 20, 100 << 20));
        assert!(!keeping.allows((32 << 20) + 1, 100 << 20));
        assert!(!keeping.allows(16 << 20, (128 << 20) + 1));
        assert!(keeping.allows(ALWAYS_KEPT, u64::MAX), "it would give nothing back");
        assert!(Keeping::ANY.allows(u64::MAX, u64::MAX));
        assert!(Keeping::within(0).allows(ALWAYS_KEPT, 0));
    }
}
