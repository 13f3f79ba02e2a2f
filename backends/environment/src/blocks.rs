//! Blocks of memory that a native library asks for and that this process cannot have. Linux gives any number of bytes
//! and ends the process when they are written to; here the library is told that there are none, as on a system that
//! counts what it promises, and fails its load or its run.
//!
//! libtorch and TensorFlow take their tensors by `posix_memalign`, ONNX Runtime by C++'s `operator new`, which takes
//! aligned blocks by `aligned_alloc` and all others by `malloc`. A program may define the three itself: the dynamic
//! linker gives them to all libraries that are opened then. All else goes to the C library's own.
//!
//! Rust's own types would take by `malloc`, too, and end the process where they are refused. A program that has blocks
//! refused keeps them apart: its global allocator is [`crate::OwnHeap`].

use std::{
    cell::Cell,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::heap::give_back_memory;

/// A block of so many bytes or more is asked about. To ask takes some 20 µs, and to write to so many some 10 ms.
const LARGE: usize = 32 << 20;

/// Smaller blocks down to this are asked about whenever they have come to much together: a loop that keeps what each
/// round makes takes all there is in blocks of which none is large. What Rust's own types take by such a function is
/// smaller yet, and is never refused.
const SMALL: usize = 64 << 10;

/// Smaller ones yet, by `malloc` alone, are asked about together, whenever a thread has taken so many bytes of them: a
/// tensor of texts is a block for each.
const TINY_TOGETHER: usize = 1 << 20;

/// What the C library takes for the smallest block. Its bytes are a multiple of half of it.
const SMALLEST: usize = 32;

thread_local! {
    /// Bytes of such blocks that this thread has taken since it was last asked.
    static TINY: Cell<usize> = const { Cell::new(0) };
}

/// So much has to be left beside a block that is not large.
const KEPT: usize = 16 << 20;

/// So many bytes of blocks that are not large may be given before it is asked again.
static UNASKED: AtomicUsize = AtomicUsize::new(0);

/// How many bytes this process can still have; `None` where nobody knows.
type Left = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Whom to ask. The C library's function has no place for it.
static LEFT: OnceLock<Left> = OnceLock::new();

/// Has native libraries be refused blocks of more bytes than `left` says that there are. It is called by whatever
/// thread asks for one. Only the first call in a process counts; to be made before models are loaded.
pub fn refuse_blocks_beyond(left: impl Fn() -> Option<u64> + Send + Sync + 'static) {
    let _ = LEFT.set(Box::new(left));
}

/// Is there no such block?
fn is_refused(bytes: usize) -> bool {
    if bytes < SMALL {
        return false;
    }
    let take = |unasked: usize| unasked.checked_sub(bytes);
    if bytes < LARGE && UNASKED.fetch_update(Relaxed, Relaxed, take).is_ok() {
        return false;
    }
    // What was freed and is kept is of use to others: it counts as taken until then.
    lacks(bytes) && {
        give_back_memory();
        lacks(bytes)
    }
}

/// Is less left than such a block takes?
fn lacks(bytes: usize) -> bool {
    let Some(left) = LEFT.get().and_then(|left| left()) else { return false };
    let rest = usize::try_from(left).unwrap_or(usize::MAX).checked_sub(bytes);
    // Half of it: what was given and has not been written to is left yet.
    let unasked = rest.unwrap_or(0).saturating_sub(KEPT).min(LARGE) / 2;
    UNASKED.store(unasked, Relaxed);
    let kept = if bytes < LARGE { KEPT } else { 0 };
    rest.is_none_or(|it| it < kept)
}

/// The same of a block by `malloc`, of any size.
fn is_refused_by_malloc(bytes: usize) -> bool {
    if SMALL <= bytes {
        return is_refused(bytes);
    }
    let taken = bytes + size_of::<usize>();
    let together = TINY.get() + taken.next_multiple_of(SMALLEST / 2).max(SMALLEST);
    // None, before it is asked: whoever answers may take some.
    TINY.set(if together < TINY_TOGETHER { together } else { 0 });
    TINY_TOGETHER <= together && is_refused(together)
}

#[cfg(target_env = "gnu")]
mod of_the_c_library {
    use std::{
        ffi::{c_int, c_void},
        ptr::null_mut,
    };

    use super::{is_refused, is_refused_by_malloc};
    use crate::own_heap::plain;

    /// As C has it: null and `errno` where there is none.
    #[unsafe(no_mangle)]
    extern "C" fn malloc(bytes: usize) -> *mut c_void {
        if is_refused_by_malloc(bytes) {
            return refuse(libc::ENOMEM);
        }
        plain(bytes)
    }

    fn refuse(fault: c_int) -> *mut c_void {
        // SAFETY: the place of this thread's own number.
        unsafe { *libc::__errno_location() = fault };
        null_mut()
    }

    /// As POSIX has it: `alignment` is a power of two and a multiple of a pointer's size.
    ///
    /// # Safety
    /// `place` is where a pointer may be written.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(
        place: *mut *mut c_void,
        alignment: usize,
        bytes: usize,
    ) -> c_int {
        if !alignment.is_power_of_two() || alignment < size_of::<*mut c_void>() {
            return libc::EINVAL;
        }
        if is_refused(bytes) {
            return libc::ENOMEM;
        }
        // SAFETY: the alignment is a power of two. What it gives is freed by `free`, as POSIX has it.
        let block = unsafe { libc::memalign(alignment, bytes) };
        if block.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: the caller's promise.
        unsafe { place.write(block) };
        0
    }

    /// As C has it: null and `errno` where there is none.
    #[unsafe(no_mangle)]
    extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
        let fault = match alignment.is_power_of_two() {
            false => libc::EINVAL,
            true if is_refused(bytes) => libc::ENOMEM,
            // SAFETY: the alignment is a power of two. What it gives is freed by `free`, as C has it.
            true => return unsafe { libc::memalign(alignment, bytes) },
        };
        refuse(fault)
    }
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use std::{
        ffi::c_void,
        ptr::null_mut,
        sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    };

    use super::*;

    unsafe extern "C" {
        fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
        fn malloc(bytes: usize) -> *mut c_void;
    }

    /// What the tests take themselves is never refused.
    #[global_allocator]
    static HEAP: crate::own_heap::OwnHeap = crate::own_heap::OwnHeap;

    /// What this process is said to have left. The tests share it.
    static SAID: AtomicU64 = AtomicU64::new(100 << 20);

    /// Guards that. One test at a time.
    static TURN: Mutex<()> = Mutex::new(());

    fn turn() -> MutexGuard<'static, ()> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        SAID.store(100 << 20, Relaxed);
        refuse_blocks_beyond(|| Some(SAID.load(Relaxed)));
        turn
    }

    #[test]
    fn small_blocks_are_refused_once_too_little_is_left_and_given_when_there_is_more() {
        let _turn = turn();
        let ask = || {
            // SAFETY: what was given is freed once.
            let block = unsafe { aligned_alloc(64, LARGE / 8) };
            let is_given = !block.is_null();
            // SAFETY: as above.
            unsafe { libc::free(block) };
            is_given
        };
        assert!((0..40).all(|_| ask()));
        SAID.store(KEPT as u64, Relaxed);
        let given = (0..40).filter(|_| ask()).count();
        assert!(given < 5, "{given} blocks of an eighth each");
        SAID.store(100 << 20, Relaxed);
        assert!((0..40).all(|_| ask()));
    }

    #[test]
    fn tiny_blocks_are_refused_once_too_little_is_left_for_all_of_them_and_rust_is_given_its_own() {
        let _turn = turn();
        let ask = || {
            // SAFETY: what was given is freed once.
            let block = unsafe { malloc(21) };
            let is_given = !block.is_null();
            // SAFETY: as above.
            unsafe { libc::free(block) };
            is_given
        };
        let of_32_mib = LARGE / SMALLEST;
        assert!((0..2 * of_32_mib).all(|_| ask()));
        SAID.store(KEPT as u64 - 1, Relaxed);
        let given = (0..2 * of_32_mib).take_while(|_| ask()).count();
        assert!(given < of_32_mib, "{given} blocks");
        let own: Vec<Box<[u8; 21]>> = (0..of_32_mib / 8).map(|_| Box::new([1; 21])).collect();
        assert_eq!(own.len(), of_32_mib / 8);
        // SAFETY: nothing was given.
        assert!(unsafe { malloc(SMALL) }.is_null());
    }

    #[test]
    fn a_block_that_this_process_cannot_have_is_refused_and_no_other() {
        let _turn = turn();
        let ask = |alignment, bytes| {
            let mut block = null_mut();
            // SAFETY: one pointer is written, and what was given is freed once.
            let said = unsafe { libc::posix_memalign(&mut block, alignment, bytes) };
            assert_eq!(block.is_null(), said != 0);
            assert!(said != 0 || block.addr().is_multiple_of(alignment));
            // SAFETY: as above.
            unsafe { libc::free(block) };
            said
        };
        assert_eq!(ask(64, (100 << 20) + 1), libc::ENOMEM);
        assert_eq!(ask(64, 100 << 20), 0);
        assert_eq!(ask(4096, 100), 0);
        assert_eq!(ask(3, 100), libc::EINVAL);
        assert_eq!(ask(4, 100), libc::EINVAL);
        for (alignment, bytes, is_given) in
            [(64, (100 << 20) + 1, false), (64, 100 << 20, true), (64, 100, true), (3, 100, false)]
        {
            // SAFETY: what was given is freed once.
            let block = unsafe { aligned_alloc(alignment, bytes) };
            assert_eq!(!block.is_null(), is_given, "{bytes} bytes by {alignment}");
            // SAFETY: as above.
            unsafe { libc::free(block) };
        }
    }
}
