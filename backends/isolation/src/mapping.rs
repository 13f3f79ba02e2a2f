//! Memory that two processes share: an anonymous file of fixed size, mapped by both, of which each writes to one half.

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
    sync::Arc,
};

use bytes::Bytes;
use rustix::{
    fs::{FallocateFlags, MemfdFlags, SealFlags},
    io::Errno,
    mm::{MapFlags, ProtFlags},
};

use crate::pages::{Counters, Pages};

/// A sealed memory file and its pages in this process. Nobody can make it shorter, so that no access faults: a page
/// that was given back reads as zeros.
pub(crate) struct Mapping {
    pages: Pages,
    file: OwnedFd,
}

impl Mapping {
    /// A new file of `len` bytes, of which this process writes to the first half. Pages take memory once they are
    /// written.
    pub(crate) fn create(len: usize) -> io::Result<Mapping> {
        Mapping::map(sealed_file(len)?, len, 0..len / 2, false)
    }

    /// The same with counters at the front of each half.
    pub(crate) fn with_counters(len: usize) -> io::Result<Mapping> {
        Mapping::map(sealed_file(len)?, len, 0..len / 2, true)
    }

    /// The file that another process has made: this one writes to the second half.
    ///
    /// # Errors
    /// Where it could be made shorter.
    pub(crate) fn open(file: OwnedFd) -> io::Result<Mapping> {
        let len = sealed_len(&file)?;
        Mapping::map(file, len, len / 2..len, false)
    }

    /// The same of one with counters.
    pub(crate) fn open_with_counters(file: OwnedFd) -> io::Result<Mapping> {
        let len = sealed_len(&file)?;
        Mapping::map(file, len, len / 2..len, true)
    }

    fn map(
        file: OwnedFd,
        len: usize,
        own: Range<usize>,
        has_counters: bool,
    ) -> io::Result<Mapping> {
        // Halves begin where counters may be, as pages do, and are longer than them.
        let has_room =
            (len / 2).is_multiple_of(align_of::<Counters>()) && 2 * size_of::<Counters>() <= len;
        if has_counters && !has_room {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses an address that nothing uses.
        let base = unsafe {
            rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0)?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        // SAFETY: the pages belong to this value until it is dropped. Each caller's half is within them.
        let pages = unsafe {
            match has_counters {
                // They are where numbers may be, are zeros at first, and a file is opened in one way alone.
                true => Pages::with_counters(base, len, own),
                false => Pages::new(base, len, own),
            }
        };
        Ok(Mapping { pages, file })
    }

    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Bytes of memory that its pages take.
    pub(crate) fn bytes_in_use(&self) -> u64 {
        /// What the system counts in, whatever the size of a page.
        const BLOCK: u64 = 512;
        let blocks = rustix::fs::fstat(&self.file).map_or(0, |it| it.st_blocks);
        u64::try_from(blocks).unwrap_or(0).saturating_mul(BLOCK)
    }

    /// What of it can be read and written.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// That range of the first half itself, in the process that writes to the second. `None` where it is not all there.
    ///
    /// The other process is trusted not to write there while the bytes, or copies of them, live.
    pub(crate) fn inputs(self: &Arc<Mapping>, at: usize, len: usize) -> Option<Bytes> {
        self.pages.view(at, len)?;
        Some(Bytes::from_owner(Inputs { mapping: self.clone(), at, len }))
    }

    /// Gives the memory of that range back to the system; it reads as zeros from then on.
    pub(crate) fn give_back(&self, at: usize, len: usize) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, at as u64, len as u64)?)
    }
}

/// A file of that length, which nobody can change any more.
fn sealed_file(len: usize) -> io::Result<OwnedFd> {
    let file = memory_file("muster-lane")?;
    rustix::fs::ftruncate(&file, len as u64)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// The length of a file that nobody can make shorter.
fn sealed_len(file: &OwnedFd) -> io::Result<usize> {
    let seals = rustix::fs::fcntl_get_seals(file)?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(io::Error::other("the memory file is not sealed"));
    }
    usize::try_from(rustix::fs::fstat(file)?.st_size).map_err(io::Error::other)
}

/// A file in memory that can be sealed, and that nobody can run: systems may refuse others (`vm.memfd_noexec` 2).
fn memory_file(name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know it.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is that of `map`, and nothing refers to it any more: whatever does holds this value.
        let unmapped =
            unsafe { rustix::mm::munmap(self.pages.base().as_ptr().cast(), self.pages.len()) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

struct Inputs {
    mapping: Arc<Mapping>,
    at: usize,
    len: usize,
}

impl AsRef<[u8]> for Inputs {
    fn as_ref(&self) -> &[u8] {
        self.mapping.pages.view(self.at, self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_file_are_the_same_memory_and_each_writes_to_its_half() {
        let ours = Arc::new(Mapping::create(1 << 20).unwrap());
        let theirs = Arc::new(Mapping::open(ours.file().try_clone_to_owned().unwrap()).unwrap());
        assert_eq!(theirs.len(), 1 << 20);
        ours.pages().write(4096, b"some bytes").unwrap();
        assert_eq!(&theirs.inputs(4096, 10).unwrap()[..], b"some bytes");
        theirs.pages().write(1 << 19, b"an answer").unwrap();
        assert_eq!(&ours.pages().read(1 << 19, 9).unwrap()[..], b"an answer");
        assert!(ours.pages().write(1 << 19, b"!").is_none());
        assert!(theirs.pages().write(4096, b"!").is_none());
        assert!(ours.inputs(0, 1).is_none());
        assert!(theirs.inputs(1, usize::MAX).is_none());
    }

    #[test]
    fn nobody_runs_the_file_where_the_kernel_can_see_to_that() {
        let mapping = Mapping::create(4096).unwrap();
        let is_known = rustix::fs::memfd_create("known", MemfdFlags::NOEXEC_SEAL).is_ok();
        let may_run = rustix::fs::fstat(mapping.file()).unwrap().st_mode & 0o111 != 0;
        assert!(!may_run || !is_known);
        assert!(rustix::fs::fchmod(mapping.file(), 0o700.into()).is_err() || !is_known);
    }

    #[test]
    fn nobody_makes_the_file_shorter_and_what_is_given_back_reads_as_zeros() {
        let mapping = Mapping::create(8192).unwrap();
        assert!(rustix::fs::ftruncate(mapping.file(), 0).is_err());
        assert_eq!(mapping.bytes_in_use(), 0);
        mapping.pages().write(0, b"gone").unwrap();
        assert_eq!(mapping.bytes_in_use(), 4096);
        mapping.give_back(0, 4096).unwrap();
        assert_eq!(mapping.bytes_in_use(), 0);
        assert_eq!(&mapping.pages().read(0, 4).unwrap()[..], [0; 4]);
        let unsealed = rustix::fs::memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(Mapping::open(unsealed).is_err());
    }
}
