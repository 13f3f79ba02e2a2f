//! Files of weights that a session is made of where they lie: while it is made, nobody can write to them, and
//! afterwards it has none of their pages.
//!
//! A lease of Linux keeps whoever wants to write or to cut a file waiting for as long as
//! `/proc/sys/fs/lease-break-time` says, 45 s unless it was changed. Only a file that nobody has open for writing
//! can be leased, by its owner. Source: fcntl(2), "Leases".

use std::{
    ffi::c_int,
    fs::{self, File},
    io,
    os::fd::{AsFd, AsRawFd},
    path::PathBuf,
    ptr,
};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::{native::Native, own_tensor::OwnTensor};

/// File systems of this machine. On others, files may change by another machine's hand.
const LOCAL: [u64; 6] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0xf2f5_2010, // F2FS
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs
];

/// The signal that says that somebody waits. The number is the kernel's, on all architectures that we know.
const F_SETSIG: c_int = 10;

/// The longest page that a processor has here.
const PAGE: usize = 64 << 10;

/// Leases of files. They end when dropped.
pub(crate) struct Leases(Vec<(PathBuf, File)>);

impl Leases {
    /// Of these files. Blocking.
    ///
    /// # Errors
    /// Where one of them cannot be leased.
    pub(crate) fn of(paths: impl Iterator<Item = PathBuf>) -> io::Result<Leases> {
        let lease = |path: PathBuf| {
            let file = backend::open_file(&path)?;
            // The field's type is another on each architecture.
            let kind = rustix::fs::fstatfs(&file)?.f_type as u64 & 0xffff_ffff;
            if !LOCAL.contains(&kind) {
                return Err(io::Error::other(format!("a file system of type {kind:#x}")));
            }
            // Who waits is told of by a signal, which is to be one that does nothing.
            lease_call(&file, F_SETSIG, libc::SIGURG)?;
            lease_call(&file, libc::F_SETLEASE, libc::F_RDLCK)?;
            Ok((path, file))
        };
        paths.map(lease).collect::<io::Result<_>>().map(Leases)
    }

    /// Those weights of these files, in memory. Blocking.
    pub(crate) fn read(
        &self,
        native: &Native,
        weights: &[graphs::Plain],
    ) -> io::Result<Vec<OwnTensor>> {
        let read = |weight: &graphs::Plain| {
            let name =
                |it: &&(PathBuf, File)| it.0.file_name().is_some_and(|it| *it == *weight.file);
            let (_, file) = self.0.iter().find(name).ok_or(io::ErrorKind::NotFound)?;
            OwnTensor::read(native, weight, file)
        };
        weights.iter().map(read).collect()
    }

    /// That nobody waits to write, and that no page of these files is mapped in this process any more.
    ///
    /// # Errors
    /// Where that is not so, or cannot be found out.
    pub(crate) fn check(&self) -> io::Result<()> {
        for (path, file) in &self.0 {
            if lease_call(file, libc::F_GETLEASE, 0)? != libc::F_RDLCK {
                return Err(io::Error::other(format!("{} is to be written", path.display())));
            }
            if is_mapped(file)? {
                let text = format!("{} is still in use after the load", path.display());
                return Err(io::Error::other(text));
            }
        }
        Ok(())
    }
}

fn lease_call(file: &File, what: c_int, value: c_int) -> io::Result<c_int> {
    // SAFETY: the file is open; these calls take one number and touch no memory.
    match unsafe { libc::fcntl(file.as_raw_fd(), what, value) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// Has this process a page of the file mapped? File systems on top of others tell of another device than the file's
/// own, so a page that is mapped for this shows what to look for.
fn is_mapped(file: &File) -> io::Result<bool> {
    // SAFETY: a new mapping at a place that the kernel chooses, which nobody else knows and nothing reads.
    let page = unsafe {
        mmap(ptr::null_mut(), PAGE, ProtFlags::READ, MapFlags::PRIVATE, file.as_fd(), 0)?
    };
    let maps = fs::read_to_string("/proc/self/maps");
    // SAFETY: the mapping from above, which nothing uses.
    unsafe { munmap(page, PAGE)? };
    let own = format!("{:x}-", page.addr());
    count_like(&maps?, &own).map(|it| it > 1)
}

/// How many lines of `/proc/self/maps` are of the file of the line that begins so.
fn count_like(maps: &str, own: &str) -> io::Result<usize> {
    // Device and inode.
    let file_of = |line: &str| -> Option<(String, String)> {
        let mut words = line.split_ascii_whitespace().skip(3);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    let own = maps.lines().find(|it| it.trim_start_matches('0').starts_with(own)).and_then(file_of);
    let own = own.ok_or_else(|| io::Error::other("a page that was mapped is not in the list"))?;
    Ok(maps.lines().filter_map(file_of).filter(|it| *it == own).count())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use std::path::Path;

    use super::*;

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("muster-lease-{name}-{}", std::process::id()));
        fs::write(&path, "weights").unwrap();
        path
    }

    fn lease(path: &Path) -> io::Result<Leases> {
        Leases::of(std::iter::once(path.to_owned()))
    }

    #[test]
    fn a_file_that_somebody_has_open_for_writing_is_not_leased_and_one_who_comes_is_noticed() {
        let path = file("writer");
        let writer = File::options().append(true).open(&path).unwrap();
        assert!(lease(&path).is_err());
        drop(writer);
        let leases = lease(&path).unwrap();
        leases.check().unwrap();
        // Who does not wait is told to, and that he was there is seen.
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        let refused = rustix::fs::open(&path, flags, rustix::fs::Mode::empty());
        assert_eq!(refused.err(), Some(rustix::io::Errno::WOULDBLOCK));
        let error = leases.check().unwrap_err().to_string();
        assert!(error.contains("is to be written"), "{error}");
        drop(leases);
        File::options().append(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_page_that_is_still_mapped_is_noticed() {
        let path = file("mapped");
        let leases = lease(&path).unwrap();
        let file = File::open(&path).unwrap();
        // SAFETY: a new mapping, which nothing reads.
        let page = unsafe {
            let (flags, none) = (MapFlags::PRIVATE, ptr::null_mut());
            mmap(none, 1, ProtFlags::READ | ProtFlags::WRITE, flags, file.as_fd(), 0).unwrap()
        };
        let error = leases.check().unwrap_err().to_string();
        assert!(error.contains("still in use"), "{error}");
        // SAFETY: the mapping from above.
        unsafe { munmap(page, 1).unwrap() };
        leases.check().unwrap();
        fs::remove_file(&path).unwrap();
    }
}
