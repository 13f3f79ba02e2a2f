//! The heap of Rust's own types, where native libraries are refused blocks: theirs is not refused.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, but for the one function of it that [`crate::refuse_blocks_beyond`] has refuse small blocks.
/// To be the global allocator of a program that calls that function.
#[derive(Debug)]
pub struct OwnHeap;

/// What `malloc` aligns every block to.
#[cfg(target_env = "gnu")]
const ALIGNED: usize = 2 * size_of::<usize>();

/// A block as `malloc` gives it where none is refused, by another name: whichever library gives this process its heap
/// has that function, too, and frees what it gives. One may have been put before the C library (`LD_PRELOAD`).
#[cfg(target_env = "gnu")]
#[inline]
pub(crate) fn plain(bytes: usize) -> *mut std::ffi::c_void {
    // SAFETY: the alignment is a power of two, and any number of bytes may be asked for.
    unsafe { libc::memalign(ALIGNED, bytes) }
}

// SAFETY: all blocks are of the process's one heap, as those of `System` are, which frees them by `free` whatever their
// layout.
unsafe impl GlobalAlloc for OwnHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        #[cfg(target_env = "gnu")]
        if layout.align() <= ALIGNED {
            return plain(layout.size()).cast();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, and that `System` frees what is above by `free`.
        unsafe { System.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, bytes) }
    }
}
