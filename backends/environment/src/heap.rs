//! What the C library's allocator keeps of memory that was freed, in how many heaps, and from what size on memory is
//! the system's own.

/// A block of so many bytes or more lies in pages of its own. These take no memory before they are written to, and the
/// system has them again as soon as the block is freed. A smaller one may lie where another one was.
pub const OWN_PAGES: usize = 1 << 20;

/// So much free memory is kept at the end of each of the allocator's heaps, where nothing else gives it back.
#[cfg(target_env = "gnu")]
const KEPT_AT_THE_END: usize = 2 << 20;

/// Heaps for each processor. Each keeps free pieces between those that are in use: by itself glibc makes four times as
/// many.
#[cfg(target_env = "gnu")]
const HEAPS_A_PROCESSOR: usize = 2;

/// Variables with which an operator sets one of these bounds, and what they hold then.
#[cfg(target_env = "gnu")]
const VARIABLES: [(&str, &str); 6] = [
    ("MALLOC_ARENA_MAX", ""),
    ("MALLOC_MMAP_THRESHOLD_", ""),
    ("MALLOC_TRIM_THRESHOLD_", ""),
    ("GLIBC_TUNABLES", "malloc.arena_max"),
    ("GLIBC_TUNABLES", "malloc.mmap_threshold"),
    ("GLIBC_TUNABLES", "malloc.trim_threshold"),
];

/// Has the allocator give large blocks pages of their own, always, and keep few heaps. To be called before there are
/// threads.
///
/// glibc moves that bound up to 32 MiB when such a block is freed. Then a body that was announced and has not come
/// lies in pages that others have written to, and takes all of its length; and each heap keeps up to 64 MiB at its end,
/// which [`give_back_memory`] does not reach.
pub fn keep_large_blocks_apart() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn mallopt(parameter: std::ffi::c_int, value: std::ffi::c_int) -> std::ffi::c_int;
        }
        const M_TRIM_THRESHOLD: std::ffi::c_int = -1;
        const M_MMAP_THRESHOLD: std::ffi::c_int = -3;
        const M_ARENA_MAX: std::ffi::c_int = -8;
        let is_set =
            |(name, part): &(&str, &str)| std::env::var(name).is_ok_and(|it| it.contains(part));
        if VARIABLES.iter().any(is_set) {
            return;
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for (parameter, number) in [
            (M_MMAP_THRESHOLD, OWN_PAGES),
            (M_TRIM_THRESHOLD, KEPT_AT_THE_END),
            (M_ARENA_MAX, processors.saturating_mul(HEAPS_A_PROCESSOR)),
        ] {
            let number = std::ffi::c_int::try_from(number).unwrap_or(std::ffi::c_int::MAX);
            // SAFETY: the call sets numbers of the allocator, under its own lock. One that it does not know changes
            // nothing.
            unsafe { mallopt(parameter, number) };
        }
    }
}

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

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Bytes of memory that this process has.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[test]
    fn a_large_block_takes_no_memory_before_it_is_written_to_whatever_was_freed() {
        keep_large_blocks_apart();
        let (length, before) = (16 * OWN_PAGES, resident());
        (0..4).for_each(|_| drop(black_box(vec![1u8; length])));
        let unwritten = black_box(Vec::<u8>::with_capacity(length));
        let more = resident().saturating_sub(before);
        assert!(more < length / 2, "{more}");
        drop(unwritten);
    }
}
