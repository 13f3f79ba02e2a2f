//! What the C library's allocator keeps after a large model was read.

/// Gives freed memory back to the system. Blocking, some 10 ms for hundreds of megabytes.
///
/// Reading and packing weights frees about as much as it keeps, in pieces that glibc holds on to: without
/// this a process has twice the model's memory for as long as it lives.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: the call takes the allocator's own locks and touches only what is free.
        unsafe { malloc_trim(0) };
    }
}
