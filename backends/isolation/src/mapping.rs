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
    mm::{MapFlags, ProtFlags},
};

/// A sealed memory file and its pages in this process. Nobody can make it shorter, so that no access faults: a page
/// that was given back reads as zeros.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// What this process may write to.
    own: Range<usize>,
    file: OwnedFd,
}

// SAFETY: the pages belong to this value until it is dropped, and are reached by copies within their bounds, or by
// `inputs`, to whose half nothing in this process writes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A new file of `len` bytes, of which this process writes to the first half. Pages take memory once they are
    /// written.
    pub(crate) fn create(len: usize) -> io::Result<Mapping> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("muster-lane", flags)?;
        rustix::fs::ftruncate(&file, len as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Mapping::map(file, len, 0..len / 2)
    }

    /// The file that another process has made: this one writes to the second half.
    ///
    /// # Errors
    /// Where it could be made shorter.
    pub(crate) fn open(file: OwnedFd) -> io::Result<Mapping> {
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::other("the memory file is not sealed"));
        }
        let len = rustix::fs::fstat(&file)?.st_size;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        Mapping::map(file, len, len / 2..len)
    }

    fn map(file: OwnedFd, len: usize, own: Range<usize>) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses an address that nothing uses.
        let base = unsafe {
            rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0)?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Mapping { base, len, own, file })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
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

    fn holds(&self, at: usize, len: usize) -> bool {
        at.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Copies these bytes to that place. `None` where they do not fit into this process's half.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> Option<()> {
        let end = at.checked_add(bytes.len())?;
        if at < self.own.start || self.own.end < end {
            return None;
        }
        // SAFETY: the range is within this process's half, of which nobody here has a reference: `bytes` is elsewhere,
        // or in the other half.
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
        // SAFETY: the range is within the mapping; the copy has room for it and for the rest of its last word, which
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

    /// That range of the first half itself, in the process that writes to the second. `None` where it is not all there.
    ///
    /// The other process is trusted not to write there while the bytes, or copies of them, live.
    pub(crate) fn inputs(self: &Arc<Mapping>, at: usize, len: usize) -> Option<Bytes> {
        let end = at.checked_add(len)?;
        if self.own.start < end {
            return None;
        }
        Some(Bytes::from_owner(Inputs { mapping: self.clone(), at, len }))
    }

    /// Where in the mapping these bytes lie, if they do.
    pub(crate) fn place_of(&self, bytes: &[u8]) -> Option<usize> {
        let at = (bytes.as_ptr() as usize).checked_sub(self.base.as_ptr() as usize)?;
        self.holds(at, bytes.len()).then_some(at)
    }

    /// Gives the memory of that range back to the system; it reads as zeros from then on.
    pub(crate) fn give_back(&self, at: usize, len: usize) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, flags, at as u64, len as u64)?)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is that of `map`, and nothing refers to it any more: whatever does holds this value.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
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

struct Inputs {
    mapping: Arc<Mapping>,
    at: usize,
    len: usize,
}

impl AsRef<[u8]> for Inputs {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range is within the mapping, which lives as long as this value. Nothing in this process writes
        // there, and the other one does not while this lives.
        unsafe { std::slice::from_raw_parts(self.mapping.base.as_ptr().add(self.at), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_what_either_writes() {
        let ours = Mapping::create(1 << 20).unwrap();
        let theirs = Arc::new(Mapping::open(ours.file().try_clone_to_owned().unwrap()).unwrap());
        assert_eq!(theirs.len(), 1 << 20);
        ours.write(4096, b"some bytes").unwrap();
        let seen = theirs.inputs(4096, 10).unwrap();
        assert_eq!(&seen[..], b"some bytes");
        assert_eq!(theirs.place_of(&seen[5..]), Some(4101));
        assert_eq!(theirs.place_of(b"elsewhere"), None);
        theirs.write(1 << 19, b"an answer").unwrap();
        assert_eq!(&ours.read(1 << 19, 9).unwrap()[..], b"an answer");
        assert_eq!(ours.read(1 << 19, 9).unwrap().as_ptr() as usize % 8, 0);
    }

    #[test]
    fn nothing_outside_is_reached_and_each_side_writes_to_its_half() {
        let ours = Arc::new(Mapping::create(8192).unwrap());
        let theirs = Arc::new(Mapping::open(ours.file().try_clone_to_owned().unwrap()).unwrap());
        assert!(ours.write(4090, b"seven..").is_none());
        assert!(theirs.write(4090, b"seven..").is_none());
        assert!(theirs.write(8186, b"seven..").is_none());
        assert!(ours.read(8192, 1).is_none());
        assert!(ours.read(usize::MAX, 2).is_none());
        assert!(ours.inputs(0, 1).is_none());
        assert!(theirs.inputs(4096, 1).is_none());
        assert!(theirs.inputs(1, usize::MAX).is_none());
        assert!(ours.read(8192, 0).is_some_and(|it| it.is_empty()));
    }

    #[test]
    fn nobody_makes_the_file_shorter_and_what_is_given_back_reads_as_zeros() {
        let mapping = Mapping::create(8192).unwrap();
        assert!(rustix::fs::ftruncate(mapping.file(), 0).is_err());
        assert_eq!(mapping.bytes_in_use(), 0);
        mapping.write(0, b"gone").unwrap();
        assert_eq!(mapping.bytes_in_use(), 4096);
        mapping.give_back(0, 4096).unwrap();
        assert_eq!(mapping.bytes_in_use(), 0);
        assert_eq!(&mapping.read(0, 4).unwrap()[..], [0; 4]);
        let unsealed = rustix::fs::memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(Mapping::open(unsealed).is_err());
    }
}
