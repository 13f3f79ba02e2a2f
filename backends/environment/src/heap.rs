//! What the C library's allocator keeps of memory that was freed.

/// Gives freed memory back to the system. Blocking, some 10 ms for hundreds of megabytes.
///
/// glibc holds on to pieces between others that are in use. Reading and packing weights frees about as much as it
/// keeps: without this a process has twice the model's memory for as long as it lives. Connections at rest lie between
/// the buffers that they had.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: the call takes the allocator's own locks and touches only what is free.
        unsafe { malloc_trim(0) };
    }
}
