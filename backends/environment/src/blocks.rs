//! Blocks of memory that a native library asks for and that this process cannot have. Linux gives any number of bytes
//! and ends the process when they are written to; here the library is told that there are none, as on a system that
//! counts what it promises, and fails its load or its run.
//!
//! libtorch and TensorFlow take their tensors by `posix_memalign`, ONNX Runtime by C++'s `operator new`, which takes
//! aligned blocks by `aligned_alloc`. A program may define both itself: the dynamic linker gives them to all libraries
//! that are opened then. All else, and every smaller block, goes to the C library's own.

use std::sync::OnceLock;

/// A block of so many bytes or more is asked about. To ask takes some 20 µs, and to write to so many some 10 ms.
const LARGE: usize = 32 << 20;

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
    if bytes < LARGE {
        return false;
    }
    LEFT.get().and_then(|left| left()).is_some_and(|left| left < bytes as u64)
}

#[cfg(target_env = "gnu")]
mod of_the_c_library {
    use std::{
        ffi::{c_int, c_void},
        ptr::null_mut,
    };

    use super::is_refused;

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
        // SAFETY: the place of this thread's own number.
        unsafe { *libc::__errno_location() = fault };
        null_mut()
    }
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use std::{ffi::c_void, ptr::null_mut};

    use super::*;

    unsafe extern "C" {
        fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
    }

    #[test]
    fn a_block_that_this_process_cannot_have_is_refused_and_no_other() {
        refuse_blocks_beyond(|| Some(100 << 20));
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
