//! The memory that a session's arena holds and no run or output uses: how much it is, and giving it back.
//!
//! ONNX Runtime lets an arena shrink at the end of a run only, and not while an output of that run is alive, which lies
//! in it. So there is a run for it that is ended before its first operator.

use std::{
    ffi::{CStr, CString, c_char},
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use backend::{DataType, Shape, Tensor};
use ort::{logging::LogLevel, session::RunOptions, sys};

use super::{
    session::{Kind, Port, Session},
    table::{Native, Result, check, made},
    value::Value,
};
use crate::element;

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
    fn allows(self, own: u64, all: u64) -> bool {
        own <= self.of_one && (all <= self.of_all || own <= ALWAYS_KEPT)
    }
}

/// The arena that the runs of a session take their memory from.
pub(super) struct Arena {
    allocator: NonNull<sys::OrtAllocator>,
    table: &'static sys::OrtApi,
    keeping: Keeping,
    /// Is it that of other sessions, too?
    is_common: bool,
    /// What it held idle when it was last looked at; 0 where it is common.
    known: AtomicU64,
    is_shrinking: AtomicBool,
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
    fn idle(&self) -> Option<u64> {
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

impl Session {
    /// Has the arena give back what it holds for later runs, where that is more than a session may keep. To be called
    /// after runs that may have taken much, and when a large output is gone. Some microseconds where there is nothing to
    /// give back.
    pub(crate) fn settle(&self) {
        let Some(arena) = &self.arena else { return };
        let Some(idle) = arena.idle() else { return };
        if self.note_idle(arena, idle) || arena.is_shrinking.swap(true, Relaxed) {
            return;
        }
        if let Err(error) = self.shrink() {
            tracing::debug!(error = error.message(), "an arena of ONNX Runtime cannot shrink");
        }
        arena.is_shrinking.store(false, Relaxed);
        if let Some(idle) = arena.idle() {
            self.note_idle(arena, idle);
        }
    }

    /// Notes that the arena has so many bytes idle. May it keep them?
    fn note_idle(&self, arena: &Arena, idle: u64) -> bool {
        if arena.is_common {
            return idle <= arena.keeping.of_all;
        }
        let kept = &self.runtime().kept;
        let before = arena.known.swap(idle, Relaxed);
        let all = kept.fetch_add(idle, Relaxed).wrapping_add(idle).wrapping_sub(before);
        kept.fetch_sub(before, Relaxed);
        arena.keeping.allows(idle, all)
    }

    /// It will not keep anything.
    pub(super) fn forget_idle(&self) {
        if let Some(arena) = &self.arena {
            self.runtime().kept.fetch_sub(arena.known.load(Relaxed), Relaxed);
        }
    }

    /// Makes a run that is over before it begins, at the end of which the arena shrinks.
    fn shrink(&self) -> Result<()> {
        let mut options = RunOptions::new()?;
        options.set_log_level(LogLevel::Fatal)?;
        options.set("memory.enable_memory_arena_shrinkage", "cpu:0")?;
        options.terminate()?;
        let native = &self.runtime().native;
        let empty: Vec<Empty> = self.inputs()?.iter().map(Empty::of).collect::<Result<_>>()?;
        let values = empty.iter().map(|it| it.value(native)).collect::<Result<Vec<_>>>()?;
        let outputs = self.outputs()?;
        let names: Vec<*const c_char> = empty.iter().map(|it| it.name.as_ptr()).collect();
        let pointers: Vec<_> = values.iter().map(Value::pointer).collect();
        let wanted: Vec<*const c_char> =
            outputs.iter().take(1).map(|it| it.name.as_ptr()).collect();
        let mut results = vec![ptr::null_mut(); wanted.len()];
        // SAFETY: names and values are alive, and `results` is of nulls. What the run may have left is taken over below;
        // it is gone before the session.
        unsafe {
            // It fails, as it was asked to end.
            let _ = self.run(&options, &names, &pointers, &wanted, &mut results);
            results.into_iter().for_each(|it| drop(Value::from_run(native, it)));
        }
        Ok(())
    }
}

/// An input of which nothing is read: of no elements where that can be, else of zeros that take no memory yet.
struct Empty {
    name: CString,
    shape: Vec<i64>,
    zeros: Tensor,
}

impl Empty {
    fn of(port: &Port) -> Result<Empty> {
        let strange = || ort::Error::new("an input has a type that is not known");
        let Kind::Tensor { element, dims } = &port.kind else { return Err(strange()) };
        let dtype = element::from_element(*element).ok_or_else(strange)?;
        let shape: Vec<i64> = dims.iter().flatten().map(|&it| it.max(0)).collect();
        let dims: Shape = shape.iter().filter_map(|&it| usize::try_from(it).ok()).collect();
        let zeros = Tensor::zeros(dtype, dims).map_err(|_| strange())?;
        Ok(Empty { name: port.name.clone(), shape, zeros })
    }

    fn value(&self, native: &Native) -> Result<Value<'_>> {
        let dtype = self.zeros.dtype();
        if dtype == DataType::Bytes {
            return Value::strings(native, &self.shape, self.zeros.strings());
        }
        let data = self.zeros.contiguous().map(|it| &**it).unwrap_or_default();
        // SAFETY: zeros are aligned for a `u64`, and so for every element type; they are valid elements of each, and
        // nobody writes to them.
        unsafe { Value::lent(native, element::to_element(dtype), &self.shape, data) }
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
